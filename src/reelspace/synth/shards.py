"""Files that are whole or not there, and who may work on which."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A new file beside `path`, renamed to it when it is complete; whatever happens, `path` is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
        part = Path(file.name)
    try:
        yield part
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(text: str, path: Path) -> None:
    """Writes a file whole or not at all."""
    with aside(path) as part:
        part.write_text(text, "utf-8")


def write_json(data: Any, path: Path) -> None:
    """Writes JSON whole or not at all; equal data, in equal order, give equal bytes."""
    write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", path)


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether the lock file `path` could be had at once. The kernel lets go of it with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def sweep(folder: Path) -> None:
    """Removes what killed processes were writing. Only while nobody writes there."""
    for part in folder.glob("**/.*.part"):
        part.unlink(missing_ok=True)


def digest(*parts: object) -> str:
    """20 hex digits of plain data: equal exactly where the data are."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=os.fspath)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]
