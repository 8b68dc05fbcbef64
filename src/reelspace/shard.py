"""One of several equal shares of some work, for whoever does each on a machine of its own."""

from __future__ import annotations

import re
from typing import NamedTuple

from reelspace.errors import ReelspaceError

_FORM = re.compile(r"(\d+)\s*/\s*(\d+)")


class Shard(NamedTuple):
    """One of `of` shares; `number` counts from 1."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def name(self) -> str:
        """For files and folders: `2-of-8`."""
        return f"{self.number}-of-{self.of}"

    def takes(self, place: int) -> bool:
        """Whether what stands at this place (from 0) is of this share, where the shares take turns."""
        return place % self.of == self.number - 1

    def all(self) -> list[Shard]:
        """This share and the others."""
        return [Shard(number, self.of) for number in range(1, self.of + 1)]


def parse_shard(text: str) -> Shard:
    """A shard from its form `2/8`.

    Raises:
        ReelspaceError: it is none.
    """
    form = _FORM.fullmatch(text.strip())
    shard = Shard(int(form[1]), int(form[2])) if form else None
    if shard is None or not 1 <= shard.number <= shard.of:
        raise ReelspaceError(f"“{text}” is no shard; write 1/8 … 8/8: which one, counted from 1, and of how many.")
    return shard
