import json

import numpy as np
import pytest
import torch

from reelspace.worlds.render import cover
from reelspace.worlds.sample import EASY, generator, perform, scene, shoot
from reelspace.worlds.scene import FORMS, SIZES, Camera, Shot, Thing
from reelspace.worlds.tiny import eyes
from reelspace.worlds.tiny.eyes import CLASSES, FILMING, NAMES, Eyes, losses, opened, read, sights, told
from reelspace.worlds.tiny.lessons import EDGE
from reelspace.worlds.tiny.model import CUT, Shape, build, looked, quickened

SIDE = EDGE // CUT.factor
SMALL = Shape(hidden=32, layers=1, heads=1, inner=32, vision_hidden=32, vision_layers=2, vision_inner=32)


def _shot(verb, **camera):
    thing = perform(Thing(form="star", colour="red", size="large", x=0.5, y=0.5), verb, 0, 8)
    return Shot(things=(thing,), frames=8, **camera)


def _of(table, name):
    return {CLASSES[name][k] for k in table[name] if k >= 0}


def test_a_cell_belongs_to_the_thing_that_covers_it():
    star = Thing(form="star", colour="red", size="large", x=0.2, y=0.2)
    dog = Thing(form="dog", size="medium", x=0.8, y=0.8)
    table = told(Shot(things=(star, dog)), 0, 1)
    forms = table["form"].reshape(SIDE, SIDE)
    assert forms[0, 0] == FORMS.index("star")
    assert forms[3, 3] == FORMS.index("dog")
    assert forms[0, 3] == forms[3, 0] == -1
    assert (table["thing"] == (table["form"] >= 0)).all()
    assert (table["texture"].reshape(SIDE, SIDE)[3, 3], table["colour"].reshape(SIDE, SIDE)[3, 3]) == (-1, 0)


def test_who_stands_in_front_has_the_pixel():
    behind = Thing(form="square", colour="red", size="large")
    front = Thing(form="circle", colour="blue", size="small")
    seen = cover(Shot(things=(behind, front)), 0, EDGE)
    assert seen[EDGE // 2, EDGE // 2] == 2
    assert seen[EDGE // 2, EDGE // 2 - round(0.12 * EDGE)] == 1
    assert seen[0, 0] == 0
    assert (seen == 2).sum() == pytest.approx(np.pi * (SIZES["small"] * EDGE) ** 2, rel=0.1)


@pytest.mark.parametrize("verb", ["left", "right", "up", "down"])
def test_the_way_of_a_thing_is_told(verb):
    table = told(_shot(verb), 2, 3)
    assert _of(table, "way") == {verb}
    assert _of(table, "growing") == _of(table, "turning") == {""}
    x, y = (np.nanmean(table["numbers"][:, NAMES.index(f"step {axis}")]) for axis in "xy")
    assert (x < -0.5, x > 0.5, y < -0.5, y > 0.5) == tuple(verb == way for way in ("left", "right", "up", "down"))


def test_growing_and_turning_are_told():
    assert _of(told(_shot("grow"), 2, 3), "growing") == {"in"}
    assert _of(told(_shot("shrink"), 2, 3), "growing") == {"out"}
    assert _of(told(_shot("turn anticlockwise"), 2, 3), "turning") == {"anticlockwise"}
    assert _of(told(_shot("turn clockwise"), 2, 3), "way") == {"nowhere"}


@pytest.mark.parametrize(
    ("x", "y", "place"),
    [(0.5, 0.5, ("middle", "middle")), (0.2, 0.8, ("far left", "bottom")), (0.65, 0.35, ("right", "high"))],
)
def test_where_in_the_picture_a_thing_is_is_told_of_every_cell_it_covers(x, y, place):
    thing = Thing(form="square", colour="red", size="large", x=x, y=y)
    table = told(Shot(things=(thing,)), 2, 3)
    assert table["thing"].sum() > 1
    assert tuple(_of(table, name) for name in ("across", "down")) == tuple({value} for value in place)


@pytest.mark.parametrize("verb", FILMING)
def test_what_the_camera_does_is_told_of_every_cell(verb):
    acts = () if verb == "nothing" else (shoot(verb, 0, 8),)
    table = told(_shot("appear", camera=Camera(acts=acts)), 2, 3)
    assert (table["filming"] == FILMING.index(verb)).all()


def test_pairs_are_the_same_whenever_they_are_made():
    one, other = (sights({"crowded": 1.0}, 6, "train", 0, 3) for _ in range(2))
    assert torch.equal(one.rows, other.rows)
    assert one.grid.tolist() == [[1, EDGE // CUT.patch, EDGE // CUT.patch]] * 6
    assert len(one.thing) == len(one.numbers) == 6 * SIDE * SIDE
    assert one.numbers[one.thing == 0, :9].isnan().all()
    assert not one.numbers[one.thing == 1].isnan().any()
    assert not torch.equal(one.rows, sights({"crowded": 1.0}, 6, "train", 0, 4).rows)


def test_all_frames_at_once_are_seen_as_one_by_one():
    model = build(SMALL, 0).eval()
    made = sights({"full": 1.0}, 4, "train", 0)
    with torch.inference_mode():
        one = model.model.visual(made.rows, grid_thw=made.grid).pooler_output
        quickened(model)
        other = looked(model.model.visual, made.rows, made.grid)
    assert torch.allclose(one, other, atol=1e-5)


def test_heads_that_know_are_right_and_lose_nothing():
    made = sights({"crowded": 1.0}, 8, "train", 0)
    width = 64
    heads = eyes.heads(width)
    seen = torch.nn.functional.one_hot(made.kinds["form"].clamp(min=0), width).float()
    with torch.no_grad():
        heads["form"].weight.copy_(8 * torch.eye(len(FORMS), width))
        assert losses(heads, seen, made)["form"] < 0.01
        assert read(heads, seen, made)["form"] == 1.0


def test_an_interrupted_lesson_ends_as_one_that_was_not(tmp_path):
    pace = Eyes(steps=3, pairs=4, every=1, exam=4, warmup=1)

    class _KilledError(Exception):
        pass

    def kill(line):
        if json.loads(line)["step"] == 2:
            raise _KilledError

    def taught(folder, say):
        folder.mkdir(exist_ok=True)
        model = build(SMALL, 0)
        quickened(model)
        opened(model.model.visual, SMALL, pace, folder, 0, say)
        return model.model.visual.state_dict()

    whole = taught(tmp_path / "whole", lambda line: None)
    with pytest.raises(_KilledError):
        taught(tmp_path / "cut", kill)
    cut = taught(tmp_path / "cut", lambda line: None)
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    curves = (tmp_path / "whole" / eyes.CURVES).read_text()
    assert curves == (tmp_path / "cut" / eyes.CURVES).read_text()
    said = []
    taught(tmp_path / "whole", said.append)
    assert said == []
    assert len(curves.splitlines()) == 3


def test_an_eye_learns_the_colour_of_what_it_sees():
    drawn = [scene(generator("eye", number), EASY) for number in range(2)]
    assert drawn[0].shots[0].things[0].colour
    visual = build(SMALL, 0)
    quickened(visual)
    visual = visual.model.visual
    heads = eyes.heads(SMALL.hidden)
    steps = eyes.Steps(Eyes(steps=60, warmup=5), visual, heads)
    made = sights({"easy": 1.0}, 16, "train", 0)
    for number in range(60):
        steps.take(losses(heads, looked(visual, made.rows, made.grid), made)["colour"], number)
    with torch.inference_mode():
        assert read(heads, looked(visual, made.rows, made.grid), made)["colour"] > 0.9
