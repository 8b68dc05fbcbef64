"""That it learns: trained by the trainer on rows of a small world, a model finds combinations it was never shown."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import reelspace
from reelspace.item import Frames, Item
from reelspace.train.config import Config
from reelspace.train.trainer import run
from reelspace.train.worlds import write
from reelspace.worlds.captions import caption
from reelspace.worlds.render import frames
from reelspace.worlds.sample import EASY, generator, perform, split_of
from reelspace.worlds.scene import Scene, Shot, Thing
from reelspace.worlds.tiny.model import shortened

TAUGHT = Path(__file__).parents[1] / "data" / "tiny-mllm"
WORLD = replace(EASY, size=(64,))


@pytest.fixture(scope="module")
def world():
    """All 96 combinations of form, colour and direction, one film each."""
    found = {}
    for form, colour, verb in product(WORLD.forms, WORLD.colours, WORLD.verbs):
        thing = perform(Thing(form=form, colour=colour, size="large", texture="plain", x=0.5, y=0.5), verb, 0, 8)
        shot = Shot(things=(thing,), background="wall", light="day", style="flat", frames=8, chapter=0, lay=0)
        found[form, colour, verb] = Scene(shots=(shot,), size=64)
    return found


def examined(model, world, shuffle=False):
    """Recall at 1 among all films for captions of held-out combinations, and how often the right one is chosen of the
    four films of the same thing.
    """
    embedder = reelspace.load(str(model))
    names = list(world)
    asked = [name for name in names if split_of(world[name]) == "held-out"]
    said = [(name, kind) for name in asked for kind in ("brief", "general")]
    texts = [caption(world[name], kind, generator("learning", *name)).text for name, kind in said]
    films = []
    for name in names:
        pixels = frames(world[name])
        if shuffle:
            pixels = pixels[generator("learning", *name).permutation(len(pixels))]
        films.append(Item(video=Frames(pixels, np.arange(len(pixels)) / 4)))
    scores = embedder.encode_query([Item(text) for text in texts]) @ embedder.encode_candidate(films).T
    right = [names[best] == name for best, (name, _) in zip(scores.argmax(axis=1), said, strict=True)]
    ways = []
    for row, (name, _) in zip(scores, said, strict=True):
        kin = [names.index((*name[:2], verb)) for verb in WORLD.verbs]
        ways.append(names[kin[int(row[kin].argmax())]] == name)
    return float(np.mean(right)), float(np.mean(ways))


def test_what_was_never_shown_is_found_and_its_direction_told(world, tmp_path):
    start = shortened(TAUGHT, 3, tmp_path / "start", frames=4)
    write(tmp_path, "text to video", 288, seed=0, profile=WORLD)
    before = examined(start, world)
    config = {
        **{"model": str(start), "output": "run", "memory": "memory", "schedule": {"kind": "uniform"}, "lora": None},
        **{"frozen": ["vision"], "precision": "fp32", "gradient_checkpointing": False, "workers": 0},
        **{"learning_rate": 1.5e-3, "weight_decay": 0.01, "warmup_steps": 15, "epochs": 100, "max_steps": 120},
        "mixture": {"tasks": [{"name": "text to video", "source": "text-to-video.jsonl", "batch_size": 24}]},
    }
    model = run(Config.model_validate(config), tmp_path, lambda line: None)
    found, way = examined(model, world)
    assert found >= 8 / 96 and found > before[0] + 0.2, (before, found)
    assert way >= 0.9 and way > before[1] + 0.1, (before, way)
    assert examined(model, world, shuffle=True)[1] <= way - 0.3
