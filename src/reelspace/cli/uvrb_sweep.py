"""`reelspace uvrb sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reelspace.cli.terminal import JsonOption, fail, print_json, print_table, say, shown_path, table
from reelspace.cli.uvrb_run import (
    BatchOption,
    CacheOption,
    DataOption,
    DeviceOption,
    LimitOption,
    ModelOption,
    PrecisionOption,
    SeedOption,
    SizeName,
    SizeOption,
    SuiteName,
    SuiteOption,
    TasksOption,
)
from reelspace.errors import ExitCode


def register(uvrb: typer.Typer) -> None:
    """Adds the command."""
    uvrb.command()(sweep)


def sweep(
    suite: SuiteOption = SuiteName.uvrb,
    model: ModelOption = "lite",
    tasks: TasksOption = "all",
    data: DataOption = None,
    frames: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Numbers of uniform frames; the paper's: 8,16,24,32,40,48.", show_default=False
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Visual tokens a frame; the paper's: 200,400,600,800.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where to; else sweeps/SUITE/MODEL.", show_default=False),
    ] = None,
    limit: LimitOption = None,
    size: SizeOption = SizeName.mini,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    batch: BatchOption = 16,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Run tasks under more and more frames, or visual tokens a frame: scores, and a picture of them.

    Each setting has results of its own, in DIR/frames-8 and so on; DIR/sweep.json and DIR/sweep.svg tell of all. An
    interrupted sweep is finished by running it again.

    \b
    Examples
      reelspace uvrb sweep --suite worlds --model lite --tasks T --frames 4,8,16
      reelspace uvrb sweep --data data/ --model gve-3b@paper --frames 8,16,24,32,40,48
      reelspace uvrb sweep --data data/ --model gve-3b@paper --tokens 200,400,600,800
    """
    from reelspace.cli.progress import steps
    from reelspace.uvrb.cache import default_folder
    from reelspace.uvrb.models import open_model
    from reelspace.uvrb.run import Suite
    from reelspace.uvrb.sweep import sweep as run_sweep

    if (frames is None) == (tokens is None):
        raise fail("What is varied? Give either --frames or --tokens a list: --frames 8,16,24.")
    values = _numbers(frames if frames is not None else tokens or "")
    target = output or Path("sweeps") / suite.value / model.replace("/", "__").replace(":", "-")
    with steps() as show:
        made = run_sweep(
            lambda protocol: open_model(model, protocol, device, precision),
            Suite(suite.value, tasks, data, size.value, seed, limit),
            "frames" if frames is not None else "tokens",
            values,
            target,
            cache or default_folder(),
            batch=batch,
            watch=lambda value, state: show(f"{value}: {state.task}", state.done, state.total),
        )
    if json:
        print_json(made.told())
    else:
        settings = [str(value) for value in made.scores]
        rows = table(made.axis, *settings, right=tuple(settings))
        for name, line in made.lines.items():
            rows.add_row(name, *(f"{line[value]:.3f}" for value in made.scores))
        print_table(rows)
    if made.failures:
        say(f"{len(made.failures):,} items failed; they are in each setting's failures.jsonl.")
    say(f"{shown_path(target / 'sweep.svg')}: {made.model}.")
    raise typer.Exit(ExitCode.SOME_FAILED if made.failures else ExitCode.OK)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise fail(f"“{text}” is no list of numbers; write 8,16,24.")
    return [int(part) for part in parts]
