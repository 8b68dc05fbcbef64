"""Who may write. The kernel holds the lock and lets go of it with the process: there is no stale lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from reelspace.errors import LibraryError


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Waits for the lock file `path` and holds it."""
    with open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def writing(library: Path) -> Iterator[None]:
    """Holds the one right to write to the library in this folder.

    Raises:
        LibraryError: another process, or another part of this one, holds it; or nothing can be written there.
    """
    with _alone(library, "lock", "written"):
        yield


@contextmanager
def pushing(library: Path) -> Iterator[None]:
    """Holds the one right to push the library in this folder to a store.

    Raises:
        LibraryError: as `writing`.
    """
    with _alone(library, "push.lock", "pushed"):
        yield


@contextmanager
def _alone(library: Path, name: str, done: str) -> Iterator[None]:
    with ExitStack() as held:
        try:
            file = held.enter_context(open(library / name, "a+", encoding="ascii"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise LibraryError(
                f"{library} is being {done} by process {holder}: wait until it has finished, or stop it. "
                "Searching is possible meanwhile."
            ) from None
        except OSError as error:
            raise LibraryError(
                f"{library} cannot be written: {error.strerror}. Searching is possible all the same."
            ) from error
        yield
