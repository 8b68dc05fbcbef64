"""The tiny model's contract writes what its lessons write, token by token, and sees what they show."""

import numpy as np
import pytest
import torch

from reelspace.embed import load
from reelspace.embed.qwen_vl.readout import Readout
from reelspace.item import Frames, Item
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.batches import clip, collated, written
from reelspace.worlds.tiny.exam import states
from reelspace.worlds.tiny.lessons import ONE_WORD, Lesson, sampled
from reelspace.worlds.tiny.model import READOUT, Shape, build
from reelspace.worlds.tiny.tokens import Turn


@pytest.fixture(scope="module")
def folder(tmp_path_factory, writer):
    """A model as `worlds train` leaves it, but untrained."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    run = tmp_path_factory.mktemp("run")
    shape = Shape(hidden=64, layers=2, heads=2, inner=64, vision_hidden=32, vision_layers=1, vision_inner=32)
    build(shape, 0).save_pretrained(run)
    tokens.save(writer.tokenizer, run)
    Readout.of(READOUT).write(run)
    return run


def lessons():
    scene = sampled("full", "train", "contract")
    text = "A red circle moves left, then stops <|end|>."
    made = [Lesson("video", "", (Turn(ONE_WORD["video"], ""),), scene)]
    made += [Lesson("image", "", (Turn(ONE_WORD["image"], ""),), scene)]
    made += [Lesson("text", text, (Turn(ONE_WORD["text"], ""),), scene)]
    made += [Lesson("video", text, (Turn(ONE_WORD["text"], ""),), scene)]
    return made


def items(made):
    from reelspace.worlds.tiny.batches import frames

    seconds = made[0].scene.duration
    video = Frames(clip(made[0].scene), (np.arange(8) + 0.5) / 8 * seconds, 0.0, seconds)
    return [Item(video=video), Item(image=frames(made[1])[0]), Item(made[2].told), Item(made[3].told, video=video)]


def test_prompts_pixels_and_vectors_are_those_of_the_lessons(folder, writer):
    model = load(str(folder))
    assert model.readout == Readout.of(READOUT)
    made = lessons()
    for lesson, item in zip(made, items(made), strict=True):
        row = written(writer, lesson)
        prepared = model.module.preparer(item, "query")
        assert prepared.ids.tolist() == row.ids[: row.asked[0] + 1], lesson.medium
        shown = collated([row], [lesson])
        for visual in (*prepared.images, *prepared.videos):
            (patches,) = (rows for name, rows in shown.items() if name.startswith("pixel_values"))
            np.testing.assert_array_equal(visual.patches, patches.numpy())
    taps = [(0, True), (1, True), (None, True)]
    found = model.encode_layers(items(made), "candidate", taps)
    for row, (lesson, item) in enumerate(zip(made, items(made), strict=True)):
        with torch.inference_mode():
            expected = states(model.module.backbone, writer, [lesson])[0]
        np.testing.assert_allclose(found[:, row], expected, atol=1e-5, err_msg=str(item))
