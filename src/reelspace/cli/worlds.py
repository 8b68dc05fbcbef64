"""`reelspace worlds`: make videos whose truth is known, and show them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from reelspace.worlds.scene import Scene

worlds = typer.Typer(rich_markup_mode=None, no_args_is_help=True)


class ProfileName(StrEnum):
    """The worlds to draw from (`reelspace.worlds.sample.PROFILES`)."""

    full = "full"
    long = "long"
    easy = "easy"
    plain = "plain"


class SplitName(StrEnum):
    """Scenes to train on, or those with a held-out combination."""

    train = "train"
    held_out = "held-out"


Seed = Annotated[int, typer.Option(metavar="S", help="The same seed gives the same files.")]
Profile = Annotated[
    ProfileName, typer.Option(help="full: all there is; long: many shots; easy: one shape, moving; plain: between.")
]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where to; made if it is not there.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(worlds, name="worlds")


@worlds.callback()
def overview() -> None:
    """Make videos whose truth is known, to train and to test on.

    \b
    Examples
      reelspace worlds make --seed 1 --count 1000 --output worlds/
      reelspace worlds show --count 12 --output look/
    """


@worlds.command()
def make(
    output: Output,
    seed: Seed = 0,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="How many videos the folder is to hold.")] = 100,
    profile: Profile = ProfileName.full,
    split: Annotated[SplitName | None, typer.Option(help="Only scenes of this split.", show_default=False)] = None,
) -> None:
    """Make videos with what is true of them: `videos/` and `scenes.jsonl`, a line a video.

    A line has the scene, the place of each thing in each frame, captions of eleven kinds, questions with their
    answers, and texts that match or do not. An interrupted run is finished by running it again; a larger --count
    adds to the folder.

    \b
    Examples
      reelspace worlds make --seed 1 --count 1000 --output worlds/
      reelspace worlds make --seed 1 --count 1000 --split train --output train/
      reelspace worlds make --seed 2 --count 20 --profile long --output films/
    """
    from reelspace.worlds.make import make as make_worlds

    with typer.progressbar(length=count, label="videos", file=typer.get_text_stream("stderr")) as bar:
        make_worlds(output, seed, count, profile.value, split.value if split else None, lambda done: bar.update(1))
    typer.echo(f"{output}: {count} videos, seed {seed}.", err=True)


@worlds.command()
def show(
    output: Output,
    seed: Seed = 0,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="How many videos.")] = 12,
    profile: Profile = ProfileName.full,
    kind: Annotated[str, typer.Option(help="The kind of caption below each.")] = "general",
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show a task of UVRB-Worlds instead.", show_default=False)
    ] = None,
) -> None:
    """Draw a contact sheet (`sheet.png`) and a GIF a video, with captions.

    \b
    Examples
      reelspace worlds show --count 12 --output look/
      reelspace worlds show --task CRB-T --count 6 --output look/
    """
    from reelspace.worlds.film import write
    from reelspace.worlds.show import gif, sheet

    rows = _of_task(task, count) if task else _of_seed(seed, count, profile.value, kind)
    write(sheet(rows), output / "sheet.png")
    for number, (scene, text) in enumerate(rows):
        write(gif(scene, text), output / f"{number:06d}.gif")
    typer.echo(f"{output / 'sheet.png'} and {len(rows)} GIFs.", err=True)


def _of_seed(seed: int, count: int, profile: str, kind: str) -> list[tuple[Scene, str]]:
    from itertools import islice

    from reelspace.errors import ReelspaceError
    from reelspace.worlds.captions import KINDS, caption
    from reelspace.worlds.sample import PROFILES, generator, scenes

    if kind not in KINDS:
        raise ReelspaceError(f"There is no caption of kind “{kind}”; choose one of {', '.join(KINDS)}.")
    drawn = enumerate(islice(scenes(seed, PROFILES[profile]), count))
    return [(scene, caption(scene, kind, generator("words", seed, number)).text) for number, scene in drawn]


def _of_task(name: str, count: int) -> list[tuple[Scene, str]]:
    """Candidates, each with the query that it answers."""
    from reelspace.worlds.tasks import task

    made = task(name, "mini")
    answers = {right: key for key, found in made.relevant.items() for right in found}
    rows = []
    for key, scene in list(made.corpus.items())[:count]:
        query = made.queries.get(answers.get(key, ""))
        asked = "asked for by no query" if query is None else query.text or "asked for by a picture or a clip of it"
        rows.append((scene, f"{key}: {asked}"))
    return rows


@worlds.command()
def train(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A TOML file such as recipes/tiny-mllm/recipe.toml.")
    ],
    output: Output,
    seed: Seed = 0,
) -> None:
    """Train a tiny video language model on worlds. Needs the extra `torch`.

    The model lands in DIR/model, as transformers loads it; what it learnt along the way in DIR/curves.jsonl. An
    interrupted run goes on where it last saved.

    \b
    Examples
      reelspace worlds train recipes/tiny-mllm/recipe.toml --output tiny/
      reelspace worlds train recipes/tiny-mllm/recipe.toml --seed 1 --output tiny-1/
    """
    _need_torch()
    from reelspace.worlds.tiny.train import read
    from reelspace.worlds.tiny.train import train as train_tiny

    train_tiny(read(recipe), output, seed, lambda line: typer.echo(line, err=True))


@worlds.command()
def exam(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `worlds train` made, or its `model`.")],
    world: Annotated[str, typer.Option(help="easy, plain or full.")] = "full",
    count: Annotated[int, typer.Option(metavar="N", min=2, help="How many scenes.")] = 480,
) -> None:
    """Say what a tiny model has learnt, on scenes with combinations it was never trained on, as JSON.

    \b
    Example
      reelspace worlds exam tiny/model > scores.json
    """
    import json

    _need_torch()
    from reelspace.worlds.tiny.exam import report
    from reelspace.worlds.tiny.model import load

    typer.echo(json.dumps(report(*load(model), world, count), indent=1))


def _need_torch() -> None:
    from importlib.util import find_spec

    from reelspace.errors import ModelError

    if not (find_spec("torch") and find_spec("transformers")):
        raise ModelError("The tiny model needs torch and transformers: pip install 'reelspace[torch]'.")
