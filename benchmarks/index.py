"""Speed of indexing 1080p H.264 with `lite`, in hours of video an hour. Markdown on stdout.

    python benchmarks/index.py [--seconds 60] [--files 4] [--fast-files 32] [--runs 3] [--clips easy busy]

For the default windows and for `--fast`: the whole of `reelspace index` (but for loading the model), beside reading
alone under the same sampling (`Reader`: the same windows and frames, nothing embedded), embedding alone (the model,
given those frames), decoding alone (the limit: by PyAV, every frame or every key frame, as the sampling looks at them
all to find the shots; those that are embedded are scaled, and nothing else), and the same frames of the same windows
written with OpenCV (all frames grabbed, those that are wanted retrieved and scaled; it is told the windows and finds
none itself). Ways take turns; the figures are the best of the runs. What is done in processes apart counts.

The files are copies of one clip with other bytes. `lite` remembers pictures that it has seen, which would spare all
copies but the first; here it remembers only those of the window before. Of key frames a minute is over in a moment, so
that starting processes would be most of what is measured: of easy content `--fast` has more files. OpenCV, that must
grab every frame, gets only as many of them as the default windows have. So all ratios are of rates.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import long_clips
import numpy as np
from av.video.reformatter import VideoReformatter

from reelspace import Item, Library, embed
from reelspace.embed.lite import vision
from reelspace.index.indexer import BATCH
from reelspace.media.decode import Video
from reelspace.media.reader import Reader, ScanJob, WindowRead
from reelspace.media.windows import Shots

vision.REMEMBERED = 4
LITE = embed.load("lite")
SAMPLING = LITE.sampling
SIZE = (398, 224)


def index(library: Library, paths: list[Path], fast: bool) -> None:
    """The whole of it, into an empty library whose model is loaded; the check of the model that each run begins with
    is part of it.
    """
    library.index(*paths, fast=fast)
    library._reader.close()  # the time of processes counts when they have ended
    library.remove(*paths)


def reading(paths: list[Path], fast: bool) -> Iterator[WindowRead]:
    """The windows and frames that are embedded."""
    with Reader() as reader:
        jobs = [ScanJob(path, Shots(fast=fast), SAMPLING, thumbnails=True) for path in paths]
        yield from (event for event in reader.scan(jobs) if isinstance(event, WindowRead))


def decoding(paths: list[Path], fast: bool, wanted: dict[Path, set[int]]) -> None:
    """Every frame or every key frame; those that are wanted are scaled."""
    scaler = VideoReformatter()
    for path in paths:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.thread_type, stream.codec_context.skip_frame = "AUTO", "NONKEY" if fast else "DEFAULT"
            for frame in container.decode(stream):
                if round(frame.time * stream.average_rate) in wanted[path]:
                    scaler.reformat(frame, *SIZE, "rgb24", interpolation="BICUBIC", threads=1).to_ndarray()


def opencv(paths: list[Path], wanted: dict[Path, set[int]]) -> None:
    """Frames by number, in one pass."""
    import cv2

    for path in paths:
        capture = cv2.VideoCapture(str(path))
        for number in range(max(wanted[path]) + 1):
            capture.grab()
            if number in wanted[path]:
                cv2.resize(capture.retrieve()[1], SIZE, interpolation=cv2.INTER_AREA)
        capture.release()


def embedding(items: list[Item]) -> None:
    """In batches, as `index` has them."""
    for start in range(0, len(items), BATCH):
        LITE.encode_candidate(items[start : start + BATCH])


def needed(paths: list[Path], fast: bool) -> tuple[dict[Path, set[int]], list[Item]]:
    """Numbers of the frames that are embedded, by file; and the windows as the model takes them."""
    found: dict[Path, set[int]] = {path: set() for path in paths}
    times, items = {}, []
    for path in paths:
        with Video(path) as video:
            times[path] = video.times
    for event in reading(paths, fast):
        items.append(Item(video=event.frames))
        found[event.path] |= set(np.searchsorted(times[event.path], event.frames.times - 1e-6).tolist())
    return found, items


class Figures:
    """The least times of one way, in seconds: on the clock, of all processors."""

    def __init__(self) -> None:
        self.clock = self.processors = np.inf

    def take(self, way: Callable[[], object]) -> None:
        """One run."""
        begun, used = time.perf_counter(), _processors()
        way()
        self.clock = min(self.clock, time.perf_counter() - begun)
        self.processors = min(self.processors, _processors() - used)


def _processors() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def measure(paths: list[Path], few: int, seconds: float, fast: bool, runs: int) -> None:
    """Prints the lines of one kind of windows. `few`: how many of the files OpenCV gets; `seconds`: of each file."""
    wanted, items = needed(paths, fast)
    windows = len(items)
    folder = tempfile.TemporaryDirectory()
    library = Library.open(folder.name, model="lite")
    index(library, paths[:1], True)  # loads the model
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "reelspace index": (lambda: index(library, paths, fast), len(paths)),
        "reading alone, the same windows": (lambda: sum(1 for _ in reading(paths, fast)), len(paths)),
        "embedding alone, the same windows": (lambda: embedding(items), len(paths)),
        "decoding alone": (lambda: decoding(paths, fast, wanted), len(paths)),
    }
    try:
        import cv2  # noqa: F401

        ways["OpenCV, the same frames"] = (lambda: opencv(paths[:few], wanted), few)
    except ImportError:
        print("OpenCV is not installed: skipped", file=sys.stderr)
    figures = {name: Figures() for name in ways}
    for _ in range(runs):
        for name, (way, _) in ways.items():
            figures[name].take(way)
    rates = {
        name: (ways[name][1] * seconds / one.clock, ways[name][1] * seconds / one.processors)
        for name, one in figures.items()
    }
    ours = rates["reelspace index"]
    for name, (clock, processors) in rates.items():
        print(
            f"| {'--fast' if fast else 'default'}, {windows} windows | {name} | {clock:.1f} | "
            f"{3600 / clock:.1f} / {3600 / processors:.1f} | {clock / ours[0]:.2f} / {processors / ours[1]:.2f} |",
            flush=True,
        )
    library.close()
    folder.cleanup()


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=60, help="length of a clip")
    parser.add_argument("--files", type=int, default=4, help="copies that are indexed together")
    parser.add_argument("--fast-files", type=int, default=32, help="the same of easy content with --fast")
    parser.add_argument("--clips", nargs="+", default=["easy", "busy"], choices=["easy", "busy"])
    parser.add_argument("--kinds", nargs="+", default=["default", "fast"], choices=["default", "fast"])
    arguments = parser.parse_args()
    LITE.encode_candidate([])
    with tempfile.TemporaryDirectory(
        dir=long_clips.FOLDER.parent if long_clips.FOLDER.parent.exists() else None
    ) as folder:
        for name in arguments.clips:
            clip = getattr(long_clips, name)(arguments.seconds)
            print(f"\n### {arguments.seconds} s of 1080p H.264, {name}\n")
            print("| windows | way | × real time | s an hour of video, on the clock / of all processors | ours to it |")
            print("|---|---|---|---|---|")
            for kind in arguments.kinds:
                count = arguments.fast_files if (name, kind) == ("easy", "fast") else arguments.files
                paths = [_copied(clip, Path(folder), number) for number in range(count)]
                measure(paths, min(count, arguments.files), arguments.seconds, kind == "fast", arguments.runs)


def _copied(clip: Path, folder: Path, number: int) -> Path:
    """A copy with other bytes: the same content would be read once."""
    path = folder / f"{clip.stem}-{number}.mp4"
    shutil.copyfile(clip, path)
    with path.open("ab") as file:
        file.write(b"\x00\x00\x00\x0cfree" + number.to_bytes(4, "big"))
    return path


if __name__ == "__main__":
    main()
