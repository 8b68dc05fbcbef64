"""Scene → video file: the same bytes for the same scene and the same version of PyAV; made once, then kept."""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
from numpy.typing import NDArray

from reelspace.worlds.render import draw, picture
from reelspace.worlds.scene import Scene


def encode(frames: Iterable[NDArray[np.uint8]], *, size: int, rate: int, quantiser: int) -> bytes:
    """H.264 in MP4, one thread, no date inside.

    Every frame is coded alone with one quantiser, so frames that are equal stay equal after compression: two
    films of the same frames in different orders differ in nothing but the order.

    Args:
        frames: uint8 `[size, size, 3]` each, RGB.
        rate: frames a second.
        quantiser: 0 to 51.
    """
    import av

    file = io.BytesIO()
    options = {"preset": "ultrafast", "qp": str(quantiser), "g": "1", "x264-params": "threads=1:sliced-threads=0"}
    with av.open(file, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", rate=rate, options=options | {"flags": "+bitexact"})
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.time_base = Fraction(1, rate)
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def film(scene: Scene) -> bytes:
    """The scene as an MP4 file."""
    return encode(draw(scene), size=scene.size, rate=scene.rate, quantiser=scene.quantiser)


def write(data: bytes, path: Path) -> Path:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(data)
            file.flush()
            part.chmod(0o644)
        except BaseException:
            part.unlink()
            raise
    return part.replace(path)


def cached(scene: Scene, folder: str | Path) -> Path:
    """The scene's file in a cache folder, made if it is not there. Several processes may share the folder."""
    path = Path(folder) / scene.key[:2] / f"{scene.key}.mp4"
    return path if path.exists() else write(film(scene), path)


def picture_file(scene: Scene, frame: int, folder: str | Path) -> Path:
    """One frame of a scene as a PNG in a cache folder, made if it is not there."""
    from PIL import Image

    path = Path(folder) / scene.key[:2] / f"{scene.key}-{frame}.png"
    if path.exists():
        return path
    file = io.BytesIO()
    number, at = scene.at(frame)
    Image.fromarray(picture(scene.shots[number], at, scene.size)).save(file, "PNG")
    return write(file.getvalue(), path)
