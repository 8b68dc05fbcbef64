"""`reelspace uvrb moments`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import JsonOption, fail, print_json, print_table, say, shown_path, table
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.uvrb.moment_search import Answered
    from reelspace.uvrb.moments import Asked

_SHOWN = 5


class FormName(StrEnum):
    """Forms of files (`reelspace.uvrb.moment_files.FORMS`)."""

    qvhighlights = "qvhighlights"
    charades = "charades"
    activitynet = "activitynet"


def register(uvrb: typer.Typer) -> None:
    """Adds the command."""
    uvrb.command()(moments)


def moments(
    truth: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    library: Annotated[
        Path | None,
        typer.Option(metavar="LIBRARY", help="Ask this library, which has the videos indexed.", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="With this model, not the active one.", show_default=False)
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measure these, in QVHighlights' form of a submission.", show_default=False),
    ] = None,
    form: Annotated[
        FormName | None, typer.Option(help="Form of FILE; else told by what it looks like.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Keep the library's predictions.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure moment retrieval on QVHighlights, Charades-STA or ActivityNet Captions.

    FILE has queries and their true spans. Predictions are read from a file, or made by a library: the ten best moments
    of the video that a query names. Queries of videos that are not indexed are listed and not measured; the exit code
    is 1 then.

    \b
    Examples
      reelspace uvrb moments highlight_val_release.jsonl --library ~/qvhighlights -o mine.jsonl
      reelspace uvrb moments charades_sta_test.txt --predictions mine.jsonl --json
    """
    from reelspace.uvrb.moment_files import load, write
    from reelspace.uvrb.moment_files import predictions as read
    from reelspace.uvrb.moments import measure

    if (library is None) == (predictions is None):
        raise fail("Whose moments? Give either --library or --predictions.")
    loaded = load(truth, None if form is None else form.value)
    asked, failures = loaded.asked, dict[str, str]()
    if predictions is not None:
        found = read(predictions)
    else:
        assert library is not None
        found, failures = _answered(library, model, asked)
        asked = [query for query in asked if query.qid not in failures]
        if output is not None:
            write(output, asked, found)
    figures = measure(asked, found) if asked else {}
    if json:
        told = {name: {"value": one.value, "interval": [*one.interval], "n": one.n} for name, one in figures.items()}
        print_json({"figures": told, "failures": failures, "skipped": loaded.skipped})
    else:
        rows = table("", "value", "95 %", "queries", right=("value", "queries"))
        for name, one in figures.items():
            rows.add_row(name, f"{one.value:.3f}", f"{one.interval.low:.3f} to {one.interval.high:.3f}", f"{one.n:,}")
        print_table(rows)
    for reason in [*loaded.skipped, *(f"{qid}: {reason}" for qid, reason in failures.items())][:_SHOWN]:
        say(reason)
    left = len(loaded.skipped) + len(failures)
    if left > _SHOWN:
        say(f"… and {left - _SHOWN:,} more; --json lists all.")
    say(f"Queries measured: {len(asked):,}, left out: {left:,}.")
    if output is not None and library is not None:
        say(f"Predictions: {shown_path(output)}.")
    raise typer.Exit(ExitCode.SOME_FAILED if failures else ExitCode.OK)


def _answered(library: Path, model: str | None, asked: list[Asked]) -> Answered:
    from reelspace.cli.progress import steps
    from reelspace.library import Library
    from reelspace.uvrb.moment_search import answer

    with Library.open(library, create=False, model=model) as opened, steps() as show:
        return answer(opened, asked, lambda done: show("queries", done, len(asked)))
