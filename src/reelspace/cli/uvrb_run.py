"""`reelspace uvrb run`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reelspace.cli.terminal import JsonOption, counted, print_json, print_table, say, shown_path, table
from reelspace.errors import ExitCode
from reelspace.shard import parse_shard

if TYPE_CHECKING:
    from reelspace.embed import Embedder
    from reelspace.uvrb.protocol import Protocol
    from reelspace.uvrb.results import Failure, Results
    from reelspace.uvrb.run import Outcome, State


class SuiteName(StrEnum):
    """What can be run (`reelspace.uvrb.tasks.SUITES`)."""

    uvrb = "uvrb"
    worlds = "worlds"
    classification = "classification"
    text_video = "text-video"


class SizeName(StrEnum):
    """How many queries a task of the worlds has."""

    mini = "mini"
    small = "small"
    full = "full"


SuiteOption = Annotated[SuiteName, typer.Option("--suite", help="Which tasks there are to choose from.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The folder of the tasks' data; worlds need none.", show_default=False),
]

ModelOption = Annotated[
    str, typer.Option("--model", metavar="NAME", help="One of `reelspace models`, st:NAME or mteb:NAME.")
]
TasksOption = Annotated[str, typer.Option("--tasks", metavar="LIST", help="all, or names and abilities with commas.")]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=1, help="N queries a task, among N candidates: a trial.", show_default=False
    ),
]
SizeOption = Annotated[SizeName, typer.Option("--size", help="Of worlds: about 48, 120 or 480 queries a task.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="S", help="Of worlds.")]
DeviceOption = Annotated[
    str | None, typer.Option("--device", metavar="NAME", help="cpu, cuda, cuda:1, …", show_default=False)
]
PrecisionOption = Annotated[
    str | None,
    typer.Option("--precision", metavar="NAME", help="float32, bfloat16 or float16.", show_default=False),
]
BatchOption = Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Items the model gets at once.")]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", metavar="DIR", help="Where vectors are kept; else in your cache.", show_default=False),
]


def register(uvrb: typer.Typer) -> None:
    """Adds the command."""
    uvrb.command()(run)


def run(
    suite: SuiteOption = SuiteName.uvrb,
    model: ModelOption = "lite",
    tasks: TasksOption = "all",
    data: DataOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where to; else results/SUITE/MODEL.", show_default=False),
    ] = None,
    limit: LimitOption = None,
    size: SizeOption = SizeName.mini,
    seed: SeedOption = 0,
    frames: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY", help="uniform(8), centres(4), fps(1, max=8), or model for its own.", show_default=False
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Visual tokens a frame at most.", show_default=False)
    ] = None,
    instructions: Annotated[
        bool, typer.Option("--instructions/--no-instructions", help="Whether tasks' instructions are given.")
    ] = True,
    present: Annotated[bool, typer.Option("--partial", help="Use what is there of a partial download.")] = False,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    batch: BatchOption = 16,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Else one a GPU, or for a model that needs no torch one a core, up to 4.",
            show_default=False,
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Embed the I-th of N shares only, counted from 1, and score nothing.",
            show_default=False,
        ),
    ] = None,
    cache: CacheOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results of another run.")] = False,
    json: JsonOption = False,
) -> None:
    """Run tasks, cheap ones first, and write their results.

    An interrupted run is finished by running it again: what was embedded is kept. Shards may run on several machines
    that share the cache's folder; then run once without --shard. The exit code is 1 when items failed (they are in
    failures.jsonl) or data of tasks are not there.

    \b
    Examples
      reelspace uvrb run --suite worlds --model lite
      reelspace uvrb run --suite worlds --tasks T,CRB-S --size small --json
      reelspace uvrb run --data data/ --model lite --tasks CG --limit 100
      reelspace uvrb run --data data/ --model lite --shard 1/4
    """
    from reelspace.uvrb.cache import default_folder
    from reelspace.uvrb.models import open_model
    from reelspace.uvrb.run import Runner, Suite

    part = None if shard is None else parse_shard(shard)
    chosen = Suite(suite.value, tasks, data, size.value, seed, limit, present)
    protocol = _protocol(chosen, frames, tokens, instructions)
    embedder = open_model(model, protocol, device, precision)
    runner = Runner(embedder, chosen, cache or default_folder(), protocol, batch)
    if part is not None:
        with _reporting() as watch:
            outcome = runner.shard(part, watch)
        if json:
            print_json({"shard": shard, "embedded": outcome.made, "failures": len(outcome.failures)})
        else:
            typer.echo(f"Shard {shard}: embedded {outcome.made:,} now.")
        raise typer.Exit(_code(outcome))
    target = output or Path("results") / suite.value / embedder.name.replace("/", "__").replace(":", "-")
    runner.check(target, overwrite)
    options: dict[str, object] = {
        "suite": suite.value,
        "model": model,
        "tasks": tasks,
        "data": data,
        "limit": limit,
        "size": size.value,
        "seed": seed,
        "frames": frames,
        "tokens": tokens,
        "device": device,
        "precision": precision,
        "batch": batch,
        "cache": cache,
    }
    flags = ["--instructions" if instructions else "--no-instructions", *(["--partial"] if present else [])]
    _spread(processes or _processes(embedder), options, flags)
    with _reporting() as watch:
        outcome = runner.run(target, watch)
    assert outcome.results is not None
    _show(outcome, outcome.results, json)
    raise typer.Exit(_code(outcome))


def _protocol(suite: Any, frames: str | None, tokens: int | None, instructions: bool) -> Protocol:
    from dataclasses import replace

    from reelspace.media.policy import parse_policy

    chosen: Protocol = replace(suite.protocol, tokens=tokens, instructions=instructions)
    if frames is None:
        return chosen
    return replace(chosen, frames=None if frames == "model" else str(parse_policy(frames)))


def _processes(embedder: Embedder) -> int:
    """How many processes embed: one a GPU; one a core up to 4 for a model that runs on one core."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return max(1, int(torch.cuda.device_count()))
    return min(4, os.cpu_count() or 1)


def _spread(count: int, options: dict[str, object], flags: list[str]) -> None:
    """Has the items embedded by `count` processes, each the same command with a shard of its own.

    What one fails to do is done afterwards by this one: none is waited for by another.
    """
    if count < 2:
        return
    given = [part for key, value in options.items() if value is not None for part in (f"--{key}", str(value))]
    command = [sys.executable, "-m", "reelspace", "uvrb", "run", *given, *flags]
    running = []
    try:
        for number in range(count):
            environment = os.environ | _means(number)
            shard = ["--shard", f"{number + 1}/{count}"]
            running.append(
                subprocess.Popen([*command, *shard], env=environment, stdout=subprocess.DEVNULL, stderr=_errors(number))
            )
        for process in running:
            process.wait()
    except BaseException:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
        raise


def _errors(number: int) -> int | None:
    """The first shard shows how far it is; the others say nothing."""
    return None if number == 0 else subprocess.DEVNULL


def _means(number: int) -> dict[str, str]:
    """What a process may use: a GPU of its own, where there are several; of a model without torch one core."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"OMP_NUM_THREADS": "1"}
    if torch.cuda.device_count() < 2:
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    devices = visible if visible != [""] else [str(k) for k in range(torch.cuda.device_count())]
    return {"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}


def _code(outcome: Outcome) -> ExitCode:
    return ExitCode.SOME_FAILED if outcome.failures or outcome.absent else ExitCode.OK


@contextmanager
def _reporting() -> Iterator[Callable[[State], None]]:
    """A function that shows how far a run is, on stderr."""
    from reelspace.cli.progress import steps

    with steps() as show:
        yield lambda state: show(f"{state.task} ({state.number} of {state.of})", state.done, state.total)


def _show(outcome: Outcome, results: Results, json: bool) -> None:
    for name, reason in outcome.absent.items():
        say(f"{name} was not run: {reason}")
    if json:
        print_json({"results": str(results.folder), **results.manifest, "absent": outcome.absent})
    else:
        made = table("task", "ability", "metric", "queries", "among", "chance", "score", "ties", right=_NUMBERS)
        for name, task in results.manifest["tasks"].items():
            spread = task["high"] - task["low"]
            made.add_row(
                name,
                task["ability"],
                task["metric"],
                f"{task['queries']:,}",
                f"{task['among']:,}",
                f"{task['chance']:.3f}",
                f"{task['score']:.3f}",
                f"{task['low']:.3f}-{task['high']:.3f}" if spread > 0 else "",
            )
        print_table(made)
    _list_failures(outcome.failures)
    say(f"{shown_path(results.folder)}: {counted(len(results.tasks), 'task')}, {results.model}.")


_NUMBERS = ("queries", "among", "chance", "score")
_SHOWN = 5


def _list_failures(failures: list[Failure]) -> None:
    for failure in failures[:_SHOWN]:
        say(f"{failure.task}: {failure.side} {failure.id}: {failure.reason}")
    if len(failures) > _SHOWN:
        say(f"… and {len(failures) - _SHOWN:,} more items failed; all are in failures.jsonl.")
