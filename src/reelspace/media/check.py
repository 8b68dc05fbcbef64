"""What is wrong with a video file: every frame is decoded, and its name compared with what it is."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from reelspace.errors import MediaError
from reelspace.media.files import shown
from reelspace.media.probe import VideoInfo

if TYPE_CHECKING:
    from reelspace.media.decode import Video
    from reelspace.media.reader import Reader

# FFmpeg's name of a container → what such files are called, the usual name first.
_ENDINGS = {
    "mp4": (".mp4", ".mov", ".m4v", ".3gp", ".3g2", ".qt", ".f4v"),
    "matroska": (".mkv", ".webm"),
    "avi": (".avi", ".divx"),
    "mpegts": (".ts", ".m2ts", ".mts", ".m2t"),
    "mpeg": (".mpg", ".mpeg", ".mpe", ".mpv", ".vob"),
    "asf": (".wmv", ".asf"),
    "flv": (".flv",),
    "ogg": (".ogv", ".ogm"),
    "gif": (".gif",),
    "mxf": (".mxf",),
    "nut": (".nut",),
    "webp": (".webp",),
}
_KNOWN = frozenset(ending for endings in _ENDINGS.values() for ending in endings)


@dataclass(frozen=True)
class Checked:
    """A file that was checked.

    Attributes:
        path: the file.
        info: what it is; None if it cannot be read.
        faults: what is wrong with it, a reason each; empty if nothing is.
        ending: what the names of such files usually end in: `.mp4`, `.mkv`, …; None if that is not known.
    """

    path: Path
    info: VideoInfo | None
    faults: list[str] = field(default_factory=list)
    ending: str | None = None

    @property
    def misnamed(self) -> bool:
        """Whether the name ends as those of other containers do."""
        ending = self.path.suffix.lower()
        return self.ending is not None and ending in _KNOWN and ending not in _names(self.ending)


def check(path: str | os.PathLike[str], reader: Reader) -> Checked:
    """Decodes all of a file in a worker process of `reader`, and says what is wrong with it."""
    path = Path(path)
    try:
        info, damage, container = reader.check(path)
    except MediaError as error:
        return Checked(path, None, [str(error).removeprefix(f"{shown(path)}: ").removesuffix(".")])
    ending = next((names[0] for name, names in _ENDINGS.items() if name in container.split(",")), None)
    checked = Checked(path, info, [damage] if damage else [], ending)
    if checked.misnamed:
        checked.faults.append(f"is not what its name says: not {path.suffix.lower()}, but {ending}")
    return checked


def damage(video: Video) -> str | None:
    """What is wrong with an open video. Runs in a worker: all of it is decoded."""
    for _ in video.skim(every=True):
        pass
    return video.partial


def _names(ending: str) -> tuple[str, ...]:
    return next(names for names in _ENDINGS.values() if ending in names)
