"""Animated WebP, which FFmpeg does not decode: made into a video in memory, to the bit, by Pillow."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from reelspace.media.files import failure

MOMENT = 100  # milliseconds that a frame without a duration is shown for, as browsers do


def remade(path: Path, tick: Callable[[], None]) -> bytes | None:
    """The animation as a Matroska file with a key frame each; None if the file is anything else.

    Raises:
        MediaError: it is damaged.
    """
    with path.open("rb") as file:
        head = file.read(21)
    if not (head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and head[20] & 2):
        return None
    import PIL.Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            return _remade(path, tick)
    except (OSError, SyntaxError, ValueError, EOFError, PIL.Image.DecompressionBombError) as error:
        raise failure(path, f"the animation is damaged ({error})") from None


def _remade(path: Path, tick: Callable[[], None]) -> bytes:
    import av
    import PIL.Image

    from reelspace.media.image import rgb

    out = io.BytesIO()
    with PIL.Image.open(path, formats=["WEBP"]) as image, av.open(out, "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = *image.size, "bgr0", 1
        stream.codec_context.time_base = Fraction(1, 1000)
        time = 0
        for number in range(getattr(image, "n_frames", 1)):
            tick()
            image.seek(number)
            frame = av.VideoFrame.from_ndarray(rgb(image), "rgb24").reformat(format="bgr0")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            frame.duration = int(image.info.get("duration") or MOMENT)
            time += frame.duration
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return out.getvalue()
