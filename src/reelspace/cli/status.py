"""`reelspace status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import (
    JsonOption,
    LibraryOption,
    counted,
    lasting,
    print_json,
    print_table,
    shown_path,
    table,
    tell,
)

if TYPE_CHECKING:
    from reelspace.answers import ShardWork, StatusReport

_SHOWN = 20  # problems printed without --all


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("status")(status)


def status(
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="List every file that is not indexed, the excluded too; else the first 20 failed ones."
        ),
    ] = False,
    library: LibraryOption = None,
    json: JsonOption = False,
) -> None:
    """What is indexed, and every file that is not, with the reason.

    \b
    Examples
      reelspace status
      reelspace status --all
      reelspace status --json | jq '.problems[].path'
    """
    from reelspace.library import Library

    with Library.open(library, create=False) as opened:
        report = opened.status()
    if json:
        print_json(report)
    else:
        _show(report, everything)


def _show(report: StatusReport, everything: bool) -> None:
    others = {
        "partial": report.partial,
        "failed": report.failed,
        "excluded": report.excluded,
        "missing": report.missing,
    }
    files = ", ".join(
        [
            f"{report.indexed:,} indexed ({counted(report.videos, 'video')}, {lasting(report.seconds)})",
            *(f"{number:,} {what}" for what, number in others.items() if number),
        ]
    )
    tell(f"Library  {shown_path(report.library)}")
    tell(f"Folders  {', '.join(shown_path(root) for root in report.roots) or 'none'}", indent=" " * 9)
    tell(f"Files    {files}", indent=" " * 9)
    for work in report.shards:
        tell(f"Shard    {work.shard}: {_waiting(work)}", indent=" " * 9)
    if report.spaces:
        typer.echo()
        show_spaces(report)
    if report.signals:
        typer.echo()
        _show_signals(report)
    problems = [problem for problem in report.problems if everything or problem.state != "excluded"]
    problems += [problem for signal in report.signals for problem in signal.problems]
    if problems:
        typer.echo()
        for problem in problems[: None if everything else _SHOWN]:
            tell(f"{problem.state}: {shown_path(problem.path)}: {problem.reason}", indent="  ")
        if not everything and len(problems) > _SHOWN:
            typer.echo(f"… and {len(problems) - _SHOWN:,} more: reelspace status --all")


def _waiting(work: ShardWork) -> str:
    if work.running:
        return "at work; what it does is not in the counts above before `reelspace merge`"
    if work.indexed is None:
        return "cannot be read; `reelspace merge` says why"
    failed = f", {work.failed:,} failed" if work.failed else ""
    return f"{counted(work.indexed, 'file')}{failed}, not searchable before `reelspace merge`"


def _show_signals(report: StatusReport) -> None:
    made = table("signal", "videos", "failed", "passages", "state", right=("videos", "failed", "passages"))
    for signal in report.signals:
        if signal.videos + signal.failed < report.videos:
            state = "incomplete" if signal.kept else "no longer looked for"
        else:
            state = "kept up to date" if signal.kept else "no longer looked for"
        made.add_row(signal.signal, f"{signal.videos:,}", f"{signal.failed:,}", f"{signal.passages:,}", state)
    print_table(made)


def show_spaces(report: StatusReport) -> None:
    """The table of the models whose vectors a library has."""
    made = table("model", "windows", "videos", "state", "fingerprint", right=("windows", "videos"))
    for space in report.spaces:
        state = ("active" if space.active else "") + ("" if space.complete else " incomplete")
        made.add_row(
            space.model, f"{space.windows:,}", f"{space.videos:,}", state.strip() or "ready", space.fingerprint
        )
    print_table(made)
