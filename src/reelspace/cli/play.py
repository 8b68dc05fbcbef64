"""Opens a hit at its moment in a player: mpv or VLC, else what the system opens videos with (from the beginning)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from reelspace.cli.terminal import clock, fail, say, shown_path

if TYPE_CHECKING:
    from reelspace.answers import Hit


def command(hit: Hit) -> list[str] | None:
    """The command line that opens `hit`, or None where there is no program for it."""
    players = {
        "mpv": [f"--start={hit.start:.3f}", "--", hit.path],
        "vlc": [f"--start-time={hit.start:.3f}", "--", hit.path],
        "open" if sys.platform == "darwin" else "xdg-open": [hit.path],
    }
    for program, arguments in players.items():
        if found := shutil.which(program):
            return [found, *arguments]
    return None


def play(hit: Hit) -> subprocess.Popen[bytes] | None:
    """Starts the player, which goes on when the command ends."""
    found = command(hit)
    say(f"Opening {shown_path(hit.path)} at {clock(hit.start)}.")
    if found is not None:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(found, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    if sys.platform == "win32":
        os.startfile(hit.path)
        return None
    raise fail("There is no player: install mpv or VLC, which can start at the moment.")
