"""`reelspace train`: train an embedder on a mixture of tasks, and what goes before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from reelspace.train.probe import Cost

train = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

ConfigFile = Annotated[Path, typer.Option("-c", "--config", metavar="FILE", help="The run, as YAML.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(train, name="train")


@train.callback()
def overview() -> None:
    """Train an embedder on many retrieval tasks at once.

    With the Modality Pyramid or a simpler schedule, hard negatives, LoRA or all weights. Needs the extra `train`.

    \b
    Examples
      reelspace train probe --config run.yaml
      reelspace train run --config run.yaml
      reelspace train plot runs/mine --output mine.png
    """


@train.command()
def run(config: ConfigFile) -> None:
    """Train, or go on with a run that was stopped: from its last whole checkpoint, with the same draws.

    The output folder gets checkpoints, `log.jsonl` and in the end `model/`, which `reelspace index --model` takes and
    which opens as a SentenceTransformer. On several processes: `accelerate launch --config_file F -m reelspace train
    run …`, with F from `reelspace train launch`.

    \b
    Examples
      reelspace train run --config run.yaml
      reelspace index ~/Videos --model runs/mine/model
    """
    from reelspace.train.config import read
    from reelspace.train.trainer import run as go

    folder = go(read(config), config.parent, lambda line: typer.echo(line, err=True))
    typer.echo(folder)


@train.command()
def probe(
    config: ConfigFile,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The prober; by default the run's own.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how well a model aligns each task, and how the Pyramid would draw them in each epoch.

    \b
    Examples
      reelspace train probe --config run.yaml
      reelspace train probe --config run.yaml --model lite --json
    """
    import json
    from dataclasses import asdict

    from reelspace.embed import load
    from reelspace.train.config import located, read
    from reelspace.train.mixture import Mixture
    from reelspace.train.probe import Cost, alignment, measured
    from reelspace.train.probe import probe as sums
    from reelspace.train.schedule import Epoch, Pyramid

    made = read(config)
    tasks = Mixture(made.mixture, config.parent, made.seed).tasks
    named = model or made.schedule.prober
    prober = load(located(named, config.parent)) if named else load(located(made.model, config.parent), **made.options)
    cost, found = Cost(), {}
    with measured(cost):
        for task in tasks:
            found[task.name] = alignment(sums(prober, task, made.schedule.pairs, made.seed))
            typer.echo(f"probed {task.name}", err=True)
    typer.echo(f"It took {_told(cost)}.", err=True)
    names = tuple(task.name for task in tasks)
    pyramid = Pyramid(made.schedule.sigma_min, made.schedule.sigma_max, made.schedule.score)
    shares = [
        pyramid.shares(Epoch(number, made.epochs, names, tuple(task.batches for task in tasks), found)).tolist()
        for number in range(made.epochs)
    ]
    rows = [
        {
            "task": name,
            **asdict(found[name]),
            "contrast": found[name].contrast,
            "shares": [row[place] for row in shares],
        }
        for place, name in enumerate(names)
    ]
    if as_json:
        typer.echo(json.dumps({"tasks": rows, "cost": asdict(cost)}))
        return
    width = max(map(len, names))
    epochs = "  ".join(f"epoch {number + 1}" for number in range(made.epochs))
    typer.echo(f"{'task':<{width}}  matched  others  contrast  {epochs}")
    for row in rows:
        drawn = "  ".join(f"{share:7.1%}" for share in row["shares"])
        typer.echo(
            f"{row['task']:<{width}}  {row['matched']:7.3f}  {row['mismatched']:6.3f}  {row['contrast']:8.2f}  {drawn}"
        )


def _told(cost: Cost) -> str:
    counted = f" and {cost.flops:.2g} floating-point operations" if cost.flops else ""  # only PyTorch's are counted
    return f"{cost.seconds:.0f} s{counted}"


@train.command()
def mine(
    config: ConfigFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the mined rows go.")],
    model: Annotated[str, typer.Option(metavar="NAME", help="The embedder that finds what is near.")],
    count: Annotated[int, typer.Option(metavar="K", min=1, help="Hard negatives of each query.")] = 1,
    skip: Annotated[int, typer.Option(metavar="N", min=0, help="Pass over the nearest N.")] = 0,
    margin: Annotated[
        float | None,
        typer.Option(metavar="X", help="Only what scores at least X less than the answer.", show_default=False),
    ] = None,
    depth: Annotated[int, typer.Option(metavar="N", min=1, help="How many of the nearest to look at.")] = 64,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Do the I-th of N shares, counted from 1.", show_default=False)
    ] = None,
) -> None:
    """Find hard negatives for the rows of every task: near the query, and not what it asks for.

    They are found among the candidates of the task's other rows, and of its `corpus` where it has one. `DIR/TASK.jsonl`
    is the task's rows with them, a source like any other. A run that was stopped goes on. With --shard each share is
    run twice: once to embed its candidates (the exit code is then 1), and again when all shares have.

    \b
    Examples
      reelspace train mine --config run.yaml --model gve-3b --output mined/
      reelspace train mine --config run.yaml --model gve-3b --output mined/ --shard 3/8
    """
    from reelspace.embed import load
    from reelspace.errors import ExitCode
    from reelspace.train.config import read
    from reelspace.train.mine import Mining, WaitingError, mined, spent
    from reelspace.train.mixture import Mixture

    made = read(config)
    mining = Mining(count, skip, margin, depth)
    prober, waiting = load(model), []
    for task in Mixture(made.mixture, config.parent, made.seed).tasks:
        try:
            with typer.progressbar(length=1000, label=task.name, file=typer.get_text_stream("stderr")) as bar:
                path = mined(prober, task, mining, output, shard, lambda part, bar=bar: bar.update(part))  # type: ignore[misc]
        except WaitingError as error:  # of this task; the others can go on
            waiting.append(str(error))
        else:
            typer.echo(path)
        typer.echo(f"{task.name}: {_told(spent(output, task))} so far.", err=True)
    for reason in waiting:
        typer.echo(reason, err=True)
    if waiting:
        raise typer.Exit(ExitCode.SOME_FAILED)


@train.command()
def data(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="A task of worlds, `worlds` for all of them, or a table of captions.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the rows and their media go.")],
    count: Annotated[int, typer.Option(metavar="N", min=1, help="How many rows a task.")] = 1000,
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed gives the same rows.")] = 0,
) -> None:
    """Make rows to train on: from worlds, or brief → detailed captions from a CSV or Parquet table.

    \b
    Examples
      reelspace train data worlds --count 1000 --output rows/
      reelspace train data UVRD-T2V --count 5000 --output rows/
      reelspace train data VideoUFO.csv --count 60000 --output rows/
    """
    from reelspace.errors import ReelspaceError
    from reelspace.train.captions import pairs
    from reelspace.train.worlds import TASKS, write

    table = Path(kind)
    if table.suffix in (".csv", ".parquet"):
        typer.echo(pairs(table, output / f"{table.stem}.jsonl", count, seed))
        return
    if kind != "worlds" and kind not in TASKS:
        raise ReelspaceError(f"There is no “{kind}”: give worlds, {', '.join(TASKS)}, or a .csv or .parquet file.")
    for task in TASKS if kind == "worlds" else [kind]:
        with typer.progressbar(length=count, label=task, file=typer.get_text_stream("stderr")) as bar:
            path = write(output, task, count, seed, tick=lambda done, bar=bar: bar.update(1))  # type: ignore[misc]
        typer.echo(path)


@train.command()
def plot(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN…", help="Output folders of runs.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="Also the run of this file.", show_default=False),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="A .png, .svg or .pdf.")] = Path(
        "curves.png"
    ),
    window: Annotated[int, typer.Option(metavar="N", min=1, help="Steps of the moving mean.")] = 200,
) -> None:
    """Draw how runs went: loss, scores and gaps, raw, as a moving mean, and with its band; below them, for each task,
    what the prober found and how many steps it was given.

    \b
    Examples
      reelspace train plot runs/mine --output mine.png
      reelspace train plot --config run.yaml
      reelspace train plot runs/pyramid runs/uniform --output both.svg
    """
    from reelspace.errors import ReelspaceError
    from reelspace.train.config import read
    from reelspace.train.plot import plot as draw

    folders = list(runs or ())
    if config is not None:
        folders.append(config.parent / read(config).output)
    if not folders:
        raise ReelspaceError("Nothing to draw: give the output folder of a run, or its --config.")
    typer.echo(draw(folders, output, window))


@train.command()
def preset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="gve-3b or gve-7b.")],
) -> None:
    """Print the run by which the paper trained a model, with its mixture: to be kept, and its sources filled in.

    \b
    Example
      reelspace train preset gve-3b > run.yaml
    """
    from reelspace.train.config import published

    typer.echo(published(name), nl=False)


@train.command()
def launch(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="ddp, fsdp, deepspeed or cpu.")],
) -> None:
    """Print accelerate's configuration for several processes, to be kept and changed.

    \b
    Examples
      reelspace train launch fsdp > fsdp.yaml
      accelerate launch --config_file fsdp.yaml -m reelspace train run --config run.yaml
    """
    from importlib.resources import files

    from reelspace.errors import ReelspaceError

    path = files("reelspace.train").joinpath("launch", f"{kind}.yaml")
    if not path.is_file():
        raise ReelspaceError(f"There is no configuration “{kind}”; choose ddp, fsdp, deepspeed or cpu.")
    typer.echo(path.read_text("utf-8"), nl=False)
