"""`reelspace synth`: make a training set of weakly captioned videos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reelspace.cli.terminal import JsonOption, fail, print_json, say
from reelspace.errors import ExitCode
from reelspace.shard import parse_shard

synth = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
Dataset = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `synth run` made.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(synth, name="synth")


@synth.callback()
def overview() -> None:
    """Make a training set from weakly captioned videos.

    \b
    Examples
      reelspace synth run --config recipes/synth-worlds/config.toml --output uvrd/
      reelspace synth stats uvrd/
      reelspace synth audit uvrd/ --output audit.html
    """


@synth.command()
def run(
    config: Annotated[Path, typer.Option("-c", "--config", metavar="FILE", help="What to do, in TOML.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The data set.")],
    processes: Annotated[int, typer.Option(metavar="N", min=1, help="Processes on this machine.")] = 1,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Do the I-th of N shares, counted from 1: for job arrays.", show_default=False
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="With --shard: how long to wait for the others.")
    ] = 0.0,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on a Ray cluster; `local` starts one here.", show_default=False),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try items that were given up once more.")] = False,
) -> None:
    """Filter, enrich and extend raw pairs into a data set. Needs the extra `synth`.

    What can be made again goes to DIR, all else (answers of models, log, costs) to DIR.run beside it. However a run
    ends, the same command goes on with it, and DIR becomes the same, byte for byte. The exit code is 1 when items were
    given up, or when other shards have to be done first.

    \b
    Examples
      reelspace synth run --config flow.toml --output uvrd/ --processes 8
      reelspace synth run --config flow.toml --output uvrd/ --shard 3/16 --wait 86400
      reelspace synth run --config flow.toml --output uvrd/ --ray auto
    """
    _need_pyarrow()
    from reelspace.synth import run as running
    from reelspace.synth.config import read

    if shard is not None and (processes > 1 or ray is not None):
        raise fail("--shard is for a task of an array; give it without --processes and --ray.")
    share = None if shard is None else parse_shard(shard)
    wanted = read(config)
    job = running.Job(wanted, output.absolute())
    if retry:
        job.prepare()
        say(f"{running.again(job)} shards are done once more.")
    if share is not None:
        job.prepare()
        if not running.Worker(job, share, patience=wait, say=say).work():
            say(f"Shards {share} are done as far as they can be; other shards come first. Run this again after them.")
            raise typer.Exit(ExitCode.SOME_FAILED)
    elif ray is not None:
        running.on_ray(wanted, output, None if ray == "local" else ray, say=say)
    else:
        running.run(wanted, output, processes, say=say)
    _told(job)


def _told(job: object) -> None:
    from reelspace.synth.card import stats
    from reelspace.synth.run import Job

    assert isinstance(job, Job)
    figures = stats(job.out)
    rows = ", ".join(f"{task} {data['rows']:,}" for task, data in figures["tasks"].items())
    for who, spent in job.spent().items():
        tokens = spent.input_tokens + spent.output_tokens
        cost = f", {spent.cost:.2f} in all" if spent.cost else ""
        say(f"{who}: {spent.requests:,} requests, {tokens:,} tokens{cost}.")
    say(f"{job.out}: {figures['rows']:,} rows ({rows or 'none'}).")
    dead = sum(reasons.get("given up", 0) for reasons in figures["rejected"].values())
    if dead:
        say(f"{dead} items were given up; they are in {job.out / 'rejected'}. --retry tries them once more.")
        raise typer.Exit(ExitCode.SOME_FAILED)


@synth.command()
def audit(
    dataset: Dataset,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page.")] = Path("audit.html"),
    each: Annotated[int, typer.Option(metavar="N", min=1, help="Samples of every task and every reason.")] = 6,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed shows other samples.")] = 0,
) -> None:
    """Write a page of samples beside their frames, kept and turned down, and of the funnel.

    The page is one HTML file with all its pictures in it.

    \b
    Example
      reelspace synth audit uvrd/ --output audit.html
    """
    _need_pyarrow()
    from reelspace.synth.audit import write

    write(dataset.absolute(), output, each, seed)
    say(f"{output}: open it in a browser.")


@synth.command()
def stats(dataset: Dataset, json: JsonOption = False) -> None:
    """Print a data set's counts: rows by task, the funnel, and why what was turned down.

    \b
    Examples
      reelspace synth stats uvrd/
      reelspace synth stats uvrd/ --json
    """
    _need_pyarrow()
    from reelspace.cli.terminal import print_table, table
    from reelspace.synth.card import stats as figures_of

    figures = figures_of(dataset.absolute())
    if json:
        print_json(figures)
        return
    tasks = table("task", "rows", "videos", "negatives")
    for task, data in figures["tasks"].items():
        tasks.add_row(task, *(f"{data[name]:,}" for name in ("rows", "videos", "negatives")))
    print_table(tasks)
    funnel = table("step", "block", "in", "out")
    for line in figures["funnel"]:
        funnel.add_row(line["step"], line["block"], f"{line['in']:,}", f"{line['out']:,}")
    print_table(funnel)
    reasons = table("turned down by", "reason", "count")
    for block, counted in figures["rejected"].items():
        for reason, count in counted.items():
            reasons.add_row(block, reason, f"{count:,}")
    print_table(reasons)


def _need_pyarrow() -> None:
    from importlib.util import find_spec

    from reelspace.errors import ReelspaceError

    if not find_spec("pyarrow"):
        raise ReelspaceError("Synthesis writes Parquet and needs pyarrow: pip install 'reelspace[synth]'.")
