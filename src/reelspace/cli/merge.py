"""`reelspace merge`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from reelspace.cli.index import say_problems
from reelspace.cli.terminal import JsonOption, LibraryOption, counted, fail, lasting, print_json, say
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.answers import MergeReport


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("merge")(merge)


def merge(library: LibraryOption = None, json: JsonOption = False) -> None:
    """Take in what the shards of `reelspace index --shard` have done.

    Shards that are still at work are left alone. No video is read, and no model loaded. A merge that was ended goes on
    when it is run again.

    \b
    Examples
      reelspace merge
      reelspace merge --library /net/library --json
    """
    from reelspace.library import Library

    with Library.open(library) as opened:
        try:
            report = opened.merge()
        except KeyboardInterrupt:
            raise fail("Interrupted. Run the same command again to go on.", ExitCode.INTERRUPTED) from None
    if json:
        print_json(report)
    _summary(report)
    failed = report.notes or any(problem.state == "failed" for problem in report.problems)
    raise typer.Exit(ExitCode.SOME_FAILED if failed else ExitCode.OK)


def _summary(report: MergeReport) -> None:
    done = "Nothing new"
    if report.embedded:
        done = f"Merged {counted(report.embedded, 'file')}: {lasting(report.seconds)} in "
        done += counted(report.windows, "window")
    others = {"moved or copied": report.reused, "partial": report.partial, "failed": report.failed}
    say(", ".join([done, *(f"{number:,} {what}" for what, number in others.items() if number)]) + ".")
    for note in report.notes:
        say(f"Note: {note}")
    say_problems(report.problems)
    if report.running:
        say(f"Still at work: {', '.join(report.running)}. Merge again when they are done.")
    if report.left:
        say(f"Left to do: {counted(report.left, 'file')}. Run their shards, or `reelspace index`.")
