"""Reads back what `reelspace search --json` printed, from a file or a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reelspace.errors import ReelspaceError

if TYPE_CHECKING:
    from reelspace.answers import SearchReport


def read_report(source: Path | None) -> SearchReport:
    """The report in a file; `None` or `-` is standard input.

    Raises:
        ReelspaceError: it is no such report.
    """
    from pydantic import ValidationError

    from reelspace.answers import SearchReport

    piped = source is None or str(source) == "-"
    if piped and sys.stdin.isatty():
        raise ReelspaceError("Give a file of hits, or pipe them in: reelspace search … --json | …")
    text = sys.stdin.read() if source is None or piped else source.read_bytes().decode("utf-8-sig", "replace")
    try:
        return SearchReport.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "the whole"
        name = "standard input" if piped else str(source)
        raise ReelspaceError(f"{name}: is not what `reelspace search --json` prints ({at}: {first['msg']}).") from None
