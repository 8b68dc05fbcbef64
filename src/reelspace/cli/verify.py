"""`reelspace verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import JsonOption, LibraryOption, counted, print_json, say, shown_path, tell
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.answers import VerifyReport


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("verify")(verify)


def verify(
    sample: Annotated[
        int, typer.Option(min=0, metavar="N", help="Windows to read and embed again.", show_default=True)
    ] = 32,
    library: LibraryOption = None,
    json: JsonOption = False,
) -> None:
    """Look for anything wrong with the index.

    Embeds a sample again, and checks vectors, canaries, caches and files. The exit code is 1 when something is found.

    \b
    Examples
      reelspace verify
      reelspace verify --sample 500
    """
    from reelspace.library import Library

    with Library.open(library, create=False) as opened:
        report = opened.verify(sample=sample)
    if json:
        print_json(report)
    else:
        _show(report)
    raise typer.Exit(ExitCode.OK if report.ok else ExitCode.SOME_FAILED)


def _show(report: VerifyReport) -> None:
    typer.echo(f"Checked {counted(report.files, 'file')} and {counted(report.vectors, 'vector')} of {report.model}.")
    if report.drift is not None:
        typer.echo(f"Embedded {counted(report.sampled, 'window')} again; greatest drift {report.drift:.2g}.")
    if report.recall is not None:
        typer.echo(f"The approximate index finds {report.recall:.1%} of what exact search finds.")
    for finding in report.findings:
        tell(f"{finding.what}: {shown_path(finding.where)}: {finding.remedy}", indent="  ")
    say("Nothing is wrong." if report.ok else f"{counted(len(report.findings), 'finding')}.")
