"""`reelspace uvrb report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reelspace.cli.terminal import JsonOption, counted, fail, print_json, say, shown_path


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("report")(report)


def report(
    results: Annotated[list[Path] | None, typer.Argument(metavar="[RESULTS]...", show_default=False)] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where to; made if it is not there.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Compare with this one; else with the best published and the first."),
    ] = None,
    papers: Annotated[bool, typer.Option("--papers/--no-papers", help="Beside the published models.")] = True,
    json: JsonOption = False,
) -> None:
    """Compare models: abilities, differences, correlations, the paper's findings.

    RESULTS are folders that `reelspace uvrb run` made, of one suite; none: the 16 published models alone. Writes
    report.html (one page that needs nothing else), tables.md and tables.tex. The same results give the same bytes.

    \b
    Examples
      reelspace uvrb report --output report/
      reelspace uvrb report results/uvrb/gve-3b results/uvrb/mine --output report/
      reelspace uvrb report results/uvrb/mine --against GVE-3B --json
    """
    from reelspace.uvrb.report import build
    from reelspace.uvrb.report.html import page
    from reelspace.uvrb.report.text import data, latex, markdown
    from reelspace.uvrb.results import read, write_text

    if output is None and not json:
        raise fail("Say where to: --output DIR, or --json for the numbers on standard output.")
    built = build([read(folder) for folder in results or ()], against, papers)
    if output is not None:
        for name, make in (("report.html", page), ("tables.md", markdown), ("tables.tex", latex)):
            write_text(output / name, make(built))
        say(f"{shown_path(output / 'report.html')}, tables.md, tables.tex: {counted(len(built.rows), 'model')}.")
    if json:
        print_json(data(built))
