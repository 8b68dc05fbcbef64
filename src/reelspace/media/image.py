"""A picture → upright RGB pixels."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelspace.media.files import failure, regular

if TYPE_CHECKING:
    from PIL.Image import Image

# Formats that decode in this process and open nothing else (EPS would start Ghostscript).
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TGA", "TIFF", "WEBP")
MOST_PIXELS = 100_000_000


def load_image(image: str | os.PathLike[str] | Image | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pixels uint8 `[H, W, 3]`, RGB, upright (its EXIF orientation applied).

    Transparency is laid over white; of an animation it is the first frame; 16-bit grey keeps its upper 8 bits.

    Args:
        image: a path, a PIL image, or uint8 `[H, W, 3]` (given back as it is).

    Raises:
        MediaError: the file is missing, no picture, damaged, or larger than 100 megapixels.
    """
    if isinstance(image, np.ndarray):
        return image
    if not isinstance(image, str | os.PathLike):
        return rgb(image)
    path = regular(Path(image))
    import PIL.Image

    try:
        with warnings.catch_warnings(), path.open("rb") as file:
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # `_check` is stricter
            warnings.simplefilter("ignore", UserWarning)  # damaged metadata that the pixels do not need
            with PIL.Image.open(file, formats=FORMATS) as opened:
                _check(opened, path)
                return rgb(opened)
    except PIL.UnidentifiedImageError:
        raise failure(path, f"not a picture in a format that can be read ({', '.join(FORMATS)})") from None
    except PIL.Image.DecompressionBombError as error:
        raise failure(path, f"too large to be opened safely ({error})") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow's decoders raise on damage
        raise failure(path, f"the picture is damaged ({error})") from None


def _check(image: Image, path: Path) -> None:
    if image.mode == "F" or (image.mode == "I" and image.format == "TIFF"):
        raise failure(path, "its pixels are measurements of no known brightness; save it with 8 or 16 bits a channel")
    if image.width * image.height > MOST_PIXELS:
        raise failure(path, f"{image.width}×{image.height} pixels are too many to be opened safely; scale it down")


def rgb(image: Image) -> NDArray[np.uint8]:
    """Pixels uint8 `[H, W, 3]` of an open picture, upright, over white."""
    import PIL.Image
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # 16-bit grey: Pillow's own conversion would clip it to white
        grey = np.clip(np.asarray(image, dtype=np.int64) >> 8, 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"), dtype=np.uint8)
