"""A process that works on a run: `python -m reelspace.synth.worker OUTPUT`, started by `run`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from reelspace.errors import ReelspaceError
from reelspace.synth.run import Job, Worker


def _not_alone() -> None:
    """Ends this process when its parent has: nobody would be told of what it does."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main(out: str) -> None:
    """Works until the run is done."""
    threading.Thread(target=_not_alone, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this one
    try:
        Worker(Job.of(Path(out))).work()
    except ReelspaceError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1])
