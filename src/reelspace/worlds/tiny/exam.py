"""What the tiny model has learnt, on scenes with combinations it has never been trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from reelspace.worlds.captions import caption, questions
from reelspace.worlds.edits import match
from reelspace.worlds.sample import generator, pick
from reelspace.worlds.scene import Scene
from reelspace.worlds.tiny.batches import SEEN, collated, shown, worded, written
from reelspace.worlds.tiny.hearing import ATTRIBUTES, heard, told
from reelspace.worlds.tiny.lessons import ASSISTED, ONE_WORD, TELL, WORLDS, Lesson, matched, sampled
from reelspace.worlds.tiny.tokens import Turn, Writer, Written

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import Qwen2_5_VLForConditionalGeneration

Score = tuple[float, float, int]
"""The mean, what chance would get, and how many it is the mean of."""


def exam(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, world: str = "full", count: int = 96
) -> dict[str, float]:
    """A short one for the curves: right answers by kind of question, AUC of Yes, R@1 of captions by layer."""
    with _examined(model):
        scenes = drawn(world, count)
        scores = {kind: right for kind, (right, _, _) in answered(model, writer, scenes).items()}
        scores |= {f"match {kind}": judged(model, writer, scenes, kind, world)[0] for kind in ("brief", "general")}
        scores["check"] = checked(model, writer, scenes)[0]
        scores |= {f"layer {layer}": value for layer, value in enumerate(retrieved(model, writer, scenes))}
    return {name: round(float(value), 3) for name, value in scores.items()}


def report(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, world: str = "full", count: int = 480
) -> dict[str, Any]:
    """The long one. Each score stands beside its chance level and how many it is the mean of.

    `captions`: what is told of each attribute in captions said freely; chance is what a caption of another scene
    gets. `questions`: exact answers by kind; chance is one of the options. `yes`: area under the curve of Yes over
    No, by kind of caption, and for questions with an answer in them; chance is .5. `shuffled frames`: questions of
    time, asked of the same frames in another order. `retrieval`: R@1 of general captions → videos by layer.
    """
    with _examined(model):
        scenes = drawn(world, count)
        yes = {kind: judged(model, writer, scenes, kind, world) for kind in ("brief", "general", "object", "spatial")}
        yes["question"] = checked(model, writer, scenes)
        shuffled = answered(model, writer, scenes, TIMELY, shuffle=True)
        rounded: dict[str, Any] = _rounded(
            {
                "world": world,
                "captions": captioned(model, writer, scenes),
                "questions": answered(model, writer, scenes),
                "yes": {kind: (area, 0.5, n) for kind, (area, n) in yes.items()},
                "shuffled frames": shuffled,
                "retrieval": {
                    f"layer {n}": (r, 1 / count, count) for n, r in enumerate(retrieved(model, writer, scenes))
                },
            }
        )
    return rounded


def _rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _rounded(value) for key, value in found.items()}
    if isinstance(found, tuple):
        score, chance, n = found
        return {"score": round(float(score), 3), "chance": round(float(chance), 3), "n": int(n)}
    return found


@contextmanager
def _examined(model: Qwen2_5_VLForConditionalGeneration) -> Iterator[None]:
    import torch

    was = model.training
    model.eval()
    with torch.inference_mode():
        yield
    model.train(was)


def drawn(world: str, count: int) -> list[Scene]:
    """The scenes of the exam: each has a combination that is held out."""
    return [sampled(world, "held-out", "exam", number) for number in range(count)]


def captioned(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene]) -> dict[str, Score]:
    """Share of what is true that general captions, said freely, tell: by attribute."""
    lessons = [Lesson("video", "", (Turn(TELL["general"], ""),), scene) for scene in scenes]
    texts = [heard(text) for text in said(model, writer, lessons)]
    true = [told(scene) for scene in scenes]
    scores = {}
    for attribute in ATTRIBUTES:
        facts = [{fact for fact in row if fact[0] == attribute} for row in true]
        n = sum(map(len, facts))
        own, other = (
            sum(len(row & text) for row, text in zip(facts, tried, strict=True)) / n
            for tried in (texts, [*texts[1:], texts[0]])
        )
        scores[attribute] = (own, other, n)
    return scores


TIMELY = ("deed", "direction", "first", "last", "camera")
"""Kinds of question that the order of frames answers."""


def answered(
    model: Qwen2_5_VLForConditionalGeneration,
    writer: Writer,
    scenes: Sequence[Scene],
    kinds: Sequence[str] = (),
    shuffle: bool = False,
) -> dict[str, Score]:
    """Share of questions answered exactly right by greedy decoding, by kind; with `shuffle`, of frames in disorder."""
    asked = [
        (scene, question)
        for n, scene in enumerate(scenes)
        for question in questions(scene, generator("exam", n))
        if not kinds or question.kind in kinds
    ]
    lessons = [
        Lesson("video", "", (Turn(question.text, question.answer),), scene, shuffled=shuffle)
        for scene, question in asked
    ]
    right: dict[str, list[bool]] = defaultdict(list)
    options: dict[str, list[float]] = defaultdict(list)
    for (_, question), exact in zip(asked, greedy(model, writer, lessons), strict=True):
        right[question.kind].append(exact)
        options[question.kind].append(1 / len(question.options))
    return {
        kind: (float(np.mean(right[kind])), float(np.mean(options[kind])), len(right[kind])) for kind in sorted(right)
    }


def judged(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene], kind: str, world: str
) -> tuple[float, int]:
    """AUC of Yes over No for captions of a kind, half of them made false by one attribute; and how many they are."""
    pairs = [match(scene, kind, generator("exam match", n), WORLDS[world]) for n, scene in enumerate(scenes)]
    lessons = [
        Lesson("video", "", (Turn(matched(pair.text), "Yes"),), scene)
        for scene, pair in zip(scenes, pairs, strict=True)
    ]
    return auc(leaning(model, writer, lessons), np.array([pair.match for pair in pairs])), len(pairs)


def checked(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene]) -> tuple[float, int]:
    """AUC of Yes over No for questions that hold an answer, right and wrong; and how many they are."""
    lessons, true = [], []
    for number, scene in enumerate(scenes):
        random = generator("exam check", number)
        question = pick(random, questions(scene, random))
        wrong = pick(random, [option for option in question.options if option != question.answer])
        for answer in (question.answer, wrong):
            turn = Turn(f"{question.text} Is it {answer}?{ASSISTED}", "Yes")
            lessons.append(Lesson("video", "", (turn,), scene))
            true.append(answer == question.answer)
    return auc(leaning(model, writer, lessons), np.array(true)), len(true)


def retrieved(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, scenes: Sequence[Scene]) -> list[float]:
    """R@1 of general captions → videos by layer (0: the embeddings), read where the one word is to be said."""
    videos = [Lesson("video", "", (Turn(ONE_WORD["video"], ""),), scene) for scene in scenes]
    texts = [
        Lesson(
            "text", caption(scene, "general", generator("exam caption", n)).text, (Turn(ONE_WORD["text"], ""),), scene
        )
        for n, scene in enumerate(scenes)
    ]
    one, other = states(model, writer, texts), states(model, writer, videos)
    scores = np.einsum("ild,jld->lij", one, other)
    return [float((table.argmax(axis=1) == np.arange(len(scenes))).mean()) for table in scores]


# Readings of the model.

AT_ONCE = 48


def said(
    model: Qwen2_5_VLForConditionalGeneration, writer: Writer, lessons: Sequence[Lesson], most: int = 64
) -> list[str]:
    """What the model says greedily to the last turn. The lessons are of one length before it."""
    texts = []
    for part in _parts(lessons):
        rows = [written(writer, made) for made in part]
        for row in rows:
            del row.ids[row.asked[-1] + 1 :]
        inputs = collated(rows, part)
        ids = model.generate(**inputs, max_new_tokens=most, do_sample=False)[:, inputs["input_ids"].shape[1] :]
        texts += [writer.tokenizer.decode(line) for line in ids.tolist()]
    return texts


def greedy(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, lessons: Sequence[Lesson]) -> list[bool]:
    """Whether greedy decoding gives the last turn's answer, token by token."""
    right = []
    for part in _parts(lessons):
        rows = [written(writer, made) for made in part]
        said = model(**_inputs(model, rows, part)).logits.argmax(dim=-1)
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
        yield [row.asked[-1] for row in rows], model(**_inputs(model, rows, part)).logits


def states(model: Qwen2_5_VLForConditionalGeneration, writer: Writer, lessons: Sequence[Lesson]) -> NDArray[np.float32]:
    """What each layer holds where the first answer begins, after the final norm: unit rows `[n, layers + 1, d]`."""
    import torch

    found = []
    for part in _parts(lessons):
        rows = [written(writer, made) for made in part]
        layers = model.model(**_inputs(model, rows, part), output_hidden_states=True).hidden_states
        chosen = torch.stack([layer[range(len(rows)), [row.asked[0] for row in rows]] for layer in layers], dim=1)
        normed = torch.cat([model.model.language_model.norm(chosen[:, :-1]), chosen[:, -1:]], dim=1)
        found.append(torch.nn.functional.normalize(normed, dim=-1).numpy())
    return np.concatenate(found)


def _inputs(
    model: Qwen2_5_VLForConditionalGeneration, rows: Sequence[Written], lessons: Sequence[Lesson]
) -> dict[str, Any]:
    """The arguments of the model. What several lessons show is looked at once."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    inputs, seen = worded(rows), dict[str, Any]()
    for medium, (pixels, grid) in SEEN.items():
        chosen = [made for made in lessons if made.medium == medium]
        once = {(made.scene, made.frame, made.shuffled): made for made in chosen}
        if chosen:
            given = shown(list(once.values()))
            found = model.model.visual(given[pixels], grid_thw=given[grid]).pooler_output
            numbers = {key: number for number, key in enumerate(once)}
            places = [numbers[made.scene, made.frame, made.shuffled] for made in chosen]
            each = found.view(len(once), -1, found.shape[-1])[places]
            seen[medium] = BaseModelOutputWithPooling(pooler_output=tuple(each))
            inputs[grid] = given[grid][places]
    return {**inputs, "mm_encoder_outputs": seen}


def _parts(lessons: Sequence[Lesson]) -> Iterator[Sequence[Lesson]]:
    return (lessons[start : start + AT_ONCE] for start in range(0, len(lessons), AT_ONCE))


def auc(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> float:
    """The chance that a positive scores above a negative; ties count half."""
    one, other = scores[positive][:, None], scores[~positive][None, :]
    return float(((one > other) + 0.5 * (one == other)).mean())
