"""The demo (`make demo`): real commands on these samples, each shown before its answer."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = Path(".cache/demo")  # below the repository's root, where the commands run

COMMANDS = (
    "reelspace index samples --exclude queries",
    'reelspace search "people riding bicycles" -k 3',
    "reelspace search --image samples/queries/samoyed-lying.jpg -k 3",
    "reelspace search --video samples/queries/bunny-close-up.mp4 -k 3",
    'reelspace search "a bird" --image samples/queries/samoyed-lying.jpg -k 3',
    'reelspace search "a plate of spaghetti" -k 3',
)


def run(command: str) -> int:
    """Runs a command line as it would be typed at the repository's root, by this Python; its exit code."""
    program, *arguments = shlex.split(command)
    assert program == "reelspace"
    environment = os.environ | {"REELSPACE_LIBRARY": str(LIBRARY)}
    line = [sys.executable, "-m", "reelspace", *arguments]
    return subprocess.run(line, check=False, cwd=HERE.parent, env=environment).returncode


def main() -> int:
    """All of them; the first exit code that is not 0."""
    print(f"$ export REELSPACE_LIBRARY={LIBRARY}", flush=True)
    for command in COMMANDS:
        print(f"\n$ {command}", flush=True)
        if code := run(command):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
