"""Mends a video into a new file: its packets in a new container where that suffices, else encoded again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from reelspace.errors import MediaError
from reelspace.item import Span
from reelspace.media.check import Checked, check
from reelspace.media.cut import SUFFIXES, cut
from reelspace.media.files import shown
from reelspace.media.reader import Reader

_SHORTER = 0.5  # seconds that a copy may lack: the frame that was cut through, and what refers to it

How = Literal["remuxed", "re-encoded", "cannot be mended"]


class Repaired(NamedTuple):
    """What was done for a file: the new one, or why there is none."""

    how: How
    path: Path | None = None
    reason: str | None = None


def repair(checked: Checked, target: Path, reader: Reader) -> Repaired:
    """Writes what can be read of a file into a new one, `target` with an ending that suits it, and checks that.

    The file itself is never changed, no file is ever replaced, and what is still wrong afterwards is not kept.
    """
    if checked.info is None:
        return Repaired("cannot be mended", reason=checked.faults[0])
    target = _named(checked, target)
    if os.path.lexists(target):
        return Repaired("cannot be mended", reason=f"{shown(target)} is there already")
    target.parent.mkdir(parents=True, exist_ok=True)
    ways: tuple[tuple[How, bool], ...] = (("remuxed", False), ("re-encoded", True))
    reason = ""
    for how, exact in ways:
        try:
            cut(Span(checked.path), target, exact=exact, reader=reader)
        except MediaError as error:
            reason = str(error).removeprefix(f"{shown(checked.path)}: ").removesuffix(".")
            continue
        again = check(target, reader)
        if again.info is not None and not again.faults and again.info.duration >= checked.info.duration - _SHORTER:
            return Repaired(how, target)
        reason = again.faults[0] if again.faults else "what comes out is shorter than what can be read"
        target.unlink()
    return Repaired("cannot be mended", reason=reason)


def _named(checked: Checked, target: Path) -> Path:
    """The target with the ending of a container that can be written."""
    if checked.misnamed and checked.ending in SUFFIXES:
        return target.with_suffix(checked.ending)
    if target.suffix.lower() in SUFFIXES and not checked.misnamed:
        return target
    return target.with_name(f"{target.name}.mkv")
