"""Speed of getting frames out of a video, beside what others offer, in one run.

    python benchmarks/decode.py [--runs 5]

One generated clip of 60 s 1080p H.264 (three B-frames, key frames up to 8 s apart, a cut every 6 s, the frame number
burnt in): eight uniform frames at 224 px, and the default windows with eight frames each. Every answer is checked by
its barcodes: a peer that is fast and wrong is shown as wrong. Times are the best of the runs, which take turns; beside
the time on the clock stands that of the processors, which says more on a machine that is busy with other things.
Peers that are not installed are skipped, and named: pip install opencv-python-headless torchcodec decord
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from clips import Scene, read_barcodes, write_clip  # noqa: E402
from reelspace.item import Span  # noqa: E402
from reelspace.media.decode import Video, sample  # noqa: E402
from reelspace.media.policy import Sampling, Uniform  # noqa: E402
from reelspace.media.reader import Closed, Reader, ScanJob, WindowRead  # noqa: E402
from reelspace.media.windows import Shots  # noqa: E402

SECONDS, COUNT, EDGE = 60, 1800, 224
WANTED = [round(index) for index in np.linspace(0, COUNT - 1, 8)]
SAMPLING = Sampling(Uniform(8), edge=EDGE)


def clip() -> Path:
    """The clip, made once."""
    path = ROOT / ".cache" / "benchmarks" / "1080p.mp4"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print("making the clip …", file=sys.stderr)
        scenes = [Scene(6, seed=number, pan=0.05) for number in range(SECONDS // 6)]
        options = {"preset": "veryfast", "crf": "23", "sc_threshold": "40", "keyint_min": "25"}
        unfinished = path.with_name("unfinished.mp4")
        write_clip(unfinished, size=(1920, 1080), scenes=scenes, gop=250, bframes=3, options=options)
        unfinished.rename(path)
    return path


def reelspace(path: Path) -> np.ndarray:
    """What this package does."""
    return sample(Span(path), SAMPLING).pixels


def pyav_sequential(path: Path) -> np.ndarray:
    """Decode everything, keep what is wanted."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        frames = (frame for number, frame in enumerate(container.decode(stream)) if number in WANTED)
        return np.stack([frame.reformat(398, EDGE, format="rgb24").to_ndarray() for frame in frames])


def pyav_naive_seek(path: Path) -> np.ndarray:
    """What many scripts do: seek to index / fps, take the first frame not before it."""
    out = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        for number in WANTED:
            target = number / stream.average_rate
            container.seek(int(target / stream.time_base), stream=stream)
            frame = next(frame for frame in container.decode(stream) if frame.time >= target - 1e-6)
            out.append(frame.reformat(398, EDGE, format="rgb24").to_ndarray())
    return np.stack(out)


def opencv(path: Path) -> np.ndarray:
    """Set the position, read."""
    import cv2

    capture, out = cv2.VideoCapture(str(path)), []
    for number in WANTED:
        capture.set(cv2.CAP_PROP_POS_FRAMES, number)
        _, frame = capture.read()
        out.append(cv2.resize(frame, (398, EDGE), interpolation=cv2.INTER_AREA)[:, :, ::-1])
    capture.release()
    return np.stack(out)


def torchcodec(path: Path) -> np.ndarray:
    """Its exact mode, frames by index."""
    from torchcodec.decoders import VideoDecoder

    frames = VideoDecoder(str(path), dimension_order="NHWC").get_frames_at(WANTED).data
    return frames.numpy()


def decord(path: Path) -> np.ndarray:
    """Frames by index."""
    from decord import VideoReader

    return VideoReader(str(path), width=398, height=EDGE).get_batch(WANTED).asnumpy()


PEERS: dict[str, tuple[Callable[[Path], np.ndarray], str]] = {
    "reelspace": (reelspace, "av"),
    "PyAV, sequential": (pyav_sequential, "av"),
    "PyAV, naive seek": (pyav_naive_seek, "av"),
    "OpenCV, seek": (opencv, "cv2"),
    "torchcodec": (torchcodec, "torchcodec"),
    "decord": (decord, "decord"),
}


class Stopwatch:
    """The least time on the clock, and of all processors, that a block of code took in several runs; in seconds."""

    def __init__(self) -> None:
        self.clock = self.processors = np.inf

    def __enter__(self) -> None:
        self._begun = time.perf_counter(), self._used()

    def __exit__(self, *_: object) -> None:
        clock, processors = self._begun
        self.clock = min(self.clock, time.perf_counter() - clock)
        self.processors = min(self.processors, self._used() - processors)

    def _used(self) -> float:
        used = os.times()
        return used.user + used.system + used.children_user + used.children_system

    def __str__(self) -> str:
        return f"{self.clock * 1000:7.0f} ms {self.processors * 1000:7.0f} ms"


def uniform_frames(path: Path, runs: int) -> None:
    """Prints the table of peers."""
    there = [name for name, (_, module) in PEERS.items() if importlib.util.find_spec(module)]
    watches, right = {name: Stopwatch() for name in there}, dict[str, bool]()
    for _ in range(runs):
        for name in there:
            with watches[name]:
                pixels = PEERS[name][0](path)
            right[name] = read_barcodes(pixels) == WANTED
    print(f"8 uniform frames of {SECONDS} s 1080p           clock   processors   clock / ours")
    ours = watches["reelspace"].clock
    for name in PEERS:
        if name in there:
            watch = watches[name]
            print(f"  {name:30} {watch} {watch.clock / ours:8.2f} ×  {'right' if right[name] else 'WRONG'}")
        else:
            print(f"  {name:30} not installed: skipped")


def default_windows(path: Path, runs: int) -> None:
    """Prints how fast the default windows are read, beside decoding every frame once."""
    scan, whole = Stopwatch(), Stopwatch()
    for _ in range(runs):
        with scan, Reader(workers=1) as reader:
            events = list(reader.scan([ScanJob(path, Shots(), SAMPLING)]))
        assert isinstance(events[-1], Closed)
        with whole, av.open(str(path)) as container:
            container.streams.video[0].thread_type = "AUTO"
            assert sum(1 for _ in container.decode(video=0)) == COUNT
    windows = [event for event in events if isinstance(event, WindowRead)]
    with Video(path) as video:
        for event in windows:
            first, last = video.displayed(event.start, event.end)
            expected = [first + round(index) for index in np.linspace(0, last - first - 1, 8)]
            assert read_barcodes(event.frames.pixels) == expected
    print(f"{len(windows)} default windows of it, 8 frames each, all right")
    for name, watch in (("reelspace, a worker started", scan), ("decoding alone", whole)):
        print(f"  {name:30} {watch} {SECONDS / watch.clock:8.1f} × real time")


def main() -> None:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    path = clip()
    print(f"Python {sys.version.split()[0]}, PyAV {av.__version__}")
    uniform_frames(path, runs)
    default_windows(path, runs)


if __name__ == "__main__":
    main()
