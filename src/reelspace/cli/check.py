"""`reelspace check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import JsonOption, counted, fail, lasting, print_json, print_table, say, shown_path, table
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.answers import CheckReport, Fault
    from reelspace.index.walk import Root
    from reelspace.media.check import Checked
    from reelspace.media.reader import Reader


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("check")(check)


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", show_default=False)],
    mend: Annotated[bool, typer.Option("--repair", help="Write mended copies into another folder.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="The folder for them.", show_default=False)
    ] = None,
    include: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Take only files that match.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave out files and folders.")] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also take names that begin with a dot.")] = False,
    json: JsonOption = False,
) -> None:
    """List what is wrong with video files.

    Decodes every frame of the files and folders given; no library is needed. With --repair, what can be read of a
    faulty file is written into a new one: in a new container if that suffices, else encoded again. The result is
    checked too. The files themselves are never changed, and none is ever replaced. The exit code is 1 when something
    is wrong and not mended.

    \b
    Examples
      reelspace check ~/Videos
      reelspace check ~/Videos --repair --output ~/Mended
    """
    from reelspace.index.walk import Root, absolute

    if mend != (output is not None):
        raise fail("--repair and --output DIR belong together: mended files go into another folder.")
    roots = [Root(absolute(path), tuple(include or ()), tuple(exclude or ()), hidden) for path in paths]
    for root in roots:
        if not Path(root.path).exists():
            raise fail(f"{shown_path(root.path)}: there is no such file or folder.")
        if output is not None and root.covers(absolute(output)):
            raise fail(f"{shown_path(output)}: lies in what is checked; choose a folder outside it.")
    report = _report(roots, output)
    if json:
        print_json(report)
    else:
        _show(report)
    raise typer.Exit(ExitCode.OK if report.ok else ExitCode.SOME_FAILED)


def _report(roots: list[Root], output: Path | None) -> CheckReport:
    from reelspace.answers import CheckReport
    from reelspace.media.reader import Reader

    files, seconds, faults = 0, 0.0, []
    with Reader() as reader:
        for checked, name in _checked(roots, reader):
            files += 1
            seconds += checked.info.duration if checked.info else 0.0
            if checked.faults:
                faults.append(_fault(checked, None if output is None else output / name, reader))
    mended = all(fault.repair is not None and fault.repair.path is not None for fault in faults)
    return CheckReport(ok=mended, files=files, seconds=seconds, faults=faults)


def _checked(roots: list[Root], reader: Reader) -> Iterator[tuple[Checked, Path]]:
    """Every file, and its name beneath its root. One at a time: a decoder uses all processors."""
    from reelspace.media.check import Checked, check

    seen: set[str] = set()
    for root in roots:
        for one in root.walk():
            if one.path in seen:
                continue
            seen.add(one.path)
            path = Path(one.path)
            name = Path(path.name) if one.path == root.path else path.relative_to(root.path)
            if one.reason is None:
                yield check(path, reader), name
            elif one.unreadable or one.path == root.path:
                yield Checked(path, None, [one.reason]), name


def _fault(checked: Checked, target: Path | None, reader: Reader) -> Fault:
    from reelspace.answers import Fault, Repair
    from reelspace.media.repair import repair

    done = None if target is None else Repair(**repair(checked, target, reader)._asdict())
    return Fault(path=str(checked.path), readable=checked.info is not None, faults=checked.faults, repair=done)


def _show(report: CheckReport) -> None:
    if report.faults:
        mending = any(fault.repair for fault in report.faults)
        made = table("file", *(["repair"] if mending else []), "what is wrong")
        for fault in report.faults:
            made.add_row(shown_path(fault.path), *([_done(fault)] if mending else []), "; ".join(fault.faults))
        print_table(made)
    wrong = "nothing is wrong" if not report.faults else f"something is wrong with {len(report.faults):,}"
    say(f"Checked {counted(report.files, 'file')}, {lasting(report.seconds)}: {wrong}.")


def _done(fault: Fault) -> str:
    assert fault.repair is not None
    if fault.repair.path is None:
        return "cannot be mended"
    return f"{fault.repair.how}: {shown_path(fault.repair.path)}"
