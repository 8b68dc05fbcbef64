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
from reelspace.worlds.sample import Split, generator
from reelspace.worlds.scene import Scene
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.lessons import (
    EDGE,
    FRAMES,
    WORLDS,
    Lesson,
    Medium,
    lesson,
    retold,
    sampled,
    true_of,
    turned,
)
from reelspace.worlds.tiny.model import CUT
from reelspace.worlds.tiny.tokens import Writer, Written

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Plan:
    """What a stretch of training is made of.

    Attributes:
        until: where it ends, as a share of all steps.
        worlds: name → share of scenes.
        contrast: weight of the contrastive loss between videos and captions; 0: none, and no captions are read.
        judged: share of turns that ask for Yes or No.
        turns: turns a lesson.
    """

    until: float
    worlds: dict[str, float]
    contrast: float
    judged: float
    turns: int


@dataclass(frozen=True)
class Sizes:
    """Lessons of a batch by medium; as many captions as videos where there is a contrastive loss.

    Attributes:
        length: most tokens of a lesson: turns that would make it longer are left out.
    """

    video: int = 32
    image: int = 4
    text: int = 4
    length: int = 144


@dataclass
class Batch:
    """What one step reads.

    Attributes:
        inputs: arguments of the model: the lessons, videos first.
        weights: float32 `[n, length]`: how much each token counts.
        readout: int64 `[n]`: where each lesson's embedding is read.
        captions: arguments of the model for the captions of the videos; `None` without a contrastive loss.
        captions_readout: as `readout`.
        alike: bool `[videos, videos]`: the caption of a column is true of the video of a row.
        lessons: what they were made of.
    """

    inputs: dict[str, torch.Tensor]
    weights: torch.Tensor
    readout: torch.Tensor
    captions: dict[str, torch.Tensor] | None
    captions_readout: torch.Tensor | None
    alike: torch.Tensor | None
    lessons: list[Lesson]
    written: list[Written]


def batch(writer: Writer, plan: Plan, sizes: Sizes, split: Split, *names: object) -> Batch:
    """A batch of its own for every name."""
    import torch

    random = generator("tiny batch", split, *names)
    media: list[Medium] = [*["video"] * sizes.video, *["image"] * sizes.image, *["text"] * sizes.text]  # type: ignore[list-item]
    lessons = []
    for number, medium in enumerate(media):
        world = list(plan.worlds)[turned(random, list(plan.worlds.values()))]
        drawn = sampled(world, split, *names, number)
        lessons.append(lesson(drawn, medium, random, plan.judged, plan.turns, WORLDS[world]))
    rows = [written(writer, made, sizes.length) for made in lessons]
    captions = captions_readout = alike = None
    if plan.contrast:
        said = [retold(made.scene, random) for made in lessons[: sizes.video]]
        texts = [written(writer, made) for _, made in said]
        captions, captions_readout = collated(texts, []), _readouts(texts)
        table = [[true_of(caption, made.scene) for caption, _ in said] for made in lessons[: sizes.video]]
        alike = torch.tensor(table)
    return Batch(
        inputs=collated(rows, lessons),
        weights=_padded([row.weights for row in rows], 0.0, torch.float32),
        readout=_readouts(rows),
        captions=captions,
        captions_readout=captions_readout,
        alike=alike,
        lessons=lessons,
        written=rows,
    )


def written(writer: Writer, made: Lesson, most: int | None = None) -> Written:
    """The lesson in tokens."""
    tokens_of = {"video": FRAMES // CUT.temporal, "image": 1, "text": 0}[made.medium] * (EDGE // CUT.factor) ** 2
    kind = tokens.VIDEO if made.medium == "video" else tokens.IMAGE
    return writer.write(tokens.seen(kind, tokens_of) if tokens_of else [], f"{made.told} " * bool(made.told), made.turns, most)


def _readouts(written: Sequence[Written]) -> torch.Tensor:
    import torch

    return torch.tensor([row.asked[0] for row in written])


def _padded(rows: Sequence[Sequence[Any]], filler: Any, kind: torch.dtype) -> torch.Tensor:
    import torch

    table = torch.full((len(rows), max(map(len, rows))), filler, dtype=kind)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = torch.tensor(row, dtype=kind)
    return table


def collated(written: Sequence[Written], lessons: Sequence[Lesson]) -> dict[str, torch.Tensor]:
    """The arguments of the model, padded on the right."""
    import torch

    ids = _padded([row.ids for row in written], tokens.PAD, torch.int64)
    mask = _padded([[1] * len(row.ids) for row in written], 0, torch.int64)
    inputs = {"input_ids": ids, "attention_mask": mask}
    inputs["mm_token_type_ids"] = (ids == tokens.IMAGE).long() + 2 * (ids == tokens.VIDEO).long()
    for medium, pixels, grid in (
        ("video", "pixel_values_videos", "video_grid_thw"),
        ("image", "pixel_values", "image_grid_thw"),
    ):
        shown = [patchified(normalised(frames(made)), CUT) for made in lessons if made.medium == medium]
        if shown:
            inputs[pixels] = torch.from_numpy(np.concatenate([rows for rows, _ in shown]))
            inputs[grid] = torch.tensor([size for _, size in shown])
    return inputs


def frames(made: Lesson) -> NDArray[np.uint8]:
    """The frames a lesson shows: uint8 `[T, EDGE, EDGE, 3]`."""
    if made.medium == "image":
        return picture(made.scene.shots[0], made.frame, EDGE)[None]
    return clip(made.scene)


def clip(drawn: Scene) -> NDArray[np.uint8]:
    """The model's frames of a scene: uint8 `[FRAMES, EDGE, EDGE, 3]`, the middles of equal parts of it."""
    every = [k / drawn.rate for k in range(drawn.frames)]
    chosen = Centres(FRAMES).choose(np.asarray(every), 0.0, drawn.duration)
    return np.stack([picture(drawn.shots[shot], at, EDGE) for shot, at in (drawn.at(int(k)) for k in chosen)])

