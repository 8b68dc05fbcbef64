"""Progress of long commands: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reelspace.cli.terminal import console, counted, lasting, say, shown_path

if TYPE_CHECKING:
    from reelspace.answers import Progress, PushProgress, RerankProgress

_QUIET = 30.0  # seconds between lines where there is no terminal


@contextmanager
def reporting() -> Iterator[Callable[[Progress], None]]:
    """A function that shows each `Progress` on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich import progress as rich
    from rich.table import Column
    from rich.text import Text

    class Remaining(rich.ProgressColumn):
        def render(self, task: rich.Task) -> Text:
            left = task.fields.get("remaining")
            return Text("" if left is None else f"{lasting(left)} left", style="cyan")

    columns = (
        rich.TextColumn("{task.fields[files]}"),
        rich.BarColumn(bar_width=None),
        rich.TextColumn("{task.percentage:>3.0f}%"),
        Remaining(),
        rich.TextColumn(
            "{task.fields[name]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
        ),
    )
    with rich.Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, files="looking for files", name="", remaining=None)

        def show(state: Progress) -> None:
            bar.update(
                task,
                total=max(1, state.bytes_total),
                completed=state.bytes_done if state.bytes_total else 1,
                files=f"{state.files_done}/{state.files_total}",
                name=shown_path(state.path),
                remaining=state.remaining,
            )

        yield show


@contextmanager
def pushed() -> Iterator[Callable[[PushProgress], None]]:
    """A function that shows each `PushProgress` on stderr."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(state: PushProgress) -> None:
            nonlocal last
            if time.monotonic() - last >= _QUIET:
                last = time.monotonic()
                say(f"{state.done:,} of {state.total:,} windows")

        yield line
        return
    from rich import progress as rich

    columns = (rich.TextColumn("windows"), rich.BarColumn(bar_width=None), rich.MofNCompleteColumn())
    with rich.Progress(*columns, rich.TimeRemainingColumn(), console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda state: bar.update(task, total=state.total, completed=state.done)


def _lines() -> Callable[[Progress], None]:
    last = time.monotonic()

    def show(state: Progress) -> None:
        nonlocal last
        if time.monotonic() - last < _QUIET:
            return
        last = time.monotonic()
        left = "" if state.remaining is None else f", {lasting(state.remaining)} left"
        say(f"{state.files_done} of {state.files_total} files{left}: {shown_path(state.path)}")

    return show


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows what is being done, and how much of it is: a bar, or a line now and then."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(what: str, done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= _QUIET:
                last = time.monotonic()
                say(f"{what}: {done:,} of {total:,}")

        yield line
        return
    from rich import progress as rich

    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(bar_width=None), rich.MofNCompleteColumn())
    with rich.Progress(*columns, rich.TimeRemainingColumn(), console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)


def judging() -> Callable[[RerankProgress], None]:
    """A function that says on stderr what a second look will cost, how long by its first pairs, and what it did cost.

    Lines, also on a terminal: they are to be read after the answer, too.
    """
    told = False

    def show(state: RerankProgress) -> None:
        nonlocal told
        if state.done == 0 and state.total:
            say(f"A second look by {state.model}: {counted(state.total, 'pair')}.")
        elif state.done < state.total and not told and state.remaining is not None:
            told = True
            pace = state.elapsed / state.done
            left = counted(state.total - state.done, "pair")
            say(f"{left} to go, about {lasting(state.remaining)} ({pace:.2g} s each).")
        elif state.done == state.total and state.total:
            say(f"Looked at {counted(state.total, 'pair')} in {lasting(state.elapsed)}.")

    return show
