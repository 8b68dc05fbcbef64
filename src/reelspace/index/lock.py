"""Who may write. The kernel holds the lock and lets go of it with the process: there is no stale lock."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from reelspace.errors import LibraryError


class HeldError(LibraryError):
    """Somebody else holds the right."""


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
    with _alone(library, library / "lock", "written"):
        yield


@contextmanager
def pushing(library: Path) -> Iterator[None]:
    """Holds the one right to push the library in this folder to a store.

    Raises:
        LibraryError: as `writing`.
    """
    with _alone(library, library / "push.lock", "pushed"):
        yield


@contextmanager
def sharding(part: Path, patience: float = 0.1) -> Iterator[None]:
    """Holds the one right to the part of a library in the folder `part`, and to delete it.

    Args:
        part: the folder.
        patience: seconds to wait for whoever holds it, or only asks.

    Raises:
        LibraryError: as `writing`.
    """
    until = time.monotonic() + patience
    while is_sharding(part) and time.monotonic() < until:
        time.sleep(0.02)
    with _alone(part, _beside(part), "written"):
        yield


def is_sharding(part: Path) -> bool:
    """Whether somebody holds the right to this part."""
    try:
        with open(_beside(part), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _beside(part: Path) -> Path:
    return part.with_name(f"{part.name}.lock")


@contextmanager
def _alone(library: Path, lock: Path, done: str) -> Iterator[None]:
    with ExitStack() as held:
        try:
            file = held.enter_context(open(lock, "a+", encoding="ascii"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise HeldError(
                f"{library} is being {done} by process {holder}: wait until it has finished, or stop it. "
                "Searching is possible meanwhile."
            ) from None
        except OSError as error:
            raise LibraryError(
                f"{library} cannot be written: {error.strerror}. Searching is possible all the same."
            ) from error
        yield
