"""What the tiny model has learnt, on scenes with combinations it has never been trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from reelspace.worlds.captions import caption, questions
from reelspace.worlds.edits import match
from reelspace.worlds.sample import generator, pick
from reelspace.worlds.scene import Scene
from reelspace.worlds.tiny.batches import collated, written
from reelspace.worlds.tiny.lessons import ASSISTED, ONE_WORD, WORLDS, Lesson, matched, sampled
from reelspace.worlds.tiny.tokens import Turn, Writer

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import Qwen2_5_VLForConditionalGeneration


def exam(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, world: str = "full", count: int = 96
) -> dict[str, float]:
    """A short one for the curves: right answers by kind of question, AUC of Yes, R@1 of captions by layer."""
    import torch

    scenes = [sampled(world, "held-out", "exam", number) for number in range(count)]
    was = model.training
    model.eval()
    with torch.inference_mode():
        scores = answered(model, writer, scenes)
        scores |= {f"match {kind}": judged(model, writer, scenes, kind, world) for kind in ("brief", "general")}
        scores["check"] = checked(model, writer, scenes)
        for layer, value in enumerate(retrieved(model, writer, scenes)):
            scores[f"layer {layer}"] = value
    model.train(was)
    return {name: round(float(value), 3) for name, value in scores.items()}


def answered(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene]) -> dict[str, float]:
    """Share of questions answered exactly right by greedy decoding, by kind."""
    asked = [(drawn, question) for n, drawn in enumerate(scenes) for question in questions(drawn, generator("exam", n))]
    lessons = [Lesson("video", "", (Turn(question.text, question.answer),), drawn) for drawn, question in asked]
    right = defaultdict(list)
    for (_, question), exact in zip(asked, greedy(model, writer, lessons), strict=True):
        right[question.kind].append(exact)
    return {kind: float(np.mean(right[kind])) for kind in sorted(right)}


def judged(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene], kind: str, world: str
) -> float:
    """AUC of Yes over No for captions of a kind, half of them made false by one attribute."""
    pairs = [match(drawn, kind, generator("exam match", n), WORLDS[world]) for n, drawn in enumerate(scenes)]
    lessons = [
        Lesson("video", "", (Turn(matched(pair.text), "Yes"),), drawn)
        for drawn, pair in zip(scenes, pairs, strict=True)
    ]
    return auc(leaning(model, writer, lessons), np.array([pair.match for pair in pairs]))


def checked(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene]) -> float:
    """AUC of Yes over No for questions that hold an answer, right and wrong."""
    lessons, true = [], []
    for number, drawn in enumerate(scenes):
        random = generator("exam check", number)
        question = pick(random, questions(drawn, random))
        wrong = pick(random, [option for option in question.options if option != question.answer])
        for said in (question.answer, wrong):
            turn = Turn(f"{question.text} Is it {said}?{ASSISTED}", "Yes")
            lessons.append(Lesson("video", "", (turn,), drawn))
            true.append(said == question.answer)
    return auc(leaning(model, writer, lessons), np.array(true))


def retrieved(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene]) -> list[float]:
    """R@1 of brief captions → videos by layer (0: the embeddings), read where the one word is to be said."""
    videos = [Lesson("video", "", (Turn(ONE_WORD["video"], ""),), drawn) for drawn in scenes]
    told = [caption(drawn, "general", generator("exam caption", n)).text for n, drawn in enumerate(scenes)]
    texts = [Lesson("text", text, (Turn(ONE_WORD["text"], ""),), drawn) for text, drawn in zip(told, scenes, strict=True)]
    one, other = states(model, writer, texts), states(model, writer, videos)
    scores = np.einsum("ild,jld->lij", one, other)
    return [float((table.argmax(axis=1) == np.arange(len(scenes))).mean()) for table in scores]


# Readings of the model.


AT_ONCE = 48


def greedy(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, lessons: Sequence[Lesson]) -> list[bool]:
    """Whether greedy decoding gives the last turn's answer, token by token."""
    right = []
    for part in _parts(lessons):
        rows = [written(writer, made) for made in part]
        inputs = collated(rows, part)
        said = model(**inputs).logits.argmax(dim=-1)
        for row, line in zip(rows, said, strict=True):
            start, end = row.asked[-1], len(row.ids) - 1
            right.append(line[start:end].tolist() == row.ids[start + 1 :])
    return right


def leaning(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, lessons: Sequence[Lesson]
) -> NDArray[np.float32]:
    """Log-odds of Yes against No as the last turn's answer."""
    yes, no = writer.tokens("Yes")[0], writer.tokens("No")[0]
    found: list[float] = []
    for rows, logits in _last(model, writer, lessons):
        found += [float(line[yes] - line[no]) for line in logits[range(len(rows)), rows]]
    return np.array(found, dtype=np.float32)


def _last(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, lessons: Sequence[Lesson]
) -> Iterator[tuple[list[int], torch.Tensor]]:
    for part in _parts(lessons):
        rows = [written(writer, made) for made in part]
        yield [row.asked[-1] for row in rows], model(**collated(rows, part)).logits


def states(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, lessons: Sequence[Lesson]) -> NDArray[np.float32]:
    """What each layer holds where the first answer begins, after the final norm: unit rows `[n, layers + 1, d]`."""
    import torch

    found = []
    for part in _parts(lessons):
        rows = [written(writer, made) for made in part]
        layers = model.model(**collated(rows, part), output_hidden_states=True).hidden_states
        chosen = torch.stack([layer[range(len(rows)), [row.asked[0] for row in rows]] for layer in layers], dim=1)
        normed = torch.cat([model.model.language_model.norm(chosen[:, :-1]), chosen[:, -1:]], dim=1)
        found.append(torch.nn.functional.normalize(normed, dim=-1).numpy())
    return np.concatenate(found)


def _parts(lessons: Sequence[Lesson]) -> Iterator[Sequence[Lesson]]:
    return (lessons[start : start + AT_ONCE] for start in range(0, len(lessons), AT_ONCE))


def auc(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> float:
    """The chance that a positive scores above a negative; ties count half."""
    one, other = scores[positive][:, None], scores[~positive][None, :]
    return float(((one > other) + 0.5 * (one == other)).mean())
