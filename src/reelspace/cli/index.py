"""`reelspace index`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reelspace.cli.progress import reporting
from reelspace.cli.terminal import JsonOption, LibraryOption, counted, fail, lasting, print_json, say, shown_path
from reelspace.errors import ExitCode, ReelspaceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelspace.answers import IndexReport, Problem, SignalCost
    from reelspace.media.windows import Windowing

_SHOWN = 20  # problems printed; `status` has them all


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("index")(index)


def index(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    include: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Take only files that match.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave out files and folders.")] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also take names that begin with a dot.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed and partial files again.")] = False,
    rehash: Annotated[bool, typer.Option("--rehash", help="Read every file again; trust no size or time.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Forget files that are not there any more.")] = False,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Build this model's vectors beside the others; `use` cuts over."),
    ] = None,
    windows: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="How videos are divided: shots(2,10) or fixed(10,5), in seconds."),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Look at key frames alone, many times faster; a later run looks at the rest.")
    ] = False,
    approximate: Annotated[
        bool | None,
        typer.Option(
            "--approximate/--exact",
            help="Search through an approximate index from now on (needs reelspace[ann]), or through all vectors.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Read and embed in N processes, each with the model loaded.")
    ] = 1,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run those on a Ray cluster: auto, ray://HOST:PORT (needs reelspace[ray])."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Do the I-th of N shares, counted from 1, beside the library; then `merge`."),
    ] = None,
    signals: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Look for these too, from now on: names, speech, ocr; none: no more."),
    ] = None,
    library: LibraryOption = None,
    json: JsonOption = False,
) -> None:
    """Index videos, or bring the index up to date.

    PATH is a file or a folder, with all below it; without one, the folders known already are looked through again.
    Unchanged files cost nothing, moved ones keep their vectors, and a bad file is listed and never ends the run.

    \b
    Examples
      reelspace index ~/Videos
      reelspace index ~/Videos --exclude raw --include "*.mp4"
      reelspace index                      what is new in the folders known
      reelspace index --retry --prune      also failed files; forget deleted ones
      reelspace index --windows "fixed(10,5)"
      reelspace index ~/Videos --fast      searchable soon; then `reelspace index` for every frame
      reelspace index ~/Videos --jobs 4
      reelspace index /net/videos --shard 2/8
      reelspace index --signals speech,ocr,names
    """
    from reelspace.library import Library

    common: dict[str, Any] = {
        "include": include or (),
        "exclude": exclude or (),
        "hidden": hidden,
        "retry": retry,
        "rehash": rehash,
        "model": model,
        "windowing": _windowing(windows),
        "fast": fast,
    }
    whole: dict[str, Any] = {"prune": prune, "approximate": approximate, "ray": ray, "signals": _signals(signals)}
    others = (ray, approximate, signals)
    if shard is not None and (jobs > 1 or prune or any(one is not None for one in others)):
        raise ReelspaceError(
            "--shard does one share: leave --jobs, --ray, --prune, --approximate and --signals to other runs."
        )
    try:
        with reporting() as progress:
            if shard is not None:
                report = Library.index_shard(shard, *(paths or ()), location=library, **common, progress=progress)
            else:
                with Library.open(library) as opened:
                    whole |= {"jobs": jobs, "announce": _announce}
                    report = opened.index(*(paths or ()), **common, **whole, progress=progress)
    except KeyboardInterrupt:
        raise fail(
            "Interrupted. What was done is kept; run the same command again to go on.", ExitCode.INTERRUPTED
        ) from None
    if json:
        print_json(report)
    _summary(report)
    if shard is not None:
        say(f"Shard {shard} is done; `reelspace merge` makes it searchable.")
    failed = _failed_now(report) or any(signal.failed for signal in report.signals)
    raise typer.Exit(ExitCode.SOME_FAILED if failed else ExitCode.OK)


def _failed_now(report: IndexReport) -> int:
    """Files that failed in this run; those that failed before and were left alone are no news."""
    return sum(problem.state == "failed" for problem in report.problems)


def _signals(names: str | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return () if names.strip() == "none" else tuple(names.split(","))


def _announce(costs: list[SignalCost]) -> None:
    """What signals are going to cost, before they do."""
    for cost in costs:
        basis = "as measured here" if cost.measured else "on one ordinary core"
        say(
            f"{cost.signal}: {lasting(cost.seconds)} in {counted(cost.videos, 'video')} to look through; at "
            f"{lasting(cost.an_hour)} an hour of video ({basis}) about {lasting(cost.work)}."
        )


def _windowing(form: str | None) -> Windowing | None:
    from reelspace.media.windows import parse_windowing

    return None if form is None else parse_windowing(form)


def _summary(report: IndexReport) -> None:
    """What an index run did."""
    done = "Nothing new"
    if report.embedded:
        windows = counted(report.windows, "window")
        done = f"Embedded {counted(report.embedded, 'file')}: {lasting(report.seconds)} in {windows}"
    others = {
        "unchanged": report.unchanged,
        "moved or copied": report.reused,
        "partial": report.partial,
        "failed": report.failed,
        "excluded": report.excluded,
        "missing": report.missing,
        "forgotten": report.pruned,
    }
    say(", ".join([done, *(f"{number:,} {what}" for what, number in others.items() if number)]) + ".")
    for signal in report.signals:
        if signal.videos or signal.failed:
            failed = f", {signal.failed:,} failed" if signal.failed else ""
            passages = counted(signal.passages, "passage")
            say(f"{signal.signal}: {passages} in {counted(signal.videos, 'video')}{failed}.")
    for note in report.notes:
        say(f"Note: {note}")
    signals = [problem for signal in report.signals for problem in (*signal.problems, *signal.notes)]
    say_problems([*report.problems, *signals], notes=signals)
    if before := report.failed - _failed_now(report):
        say(f"{before:,} failed before and stay left alone until they change: reelspace status, or index --retry")


def say_problems(problems: Sequence[Problem], notes: Sequence[Problem] = ()) -> None:
    """The first of them, a line each; those that are among `notes` leave their files indexed."""
    for problem in problems[:_SHOWN]:
        state = "note" if problem in notes else problem.state
        say(f"{state}: {shown_path(problem.path)}: {problem.reason}", indent="  ")
    if len(problems) > _SHOWN:
        say(f"… and {len(problems) - _SHOWN:,} more: reelspace status")
