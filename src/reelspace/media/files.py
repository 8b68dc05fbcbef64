"""What may be opened at all."""

from __future__ import annotations

import stat
from pathlib import Path

from reelspace.errors import MediaError


def regular(path: Path) -> Path:
    """The path, if a non-empty ordinary file stands there: opening a pipe or a device can wait for ever.

    Raises:
        MediaError: it is missing, cannot be looked at, is something else, or has no bytes.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise failure(path, f"cannot be opened: {reason}") from None
    if not stat.S_ISREG(status.st_mode):
        raise failure(path, "is not an ordinary file")
    if status.st_size == 0:
        raise failure(path, "the file is empty (0 bytes)")
    return path


def failure(path: Path, reason: str) -> MediaError:
    """The error that says why a file cannot be read."""
    return MediaError(f"{shown(path)}: {reason}.")


def shown(path: Path) -> str:
    """The path for a message: what cannot be shown of its name is escaped."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
