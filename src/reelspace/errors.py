"""Errors that say what went wrong, where, and what to do; and the exit codes they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ExitCode(IntEnum):
    """What every `reelspace` command returns to the shell."""

    OK = 0
    SOME_FAILED = 1  # the work was done; some items failed and are listed
    UNUSABLE = 2  # wrong usage, or an index or file that cannot be used
    INTERRUPTED = 130  # Ctrl-C; what was done is kept


class ReelspaceError(Exception):
    """Base of every error meant for a user. The message says what, where and what to do."""

    exit_code = ExitCode.UNUSABLE


class ItemError(ReelspaceError, ValueError):
    """An item (or a span's notation) that cannot be meant: no part, wrong shape, end before start."""


class MediaError(ReelspaceError):
    """A file that cannot be read as what it was given as. `str(error)` is the reason shown in `status`."""


class ModelError(ReelspaceError):
    """A model that cannot be loaded, or was asked for something outside its declared contract."""


class LibraryError(ReelspaceError):
    """A library that is missing, locked, of another version, or damaged."""


class NoLibraryError(LibraryError):
    """There is no library where one was looked for."""


class EncodeError(ReelspaceError):
    """Some items of a call could not be embedded. The others are here: nothing is lost, nothing is invented.

    Attributes:
        failures: position in the call → reason.
        positions: the positions that succeeded, ascending.
        vectors: float32 `[len(positions), d]`, unit rows, in the order of `positions`.
    """

    def __init__(self, failures: Mapping[int, str], positions: Sequence[int], vectors: NDArray[np.float32]) -> None:
        self.failures = dict(sorted(failures.items()))
        self.positions = list(positions)
        self.vectors = vectors
        total = len(self.failures) + len(self.positions)
        first, reason = next(iter(self.failures.items()))
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        super().__init__(
            f"{len(self.failures)} of {total} items could not be embedded: item {first}: {reason}{more}. "
            "The rows that succeeded are in `.vectors`, their positions in `.positions`."
        )
