"""The process that opens and decodes what nobody has checked: `python -m reelspace.media.worker`, started by `reader`.

It takes jobs on stdin and answers on stdout (`wire`), limits its own memory, tells every moment that it is alive,
and is gone as soon as its stdin closes: whatever ends the parent ends it too.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from reelspace.errors import ReelspaceError
from reelspace.item import Span
from reelspace.media import wire
from reelspace.media.about import about
from reelspace.media.check import damage
from reelspace.media.cut import write_cut
from reelspace.media.decode import Video
from reelspace.media.files import shown
from reelspace.media.foresight import Foresight
from reelspace.media.image import load_image
from reelspace.media.kept import Kept
from reelspace.media.policy import Sampling, parse_policy
from reelspace.media.probe import describe
from reelspace.media.shots import found_cuts
from reelspace.media.sound import Sound
from reelspace.media.thumbnails import thumbnail
from reelspace.media.windows import Shots, Window, Windowing, at_frames, parse_windowing, stills_joined

HEARTBEAT = 0.5  # seconds
AHEAD = 4  # windows decoded before the reader has taken them
MOST = 200_000  # windows of one file: a week of 3 s each
SECONDS, FRAMES = 10.0, 300  # of video: for so much of it a worker may work as long again as for opening it


class _Outbox:
    """Sends from a thread of its own, so that decoding goes on while the reader is busy; waits when it is far ahead."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._messages: queue.Queue[wire.Message] = queue.Queue(AHEAD)
        self._last = 0.0
        threading.Thread(target=self._send_all, daemon=True).start()

    def put(self, head: dict[str, Any], body: bytes | bytearray = b"") -> None:
        self._messages.put((head, body))
        self._last = time.monotonic()

    def tick(self) -> None:
        """Says that work goes on, where there is nothing else to hear."""
        if self._messages.empty() and time.monotonic() - self._last > HEARTBEAT:
            self.put({"event": "tick"})

    def _send_all(self) -> None:
        try:
            while True:
                wire.send(self._stream, *self._messages.get())
        except (OSError, ValueError):  # nobody listens any more
            os._exit(0)


def _jobs(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """Jobs as they come. When the stream closes the process ends at once, whatever it is doing."""
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()

    def listen() -> None:
        while (message := wire.receive(stream)) is not None:
            jobs.put(message[0])
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield jobs.get()


@contextmanager
def _opened(job: dict[str, Any], out: _Outbox, through: bool = False, keys: bool = False) -> Iterator[Video]:
    """The video of a job; what work it may take is known when its length is."""
    with Video(job["path"], out.tick, through, keys) as video:
        _limit_effort(job["effort"] * (1 + min(video.duration / SECONDS, video.count / FRAMES)))
        yield video


def _scan(job: dict[str, Any], out: _Outbox) -> None:
    sampling = _sampling(job)
    with _opened(job, out, through=True, keys=job["keys"]) as video:
        out.put({"event": "opened", "info": asdict(describe(video))})
        windows = _Windows(job["windows"], sampling, video)
        for frames in video.samples(windows, sampling, windows.kept):
            picture = thumbnail(frames) if job["thumbnails"] else b""
            out.put(*wire.frames_message("window", frames, picture))
        out.put({"event": "closed", "partial": "; ".join(filter(None, (video.partial, windows.rest))) or None})


class _Windows:
    """The windows to read, in order of time.

    Where they must be found by looking at the video, that goes on while they are drawn.

    Attributes:
        kept: frames that were found to be needed while the windows were looked for.
        rest: why there are not more windows, when all have been drawn.
    """

    def __init__(self, asked: str | Sequence[Sequence[float]], sampling: Sampling, video: Video) -> None:
        self.kept: Kept | None = None
        self.rest: str | None = None
        self._video = video
        if isinstance(asked, str):
            self._windows = self._found(parse_windowing(asked), sampling)
        else:
            inside = (Window(start, min(end, video.duration)) for start, end in asked if start < video.duration)
            self._windows = iter(sorted(inside))

    def __iter__(self) -> Iterator[Window]:
        return self._windows

    def _found(self, windowing: Windowing, sampling: Sampling) -> Iterator[Window]:
        video = self._video
        cuts: Iterator[float] = iter(())
        if windowing.needs_cuts:
            foresight = None
            if video.can_keep:
                self.kept = video.keeping(sampling, range(len(video.times)) if video.keys else ())
                if isinstance(windowing, Shots) and not video.keys:
                    foresight = Foresight(video, windowing, sampling, self.kept)
            cuts = found_cuts(video, video.skim(kept=self.kept), foresight)
        return self._divided(windowing, cuts)

    def _divided(self, windowing: Windowing, cuts: Iterator[float]) -> Iterator[Window]:
        video, last = self._video, None
        every = windowing.divide(video.duration, cuts)
        windows: Iterable[Window] = islice(every, MOST)
        if windowing.fast:
            windows = at_frames(windows, video.times, video.duration)
        for last in stills_joined(windows, video.displayed):
            yield last
        if last is not None and next(every, None) is not None:
            self.rest = f"only its first {MOST:,} windows are read, up to {last.end:.3f} s"


def _sample(job: dict[str, Any], out: _Outbox) -> None:
    with _opened(job, out) as video:
        out.put(*wire.frames_message("frames", video.sample(job["start"], job["end"], _sampling(job))))


def _image(job: dict[str, Any], out: _Outbox) -> None:
    pixels = load_image(job["path"])
    out.put({"event": "pixels", "shape": pixels.shape}, pixels.tobytes())


def _check(job: dict[str, Any], out: _Outbox) -> None:
    with _opened(job, out, through=True) as video:
        out.put(
            {"event": "checked", "info": asdict(describe(video)), "damage": damage(video), "container": video.format}
        )


def _cut(job: dict[str, Any], out: _Outbox) -> None:
    with _opened(job, out):  # for the work that its length allows
        pass
    span = Span(Path(job["path"]), job["start"], job["end"])
    start, end = write_cut(span, Path(job["to"]), job["exact"], out.tick)
    out.put({"event": "cut", "start": start, "end": end})


def _about(job: dict[str, Any], out: _Outbox) -> None:
    with _opened(job, out) as video:
        out.put({"event": "about", "about": asdict(about(video, job["subtitles"], out.tick))})


def _sound(job: dict[str, Any], out: _Outbox) -> None:
    with _opened(job, out) as video:
        sound = Sound(video, out.tick)
        out.put({"event": "opened", "present": sound.present, "language": sound.language})
        for samples in sound.read():
            out.put({"event": "samples"}, samples.tobytes())
        out.put({"event": "closed", "damaged": sound.damaged})


def _sampling(job: dict[str, Any]) -> Sampling:
    return Sampling(parse_policy(job["policy"]), job["edge"])


_TASKS: dict[str, Callable[[dict[str, Any], _Outbox], None]] = {
    "scan": _scan,
    "sample": _sample,
    "image": _image,
    "check": _check,
    "cut": _cut,
    "about": _about,
    "sound": _sound,
}


def _limit(kind: int, limit: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _limit_effort(seconds: float) -> None:
    """Has the kernel end this process (SIGXCPU) when it has worked so much longer; waiting does not count."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(min(used.ru_utime + used.ru_stime + seconds, 1 << 40)) + 1)


def main(arguments: Iterable[str]) -> None:
    """Serves until stdin closes. The one argument is the memory limit in bytes."""
    # The real stdout belongs to the messages; whatever prints goes to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import resource

    import av  # before the limit, so that a small one fails in the job and not here
    import PIL.Image

    av.logging.set_level(None)
    PIL.Image.preinit()
    (limit,) = map(int, arguments)
    _limit(resource.RLIMIT_AS, limit)
    _limit(resource.RLIMIT_CORE, 0)
    out = _Outbox(answers)
    for job in _jobs(os.fdopen(os.dup(0), "rb")):
        name = shown(Path(job["path"]))
        _limit_effort(job["effort"])
        try:
            _TASKS[job["do"]](job, out)
        except ReelspaceError as error:
            out.put({"event": "failed", "reason": str(error)})
        except MemoryError:
            reason = f"{name}: needs more than the {limit >> 20} MiB of memory that reading may use."
            out.put({"event": "failed", "reason": reason, "unfit": True})
        except Exception as error:
            reason = f"{name}: could not be read ({type(error).__name__}: {error})."
            out.put({"event": "failed", "reason": reason, "unfit": True})


if __name__ == "__main__":
    main(sys.argv[1:])
