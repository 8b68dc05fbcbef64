"""Whether a task's files are what a model should be judged by: there, whole, large and long enough.

What is found wrong here is not retrieval's fault. Mended copies go to `mended/` in the task's folder, where the loaders
look first; the files themselves stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reelspace.errors import MediaError
from reelspace.item import Item, Span
from reelspace.media.check import Checked
from reelspace.media.check import check as check_file
from reelspace.media.reader import Reader
from reelspace.media.repair import repair
from reelspace.uvrb.data import MENDED, Released

FRAMES = 8
"""Frames of the protocol: of a video with fewer, some are shown twice."""
SHORT_SIDE = 64
"""Pixels: a smaller picture is hardly one."""


@dataclass(frozen=True)
class Problem:
    """A file that is not as it should be.

    Attributes:
        file: relative to the task's folder, or as it is.
        used: by which queries and candidates.
        kind: `missing`, `unreadable`, `damaged`, `misnamed`, `small` or `short`. The last two can be used.
        reason: for a human.
        mended: the copy to use instead, relative to the task's folder.
    """

    file: str
    used: tuple[str, ...]
    kind: str
    reason: str
    mended: str | None = None

    @property
    def harmless(self) -> bool:
        """Whether the file can be used as it is, or its copy."""
        return self.kind in ("small", "short") or self.mended is not None


@dataclass
class Report:
    """What was found in a task's files.

    Attributes:
        task: its name.
        files: how many there are, videos and pictures.
        seconds: of video.
        sizes: (width, height) → how many videos.
        problems: what is wrong.
        faults: lines that make no item: id → reason.
    """

    task: str
    files: int = 0
    seconds: float = 0.0
    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether nothing here would cost a model a query."""
        return not self.faults and all(problem.harmless for problem in self.problems)

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "task": self.task,
            "sound": self.sound,
            "files": self.files,
            "seconds": round(self.seconds, 3),
            "sizes": {f"{width}x{height}": count for (width, height), count in sorted(self.sizes.items())},
            "problems": [vars(problem) for problem in self.problems],
            "faults": self.faults,
        }


def check(data: Released, reader: Reader, mend: bool = False, step: Callable[[int, int], None] | None = None) -> Report:
    """Decodes every file of a task.

    Args:
        data: the task.
        reader: decodes in processes of its own.
        mend: write mended copies of what can be mended.
        step: called with how many files are done, of how many.
    """
    report = Report(data.task.name)
    used: dict[tuple[str, Path], list[str]] = {}
    for items in (data.queries(), data.corpus()):
        for name, item in items.items():
            if isinstance(item, str):
                report.faults[name] = item
                continue
            for file in _files(item):
                used.setdefault(file, []).append(name)
    for done, ((kind, path), names) in enumerate(used.items(), 1):
        report.files += 1
        found = _video(path, reader, report) if kind == "video" else _picture(path, reader)
        for trouble, reason in found:
            mended = None
            if mend and kind == "video" and trouble in ("damaged", "misnamed"):
                mended = _mended(data, path, reader)
            report.problems.append(Problem(_relative(path, data.folder), tuple(names), trouble, reason, mended))
        if step is not None:
            step(done, len(used))
    return report


def _files(item: Item) -> Iterator[tuple[str, Path]]:
    if isinstance(item.video, Span):
        yield "video", item.video.path
    if isinstance(item.image, Path):
        yield "image", item.image


def _video(path: Path, reader: Reader, report: Report) -> list[tuple[str, str]]:
    if not path.is_file():
        return [("missing", "there is no such file")]
    checked = check_file(path, reader)
    if checked.info is None:
        return [("unreadable", checked.faults[0])]
    info = checked.info
    report.seconds += info.duration
    size = (info.width, info.height)
    report.sizes[size] = report.sizes.get(size, 0) + 1
    found = [(_kind(checked), fault) for fault in checked.faults]
    if min(size) < SHORT_SIDE:
        found.append(("small", f"{info.width}×{info.height} pixels"))
    if info.frames < FRAMES:
        found.append(("short", f"{info.frames} frames, fewer than the {FRAMES} that are shown: some are shown twice"))
    return found


def _kind(checked: Checked) -> str:
    return "misnamed" if checked.misnamed and len(checked.faults) == 1 else "damaged"


def _picture(path: Path, reader: Reader) -> list[tuple[str, str]]:
    if not path.is_file():
        return [("missing", "there is no such file")]
    try:
        height, width = reader.image(path).shape[:2]
    except MediaError as error:
        return [("unreadable", str(error))]
    return [("small", f"{width}×{height} pixels")] if min(width, height) < SHORT_SIDE else []


def _mended(data: Released, path: Path, reader: Reader) -> str | None:
    checked = check_file(path, reader)
    if not checked.faults:  # it is a mended copy already
        return None
    done = repair(checked, data.folder / MENDED / _relative(path, data.folder), reader)
    return None if done.path is None else _relative(done.path, data.folder)


def _relative(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
