"""Scenes: plain data, exact truth, and films that run backwards."""

import json
import math
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import pytest

from reelspace.worlds.render import frames, picture
from reelspace.worlds.sample import EASY, FULL, LONG, RELATIONS, VERBS, generator, looks, perform, relation, scenes
from reelspace.worlds.scene import OPPOSITE, PLACES, SIZES, Act, Scene, Shot, Thing, from_json, truth


@pytest.fixture(scope="module")
def many():
    return list(islice(scenes(11), 60))


def test_a_scene_survives_json(many):
    for scene in [*many, next(scenes(1, LONG))]:
        assert from_json(json.loads(json.dumps(scene.to_json()))) == scene


def test_keys_name_contents(many):
    assert len({scene.key for scene in many}) == len(set(many))
    assert from_json(many[0].to_json()).key == many[0].key


def test_a_film_run_backwards_is_the_film_of_the_reversed_scene(many):
    for scene in many:
        assert np.array_equal(frames(scene.reversed()), frames(scene)[::-1])


def test_reversing_twice_gives_the_acts_back(many):
    for scene in many:
        acts = [[thing.acts for thing in shot.things] for shot in scene.reversed().reversed().shots]
        again = [[act.verb for act in thing] for shot in acts for thing in shot]
        assert again == [[act.verb for act in thing.acts] for shot in scene.shots for thing in shot.things]


def test_every_verb_has_an_opposite_and_is_its_opposite():
    assert {*VERBS, *RELATIONS} <= set(OPPOSITE)
    assert all(OPPOSITE[OPPOSITE[verb]] == verb for verb in OPPOSITE)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES)
def test_acts_stay_inside_the_frame(verb, place):
    x, y = PLACES[place]
    for size in SIZES:
        thing = perform(Thing(form="heart", colour="red", size=size, x=x, y=y), verb, 0, 16)
        for frame in range(16):
            pose = thing.pose(frame)
            radius = SIZES[thing.size] * pose.zoom * 0.7  # most of it
            assert radius <= pose.x <= 1 - radius
            assert radius <= pose.y <= 1 - radius


@pytest.mark.parametrize("rightward", [True, False])
def test_relations_end_as_their_names_say(rightward):
    who, whom = Thing(form="star", colour="red"), Thing(form="circle", colour="blue")

    def gap(verb, frame):
        things = relation(who, whom, verb, 16, rightward)
        one, other = sorted(things, key=lambda thing: thing.form, reverse=True)
        return (one.pose(frame).x - other.pose(frame).x) * (1 if rightward else -1)

    touching = SIZES["small"] + SIZES["large"]
    assert gap("pass", 0) < -touching and gap("pass", 15) > touching
    assert gap("meet", 0) < -2 * touching and -1.1 * touching < gap("meet", 15) < -0.8 * touching
    assert gap("leave", 15) == pytest.approx(gap("meet", 0)) and gap("leave", 0) == pytest.approx(gap("meet", 15))
    assert gap("hide", 0) < -touching and gap("hide", 15) == pytest.approx(0)
    assert gap("emerge", 0) == pytest.approx(0) and gap("emerge", 15) < -touching


def test_who_hides_is_not_seen_at_the_end():
    who, whom = Thing(form="star", colour="red"), Thing(form="circle", colour="blue")
    shot = Shot(things=relation(who, whom, "hide", 16))
    alone = Shot(things=shot.things[1:])
    assert np.array_equal(picture(shot, 15, 96), picture(alone, 15, 96))
    assert not np.array_equal(picture(shot, 0, 96), picture(alone, 0, 96))


def test_truth_says_where_things_are_on_the_screen():
    thing = Thing(form="circle", colour="red", x=0.2, y=0.8, acts=(Act(verb="right", start=0, end=5, dx=0.6),))
    rows = list(truth(Scene(shots=(Shot(things=(thing,), frames=5),), size=100, rate=10)))
    assert [row["time"] for row in rows] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert [row["things"][0]["x"] for row in rows] == [20, 35, 50, 65, 80]
    assert {row["things"][0]["y"] for row in rows} == {80}
    assert {row["things"][0]["radius"] for row in rows} == {12.5}


def test_cuts_are_where_the_shots_are():
    scene = next(scenes(3, LONG))
    assert scene.starts[0] == 0 and len(scene.starts) == len(scene.shots)
    assert [scene.at(start) for start in scene.starts] == [(k, 0) for k in range(len(scene.shots))]
    assert scene.at(scene.frames - 1) == (len(scene.shots) - 1, scene.shots[-1].frames - 1)
    assert [row["shot"] for row in truth(scene)] == [scene.at(frame)[0] for frame in range(scene.frames)]


def test_things_are_of_different_forms_in_rows_and_columns_of_their_own():
    for seed in range(50):
        things = looks(generator(seed), FULL, 3)
        assert len({t.form for t in things}) == len({t.x for t in things}) == len({t.y for t in things}) == 3


def test_easy_scenes_are_the_96_combinations():
    seen = {(s.shots[0].things[0].name, s.shots[0].things[0].acts[0].verb) for s in islice(scenes(0, EASY), 1500)}
    assert len(seen) == 96


def test_things_are_seen_whole_unless_the_caption_says_otherwise():
    covered, count = 0, 0
    for scene in islice(scenes(17, replace(FULL, relations=0.0, camera=0.0)), 300):
        shot = scene.shots[0]
        for one, other in combinations(shot.things, 2):
            for frame in range(0, shot.frames, 3):
                a, b = one.pose(frame), other.pose(frame)
                reach = 0.5 * (SIZES[one.size] * a.zoom + SIZES[other.size] * b.zoom)
                covered += math.hypot(a.x - b.x, a.y - b.y) < reach and a.seen and b.seen
                count += 1
    assert covered < 0.01 * count


def test_black_is_not_washed_to_grey():
    for scene in islice(scenes(18, replace(FULL, styles=("pastel",))), 100):
        assert "black" not in {thing.colour for shot in scene.shots for thing in shot.things}
