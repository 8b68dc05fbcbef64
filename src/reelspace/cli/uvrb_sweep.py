"""`reelspace uvrb sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reelspace.cli.terminal import JsonOption, fail, print_json, print_table, say, shown_path, table
from reelspace.cli.uvrb_run import DataOption, SizeName, SuiteName, SuiteOption
from reelspace.errors import ExitCode


def register(uvrb: typer.Typer) -> None:
    """Adds the command."""
    uvrb.command()(sweep)


def sweep(
    suite: SuiteOption = SuiteName.uvrb,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="One of `reelspace models`, st:NAME or mteb:NAME.")
    ] = "lite",
    tasks: Annotated[str, typer.Option(metavar="LIST", help="all, or names and abilities with commas.")] = "all",
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
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="N queries a task: a trial.", show_default=False)
    ] = None,
    size: Annotated[SizeName, typer.Option(help="Of worlds.")] = SizeName.mini,
    seed: Annotated[int, typer.Option(metavar="S", help="Of worlds.")] = 0,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda, …", show_default=False)] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="NAME", help="float32, bfloat16 or float16.", show_default=False)
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Items the model gets at once.")] = 16,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where vectors are kept; else in your cache.", show_default=False),
    ] = None,
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
