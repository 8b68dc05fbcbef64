"""Patterns over paths: one notation for `include`, `exclude` and `within`.

A pattern without a slash matches any one name along the path (`*.mov`, `rushes`). With slashes it matches that run
of names anywhere in the path (`2024/*/raw`), from the path's beginning if it begins with a slash. `*` and `?` stay
within one name, `**` is any number of names. What matches a folder covers everything in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from fnmatch import translate

from reelspace.errors import ItemError

Name = Callable[[str], object] | None  # None is `**`


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether any of `patterns` matches a path. Accents match however they are encoded (NFC or NFD).

    Raises:
        ItemError: a pattern names nothing (an unset variable of a shell, say): it would match everything.
    """
    if not patterns:
        return lambda path: False
    compiled = [(pattern.startswith("/"), _compile(pattern)) for pattern in patterns]

    def matches(path: str) -> bool:
        names = _split(path)
        return any(
            _begins(names[start:], pattern)
            for anchored, pattern in compiled
            for start in range(1 if anchored else max(len(names), 1))
        )

    return matches


def _split(path: str) -> list[str]:
    return [name for name in unicodedata.normalize("NFC", path).split("/") if name not in ("", ".")]


def _compile(pattern: str) -> list[Name]:
    names = _split(pattern)
    # One `**` after another adds nothing but ways to try.
    names = [name for name, before in zip(names, ["", *names], strict=False) if not name == before == "**"]
    if not names:
        raise ItemError(f"“{pattern}” is no pattern of paths: it names nothing. Write *.mov, rushes or 2024/*/raw.")
    return [None if name == "**" else re.compile(translate(name)).match for name in names]


def _begins(names: list[str], pattern: list[Name]) -> bool:
    """Whether the pattern matches the first of `names`."""
    if not pattern:
        return True
    first, rest = pattern[0], pattern[1:]
    if first is None:
        return any(_begins(names[skipped:], rest) for skipped in range(len(names) + 1))
    return bool(names) and first(names[0]) is not None and _begins(names[1:], rest)
