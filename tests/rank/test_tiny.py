"""The tiny model as a judge: asked exactly as it was taught."""

import json

import numpy as np
import pytest

from reelspace.item import Frames, Item
from reelspace.rank import yes_no
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.batches import clip, collated, written
from reelspace.worlds.tiny.exam import leaning
from reelspace.worlds.tiny.lessons import Lesson, matched, sampled
from reelspace.worlds.tiny.model import READOUT, Shape, build
from reelspace.worlds.tiny.tokens import Turn, Writer


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An untrained one, as `worlds train` leaves it; the model and its writer."""
    from reelspace.embed.qwen_vl.readout import Readout

    folder = tmp_path_factory.mktemp("tiny")
    shape = Shape(hidden=64, layers=2, heads=2, inner=64, vision_hidden=32, vision_layers=1, vision_inner=32)
    model = build(shape, 0).eval()
    writer = Writer(tokens.learnt(tokens.samples(200)))
    model.save_pretrained(folder)
    tokens.save(writer.tokenizer, folder)
    Readout.of(READOUT).write(folder)
    return folder, model, writer


def test_it_is_asked_as_it_was_taught(made):
    """Token by token, and so its log-odds are those that its exam reads."""
    import torch

    folder, model, writer = made
    judge = yes_no.load(str(folder))
    scenes = [sampled("full", "held-out", "judge", number) for number in range(4)]
    statement = "A red dog moves left."
    lessons = [Lesson("video", "", (Turn(matched(statement), "Yes"),), scene) for scene in scenes]
    shown = [clip(scene) for scene in scenes]
    times = [(np.arange(len(one)) + 0.5) / len(one) for one in shown]
    items = [Item(video=Frames(one, when, 0.0, 1.0)) for one, when in zip(shown, times, strict=True)]
    prepare = judge._judge.module.preparer
    row = written(writer, lessons[0])
    assert prepare(yes_no.together(Item(statement), items[0]), "candidate").ids.tolist() == row.ids[: row.asked[0] + 1]
    with torch.inference_mode():
        expected = leaning(model, writer, lessons)
    yes, no = yes_no.answers(judge._judge.module.tokenizer)
    if len(yes) == len(no) == 1:  # the exam reads Yes against No alone
        np.testing.assert_allclose(judge.log_odds(Item(statement), items), expected, atol=1e-4)
    assert judge.modalities == {"text"} and collated([row], lessons[:1])


def test_a_file_beside_it_says_otherwise(made):
    folder, _, _ = made
    taught = yes_no.load(str(folder)).fingerprint
    (folder / yes_no.FILE).write_text(json.dumps({"user": {"video+text": "{video}{text} Yes or No?"}}))
    assert yes_no.load(str(folder)).fingerprint != taught
