"""Lessons → tensors. The n-th batch of a seed is always the same, whoever makes it and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.qwen_vl.pixels import normalised, patchified
from reelspace.media.policy import Centres
from reelspace.worlds.render import picture
from reelspace.worlds.sample import Profile, Random, Split, generator
from reelspace.worlds.scene import Scene
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.lessons import (
    EDGE,
    FRAMES,
    WORLDS,
    Lesson,
    Medium,
    Plan,
    lesson,
    mistold,
    opposed,
    retold,
    sampled,
    true_of,
    turned,
    twin,
)
from reelspace.worlds.tiny.model import CUT
from reelspace.worlds.tiny.tokens import Turn, Writer, Written

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sizes:
    """Lessons of a batch by medium. Two videos each are a pair.

    Attributes:
        paired: how many of the videos come with a caption each, for the contrastive loss; they begin with one word.
        summed: share of the other lessons that begin with one word.
        length: most tokens of a lesson: turns that would make it longer are left out.
    """

    video: int = 24
    image: int = 3
    text: int = 3
    paired: int = 24
    summed: float = 0.25
    length: int = 208


@dataclass
class Pairs:
    """Captions of the first videos of a batch.

    Attributes:
        inputs: arguments of the model for the captions: one of each video, and those that are nobody's.
        readout: int64 `[captions]`: where each caption's embedding is read.
        videos: int64 `[pairs]`: where each video's is, in the batch's own inputs.
        alike: bool `[pairs, captions]`: the caption of a column is true of the video of a row.
    """

    inputs: dict[str, torch.Tensor]
    readout: torch.Tensor
    videos: torch.Tensor
    alike: torch.Tensor


@dataclass
class Batch:
    """What one step reads.

    Attributes:
        inputs: arguments of the model: the lessons, videos first.
        turns: int64 `[n, length]`: the turn that each token belongs to, from 1; 0 before them.
        weights: float32 `[n, length]`: how much each token counts.
        wrong: int64 `[n, length]`: whether a text to be judged has said something false by then; -1 where none is.
        pairs: `None` without a contrastive loss.
    """

    inputs: dict[str, torch.Tensor]
    turns: torch.Tensor
    weights: torch.Tensor
    wrong: torch.Tensor
    pairs: Pairs | None


def batch(writer: Writer, plan: Plan, sizes: Sizes, split: Split, *names: object) -> Batch:
    """A batch of its own for every name."""
    import torch

    random = generator("tiny batch", split, *names)
    shares: dict[Medium, int] = {"video": sizes.video, "image": sizes.image, "text": sizes.text}
    scenes: list[Scene] = []
    worlds: list[Profile] = []
    also: list[list[Turn]] = []
    media = [medium for medium, count in shares.items() for _ in range(count)]
    for number, medium in enumerate(media):
        world = list(plan.worlds)[turned(random, list(plan.worlds.values()))]
        worlds.append(WORLDS[world])
        scenes.append(sampled(world, split, *names, number))
        also.append([])
        first = number - number % plan.family
        kin = medium == "video" and number > first and number // plan.family < plan.twins
        if kin and (other := twin(scenes[first], random, worlds[first])):
            scenes[-1], worlds[-1] = other, worlds[first]
            also[first], also[-1] = opposed(scenes[first], other, plan.opposed, random, plan.claims)
    lessons = []
    for number, (drawn, medium) in enumerate(zip(scenes, media, strict=True)):
        summed = bool(plan.contrast and number < sizes.paired) or bool(random.random() < sizes.summed)
        lessons.append(lesson(drawn, medium, random, plan, worlds[number], summed, also[number]))
    rows = [written(writer, made, sizes.length) for made in lessons]
    return Batch(
        inputs=collated(rows, lessons),
        turns=_padded([row.turn for row in rows], 0, torch.int64),
        weights=_padded([row.weights for row in rows], 0.0, torch.float32),
        wrong=_padded([row.wrong for row in rows], -1, torch.int64),
        pairs=_pairs(writer, lessons[: sizes.paired], rows, random, worlds if plan.mistold else ())
        if plan.contrast
        else None,
    )


def _pairs(
    writer: Writer, lessons: Sequence[Lesson], rows: Sequence[Written], random: Random, worlds: Sequence[Profile]
) -> Pairs:
    """Captions of the lessons; given their worlds, and of a twin of each."""
    import torch

    said = [retold(made.scene, random) for made in lessons]
    if worlds:
        found = (mistold(made.scene, random, world) for made, world in zip(lessons, worlds, strict=False))
        said += [one for one in found if one is not None]
    texts = [written(writer, made) for _, made in said]
    return Pairs(
        inputs=collated(texts, []),
        readout=torch.tensor([row.asked[0] for row in texts]),
        videos=torch.tensor([row.asked[0] for row in rows[: len(lessons)]]),
        alike=torch.tensor([[true_of(caption, made.scene) for caption, _ in said] for made in lessons]),
    )


def written(writer: Writer, made: Lesson, most: int | None = None) -> Written:
    """The lesson in tokens."""
    tokens_of = {"video": FRAMES // CUT.temporal, "image": 1, "text": 0}[made.medium] * (EDGE // CUT.factor) ** 2
    kind = tokens.VIDEO if made.medium == "video" else tokens.IMAGE
    return writer.write(
        tokens.seen(kind, tokens_of) if tokens_of else [], f"{made.told} " * bool(made.told), made.turns, most
    )


def _padded(rows: Sequence[Sequence[Any]], filler: Any, kind: torch.dtype) -> torch.Tensor:
    import torch

    table = torch.full((len(rows), max(map(len, rows))), filler, dtype=kind)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = torch.tensor(row, dtype=kind)
    return table


def collated(written: Sequence[Written], lessons: Sequence[Lesson]) -> dict[str, torch.Tensor]:
    """The arguments of the model, padded on the right."""
    return worded(written) | shown(lessons)


def worded(written: Sequence[Written]) -> dict[str, torch.Tensor]:
    """What the model is told, padded on the right."""
    import torch

    ids = _padded([row.ids for row in written], tokens.PAD, torch.int64)
    mask = _padded([[1] * len(row.ids) for row in written], 0, torch.int64)
    kinds = (ids == tokens.IMAGE).long() + 2 * (ids == tokens.VIDEO).long()
    return {"input_ids": ids, "attention_mask": mask, "mm_token_type_ids": kinds}


SEEN: dict[Medium, tuple[str, str]] = {
    "video": ("pixel_values_videos", "video_grid_thw"),
    "image": ("pixel_values", "image_grid_thw"),
}
"""Medium → the model's arguments for the patches and the grids."""


def shown(lessons: Sequence[Lesson]) -> dict[str, torch.Tensor]:
    """What the model is shown."""
    import torch

    inputs = {}
    for medium, (pixels, grid) in SEEN.items():
        cut = [patchified(normalised(frames(made)), CUT) for made in lessons if made.medium == medium]
        if cut:
            inputs[pixels] = torch.from_numpy(np.concatenate([rows for rows, _ in cut]))
            inputs[grid] = torch.tensor([size for _, size in cut])
    return inputs


def frames(made: Lesson) -> NDArray[np.uint8]:
    """The frames a lesson shows: uint8 `[T, EDGE, EDGE, 3]`."""
    if made.medium == "image":
        return picture(made.scene.shots[0], made.frame, EDGE)[None]
    shown = clip(made.scene)
    return shown[generator("order", made.scene.key).permutation(len(shown))] if made.shuffled else shown


def clip(drawn: Scene) -> NDArray[np.uint8]:
    """The model's frames of a scene: uint8 `[FRAMES, EDGE, EDGE, 3]`, the middles of equal parts of it."""
    return np.stack([picture(drawn.shots[shot], at, EDGE) for shot, at in map(drawn.at, chosen(drawn))])


def chosen(drawn: Scene) -> list[int]:
    """Numbers of the frames that the model is shown of a scene."""
    every = [k / drawn.rate for k in range(drawn.frames)]
    return [int(k) for k in Centres(FRAMES).choose(np.asarray(every), 0.0, drawn.duration)]
