"""Puts the tiny model's readout beside weights that were trained before there were readouts."""

from __future__ import annotations

from pathlib import Path

from reelspace.embed.qwen_vl.readout import Readout
from reelspace.errors import ReelspaceError
from reelspace.worlds.tiny.model import READOUT


def written(folder: Path) -> Path:
    """Writes `readout.json` into the folder of a model, given it or that of its run.

    Raises:
        ReelspaceError: there is no model.
    """
    folder = folder / "model" if (folder / "model").is_dir() else folder
    if not (folder / "config.json").exists():
        raise ReelspaceError(f"{folder} holds no model; give the folder that `reelspace worlds train` wrote.")
    Readout.of(READOUT).write(folder)
    return folder
