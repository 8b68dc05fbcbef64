"""`reelspace uvrb fetch` and `reelspace uvrb check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import JsonOption, counted, lasting, print_json, print_table, say, shown_path, table
from reelspace.cli.uvrb_run import SuiteName, SuiteOption
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.uvrb.check import Report

Names = Annotated[list[str], typer.Argument(metavar="TASK...", help="Names or abilities, or all.", show_default=False)]


def register(uvrb: typer.Typer) -> None:
    """Adds the commands."""
    uvrb.command()(fetch)
    uvrb.command()(check)


def fetch(
    tasks: Names,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where to.")] = Path("uvrb-data"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much it is, and fetch nothing.")] = False,
    repository: Annotated[
        str | None, typer.Option(metavar="NAME", help="Another repository of the same layout.", show_default=False)
    ] = None,
    revision: Annotated[str, typer.Option(metavar="NAME", help="A branch, tag or commit of it.")] = "main",
    json: JsonOption = False,
) -> None:
    """Get tasks of UVRB from the hub. All of them are about 490 GB.

    What is there already is not fetched again, and the hub is not asked about it. A transfer that broke off goes on;
    every file is compared with its checksum; archives are unpacked. Needs the extra `bench`.

    \b
    Examples
      reelspace uvrb fetch MSRVTT DiDeMo --output data/
      reelspace uvrb fetch FG --output data/ --dry-run
    """
    from reelspace.cli.progress import steps
    from reelspace.uvrb.fetch import REPOSITORY, Fetcher, notes
    from reelspace.uvrb.tasks import select

    names = [task.name for task in select("uvrb", ",".join(tasks))]
    fetcher = Fetcher(output, repository or REPOSITORY, revision)
    plans = fetcher.plan(names)
    for note in notes(names):
        say(note)
    for plan in plans:
        say(f"{plan.task}: {_size(plan.size)} to fetch." if plan.commit else f"{plan.task}: is there.")
    if not dry_run:
        with steps() as show:
            for plan in plans:
                fetcher.fetch(plan, show)
    told = [{"task": plan.task, "bytes": plan.size, "files": len(plan.missing)} for plan in plans]
    if json:
        print_json({"folder": str(output), "fetched": not dry_run, "tasks": told})
    else:
        say(f"{shown_path(output)}: {counted(len(plans), 'task')}{' to fetch' if dry_run else ''}.")


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def check(
    tasks: Names,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder of the tasks' data.")],
    suite: SuiteOption = SuiteName.uvrb,
    mend: Annotated[bool, typer.Option("--repair", help="Write mended copies; they are then used instead.")] = False,
    json: JsonOption = False,
) -> None:
    """Look for files of tasks that are missing, damaged, too small or too short.

    Decodes every frame. With --repair, what can be read of a damaged video is written to `mended/` in its task's
    folder, where runs look first; the files themselves are never changed. The exit code is 1 when something would
    cost a model a query.

    \b
    Examples
      reelspace uvrb check MSRVTT --data data/
      reelspace uvrb check all --data data/ --repair --json
    """
    from reelspace.cli.progress import steps
    from reelspace.media.reader import Reader
    from reelspace.uvrb.check import check as check_task
    from reelspace.uvrb.data import available, dataset
    from reelspace.uvrb.tasks import select

    wanted = ",".join(tasks)
    chosen = select(suite.value, wanted)
    there = available(suite.value, data)
    if wanted == "all" and there:
        chosen = [task for task in chosen if task.name in there]
    reports = []
    with Reader() as reader, steps() as show:
        for task in chosen:
            loader = dataset(task, data)
            reports.append(
                check_task(loader, reader, mend, lambda done, total, name=task.name: show(name, done, total))  # type: ignore[misc]
            )
    if json:
        print_json([report.told() for report in reports])
    else:
        _show(reports)
    raise typer.Exit(ExitCode.OK if all(report.sound for report in reports) else ExitCode.SOME_FAILED)


def _show(reports: list[Report]) -> None:
    if any(report.problems or report.faults for report in reports):
        made = table("task", "file", "what", "mended", "why")
        for report in reports:
            for problem in report.problems:
                made.add_row(report.task, problem.file, problem.kind, problem.mended or "", problem.reason)
            for name, reason in report.faults.items():
                made.add_row(report.task, name, "no item", "", reason)
        print_table(made)
    for report in reports:
        wrong = "all is well" if report.sound else "something is wrong"
        say(f"{report.task}: {counted(report.files, 'file')}, {lasting(report.seconds)}: {wrong}.")
