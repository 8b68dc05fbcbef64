"""Speed of getting frames out of a video, beside what others offer, in one run. Markdown on stdout.

    python benchmarks/decode.py [--seconds 60] [--runs 5] [--clips easy busy matrix]

Three samplings, at 224 px: 8 uniform frames, one frame a second, every key frame. Of clips of 1080p H.264, easy and
busy, and of the files that the tests generate (`matrix`; 8 uniform frames). Every answer is judged by the barcodes of
its frames: who is fast and wrong is wrong. Peers take turns (A B C A B C …). The figures are the least time on the
clock and of all processors, the latter more telling on a machine that is busy with other things. The last line of each
table is the ratio of ours to the fastest peer that is right. Of the two clips, and in the tests of all others, our
pictures are compared to the bit with those of decoding everything from the beginning.
Peers that are not installed are skipped, and named: pip install opencv-python-headless decord torchcodec==0.13.0
(torchcodec needs FFmpeg's libraries: apt-get install ffmpeg).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path

import av
import long_clips
import numpy as np

from clips import every_frame, plain_pictures, read_barcodes
from reelspace.media.decode import Video

sys.path.insert(0, str(long_clips.ROOT / "tests" / "media"))
EDGE = 224

Pictures = list[np.ndarray]
Reading = Callable[[Path, Sequence[int], tuple[int, int]], Pictures]


def reelspace(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Frames by index from the table of displayed frames."""
    with Video(path) as video:
        return list(video.frames(numbers, edge=EDGE))


def reelspace_keys(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Key frames alone."""
    with Video(path, keys=True) as video:
        return list(video.frames(range(len(video.times)), edge=EDGE))


def pyav_sequential(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Decode everything, keep what is wanted."""
    wanted, found = set(numbers), {}
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        for number, frame in enumerate(container.decode(stream)):
            if number in wanted:
                found[number] = frame.reformat(*size, format="rgb24").to_ndarray()
                if len(found) == len(wanted):
                    break
    return [found[number] for number in numbers]


def pyav_naive_seek(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """What many scripts do: seek to index / fps, take the first frame not before it."""
    out = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        for number in numbers:
            target = number / stream.average_rate
            container.seek(int(target / stream.time_base), stream=stream)
            frame = next(frame for frame in container.decode(stream) if frame.time >= target - 1e-6)
            out.append(frame.reformat(*size, format="rgb24").to_ndarray())
    return out


def pyav_key_frames(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """`skip_frame = NONKEY`."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.skip_frame = "AUTO", "NONKEY"
        return [frame.reformat(*size, format="rgb24").to_ndarray() for frame in container.decode(stream)]


def opencv_seek(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Set the position, read."""
    import cv2

    capture, out = cv2.VideoCapture(str(path)), []
    for number in numbers:
        capture.set(cv2.CAP_PROP_POS_FRAMES, number)
        out.append(_resized(capture.read()[1], size))
    capture.release()
    return out


def opencv_grab(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Grab every frame, retrieve those that are wanted."""
    import cv2

    capture, wanted, out = cv2.VideoCapture(str(path)), set(numbers), {}
    for number in range(max(numbers) + 1):
        capture.grab()
        if number in wanted:
            out[number] = _resized(capture.retrieve()[1], size)
    capture.release()
    return [out[number] for number in numbers]


def _resized(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    import cv2

    return cv2.resize(frame, size, interpolation=cv2.INTER_AREA)[:, :, ::-1]


def torchcodec(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Its exact mode, frames by index."""
    from torchcodec.decoders import VideoDecoder

    return list(VideoDecoder(str(path), dimension_order="NHWC").get_frames_at(list(numbers)).data.numpy())


def torchcodec_approximate(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Its approximate mode: no pass over the packets."""
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(str(path), dimension_order="NHWC", seek_mode="approximate")
    return list(decoder.get_frames_at(list(numbers)).data.numpy())


def decord(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
    """Frames by index."""
    from decord import VideoReader

    return list(VideoReader(str(path), width=size[0], height=size[1]).get_batch(list(numbers)).asnumpy())


PEERS: dict[str, tuple[Reading, str]] = {
    "reelspace": (reelspace, "av"),
    "torchcodec": (torchcodec, "torchcodec"),
    "torchcodec, approximate": (torchcodec_approximate, "torchcodec"),
    "decord": (decord, "decord"),
    "OpenCV, seek": (opencv_seek, "cv2"),
    "OpenCV, grab": (opencv_grab, "cv2"),
    "PyAV, sequential": (pyav_sequential, "av"),
    "PyAV, naive seek": (pyav_naive_seek, "av"),
}
KEY_PEERS = PEERS | {"reelspace": (reelspace_keys, "av"), "PyAV, skip_frame": (pyav_key_frames, "av")}


class Figures:
    """The least times of one peer on one task, and whether it was right."""

    def __init__(self) -> None:
        self.clock = self.processors = np.inf
        self.right = True

    def take(self, reading: Reading, path: Path, numbers: Sequence[int], size: tuple[int, int]) -> None:
        """One run."""
        begun, used = time.perf_counter(), _processors()
        try:
            pictures = reading(path, numbers, size)
        except Exception:
            pictures = []
        self.clock = min(self.clock, time.perf_counter() - begun)
        self.processors = min(self.processors, _processors() - used)
        self.right = self.right and read_barcodes(pictures) == list(numbers)

    def __str__(self) -> str:
        figures = f"{self.clock * 1000:.0f} / {self.processors * 1000:.0f}"
        return figures if self.right else f"wrong ({figures})"


def _processors() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(tasks: dict[str, tuple[Path, Sequence[int], dict]], runs: int) -> dict[str, dict[str, Figures]]:
    """Figures by task and peer."""
    figures: dict[str, dict[str, Figures]] = {}
    for task, (path, numbers, peers) in tasks.items():
        with Video(path) as video:
            scale = min(1.0, EDGE / min(video.width, video.height))
            size = (round(video.width * scale), round(video.height * scale))
        there = {name: reading for name, (reading, module) in peers.items() if importlib.util.find_spec(module)}
        figures[task] = {name: Figures() for name in there}
        for _ in range(runs):
            for name, reading in there.items():
                figures[task][name].take(reading, path, numbers, size)
    return figures


def table(title: str, figures: dict[str, dict[str, Figures]]) -> None:
    """Prints tasks as columns, peers as rows."""
    names = list(dict.fromkeys(name for column in figures.values() for name in column))
    print(f"\n### {title}: ms on the clock / of all processors\n")
    print(f"| | {' | '.join(figures)} |")
    print(f"|---|{'---|' * len(figures)}")
    for name in names:
        print(f"| {name} | {' | '.join(str(column.get(name, '')) for column in figures.values())} |")
    print(f"| **ours / fastest that is right** | {' | '.join(map(ratio, figures.values()))} |")


def ratio(column: dict[str, Figures]) -> str:
    """Ours to the fastest peer that is right: by the clock / by the processors."""
    ours = column["reelspace"]
    others = [one for name, one in column.items() if name != "reelspace" and one.right]
    if not ours.right:
        return "WRONG"
    if not others:
        return "none is"
    clock, used = (min(getattr(one, kind) for one in others) for kind in ("clock", "processors"))
    return f"{ours.clock / clock:.2f} / {ours.processors / used:.2f}"


def clip_tasks(path: Path) -> dict[str, tuple[Path, Sequence[int], dict]]:
    """The three samplings of one clip."""
    with Video(path) as video, Video(path, keys=True) as keys:
        uniform = [round(index) for index in np.linspace(0, len(video.times) - 1, 8)]
        every_second = [video.index_at(second) for second in range(int(video.duration))]
        key_frames = [video.index_at(time) for time in keys.times]
    return {
        "8 uniform": (path, uniform, PEERS),
        "1 fps": (path, every_second, PEERS),
        f"{len(key_frames)} key frames": (path, key_frames, KEY_PEERS),
    }


def differing(tasks: dict[str, tuple[Path, Sequence[int], dict]]) -> dict[str, int]:
    """How many of our pictures are not, to the bit, those of decoding everything from the beginning; by task."""
    paths = {path for path, _, _ in tasks.values()}
    (path,) = paths
    plain = plain_pictures(path, {number for _, numbers, _ in tasks.values() for number in numbers}, EDGE)
    found = {}
    for task, (_, numbers, peers) in tasks.items():
        ours = peers["reelspace"][0](path, numbers, (0, 0))
        found[task] = sum(not np.array_equal(one, plain[n]) for one, n in zip(ours, numbers, strict=True))
    return found


def matrix_tasks(folder: Path) -> dict[str, tuple[Path, Sequence[int], dict]]:
    """8 uniform frames of every kind of file of the tests."""
    from conftest import KINDS

    tasks = {}
    for kind in KINDS:
        path = kind.write(folder)
        if kind.settings.get("barcode", True):
            turned = (kind.settings.get("rotation", 0), kind.settings.get("mirror", False))
            shown = every_frame(path, *turned, kind.rate)[0]
            tasks[kind.name] = path, [shown[round(at)] - kind.first for at in np.linspace(0, len(shown) - 1, 8)], PEERS
    return tasks


def matrix(runs: int) -> None:
    """Prints who is right on how many kinds, and where ours is not among the fastest."""
    from conftest import KINDS

    first = {kind.name: kind.first for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        tasks = matrix_tasks(Path(folder))
        shifted = {name: _shifted(peers, first[name]) for name, (_, _, peers) in tasks.items()}
        figures = measure({name: (*task[:2], shifted[name]) for name, task in tasks.items()}, runs)
    print(f"\n### {len(figures)} kinds of files, 8 uniform frames\n")
    print("| | right on |\n|---|---|")
    for name in PEERS:
        known = [column[name] for column in figures.values() if name in column]
        print(f"| {name} | {sum(one.right for one in known)} of {len(known)} |" if known else f"| {name} | – |")
    print("\n| kind | ours, ms | fastest that is right, ms | ratio, clock / processors |\n|---|---|---|---|")
    for kind, column in figures.items():
        others = {name: one for name, one in column.items() if name != "reelspace" and one.right}
        best = min(others, key=lambda name: others[name].clock, default=None)
        fastest = "none" if best is None else f"{others[best].clock * 1000:.1f} ({best})"
        print(f"| {kind} | {column['reelspace'].clock * 1000:.1f} | {fastest} | {ratio(column)} |")


def _shifted(peers: dict, first: int) -> dict:
    """Readings whose barcodes count from the first displayed frame."""
    from clips import burn_barcode, read_barcode

    def shift(reading: Reading) -> Reading:
        def read(path: Path, numbers: Sequence[int], size: tuple[int, int]) -> Pictures:
            pictures = [np.array(picture) for picture in reading(path, numbers, size)]
            for picture in pictures if first else ():
                number = read_barcode(picture)
                burn_barcode(picture, 0xFFFF if number is None else number - first)
            return pictures

        return read

    return {name: (shift(reading), module) for name, (reading, module) in peers.items()}


def versions() -> str:
    """Of everything that is compared."""
    names = ("av", "torchcodec", "decord", "opencv-python-headless")
    found = [f"{name} {importlib.metadata.version(name)}" for name in names if _installed(name)]
    missing = [name for name in names if not _installed(name)]
    return f"Python {sys.version.split()[0]}, {', '.join(found)}" + (f"; not installed: {missing}" if missing else "")


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=60, help="length of the two clips")
    parser.add_argument("--clips", nargs="+", default=["easy", "busy", "matrix"], choices=["easy", "busy", "matrix"])
    arguments = parser.parse_args()
    print(versions())
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        for name in ("easy", "busy"):
            if name in arguments.clips:
                path = getattr(long_clips, name)(arguments.seconds)
                title = f"{arguments.seconds} s 1080p H.264, {name}"
                table(title, measure(tasks := clip_tasks(path), arguments.runs))
                print(f"\nPictures that are not those of sequential decoding to the bit: {differing(tasks)}")
        if "matrix" in arguments.clips:
            matrix(arguments.runs)


if __name__ == "__main__":
    main()
