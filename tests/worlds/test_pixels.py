"""Words and pixels agree: a detector that knows nothing of the generator reads the files and finds what is said.

It decodes the film, calls every pixel by the nearest of the named colours (as a paint chart would give them),
takes the largest blob that is coloured enough, and follows it.
"""

import io
from dataclasses import replace
from itertools import islice, pairwise

import av
import numpy as np
import pytest

from reelspace.worlds.captions import caption
from reelspace.worlds.film import film
from reelspace.worlds.sample import CAMERA, FULL, generator, scenes, shoot
from reelspace.worlds.scene import SHAPES, Camera, Scene, Shot, Thing

CHART = {
    **{"red": (222, 30, 40), "orange": (245, 140, 30), "yellow": (250, 222, 50), "green": (45, 160, 60)},
    **{"blue": (45, 85, 220), "purple": (150, 60, 185), "black": (28, 28, 30)},
}
WORLD = replace(
    FULL,
    forms=tuple(form for form in SHAPES if form != "ring"),
    colours=tuple(CHART),
    textures=("plain",),
    lights=("day", "sunset"),
    styles=("flat", "pixel art"),
    sizes=("medium", "large"),
    things=(1, 1),
    size=(96,),
    frames=(8, 16, 24),
    camera=0.0,
    programmes=0.0,
    relations=0.0,
    in_turn=0.0,
    nuisance=0.0,
)


def watch(scene):
    with av.open(io.BytesIO(film(scene))) as file:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]).astype(np.int16)


def blobs(frame):
    """Colour → mask of the pixels that are nearest to it, and near."""
    chart = np.array(list(CHART.values()), dtype=np.int16)
    distance = np.abs(frame - chart[:, None, None]).sum(axis=-1, dtype=np.int16)
    nearest = np.where(distance.min(axis=0) < 75, distance.argmin(axis=0), -1)
    return {name: nearest == k for k, name in enumerate(CHART)}


def colour_of(shown):
    """The colour with most pixels in the frame that has most of them."""
    sizes = [{name: int(mask.sum()) for name, mask in blobs(frame).items()} for frame in shown]
    return max(max(sizes, key=lambda found: max(found.values())).items(), key=lambda pair: pair[1])[0]


def track(shown, colour):
    """Centre (x, y in fractions of the frame) and area of the colour in each frame; `None` where it is not seen."""
    found = []
    for frame in shown:
        ys, xs = np.nonzero(blobs(frame)[colour])
        whole = len(xs) > 30
        found.append((xs.mean() / frame.shape[1], ys.mean() / frame.shape[0], len(xs)) if whole else None)
    return found


def place_of(x, y):
    row = "top" if y < 0.35 else "bottom" if y > 0.65 else ""
    column = "left" if x < 0.35 else "right" if x > 0.65 else ""
    return f"{row} {column}".strip() or "centre"


def spoken(place):
    return "in the centre." if place == "centre" else f"at the {place}."


def direction_of(path):
    (x0, y0, _), (x1, y1, _) = path[0], path[-1]
    if abs(x1 - x0) > abs(y1 - y0):
        return "right" if x1 > x0 else "left"
    return "down" if y1 > y0 else "up"


SAYS = {
    "left": ("moves left", "to the left", "goes left"),
    "right": ("moves right", "to the right", "goes right"),
    "up": ("moves up", "rises", "goes up"),
    "down": ("moves down", "sinks", "goes down"),
}


def test_colour_is_what_the_caption_says():
    wrong = []
    for number, scene in enumerate(islice(scenes(31, WORLD), 80)):
        colour = colour_of(watch(scene))
        if f"{colour} " not in caption(scene, "brief", generator(number)).text.lower():
            wrong.append((number, colour, scene.shots[0].things[0].name, scene.shots[0].background))
    assert not wrong


def test_direction_and_place_are_what_the_captions_say():
    moving = replace(WORLD, verbs=("left", "right", "up", "down"), still=0.0)
    seen, places = set(), 0
    for number, scene in enumerate(islice(scenes(32, moving), 60)):
        shown = watch(scene)
        path = track(shown, colour_of(shown))
        assert all(path)
        way = direction_of(path)
        seen.add(way)
        said = caption(scene, "temporal", generator(number)).text
        assert any(phrase in said for phrase in SAYS[way]), (way, said)
        _, says_so, told = caption(scene, "spatial", generator(number)).text.partition(" starts ")
        places += bool(says_so)
        assert not says_so or told == spoken(place_of(*path[0][:2]))
    assert seen == set(SAYS) and places > 40


def test_where_still_things_are_is_what_the_caption_says():
    resting = replace(WORLD, still=1.0)
    for number, scene in enumerate(islice(scenes(33, resting), 40)):
        shown = watch(scene)
        path = track(shown, colour_of(shown))
        said = caption(scene, "spatial", generator(number)).text
        assert said.endswith(" " + spoken(place_of(*path[0][:2]))), said


@pytest.mark.parametrize(
    ("verb", "holds"),
    [
        ("grow", lambda path: path[-1][2] > 2.5 * path[0][2]),
        ("shrink", lambda path: path[0][2] > 2.5 * path[-1][2]),
        ("appear", lambda path: path[0] is None and path[-1] is not None),
        ("vanish", lambda path: path[0] is not None and path[-1] is None),
        ("orbit clockwise", lambda path: path[len(path) // 4][0] > path[0][0] + 0.1),
        ("orbit anticlockwise", lambda path: path[len(path) // 4][0] < path[0][0] - 0.1),
    ],
)
def test_other_acts_are_seen(verb, holds):
    profile = replace(WORLD, verbs=(verb,), still=0.0, styles=("flat",), lights=("day",))
    for scene in islice(scenes(34, profile), 12):
        shown = watch(scene)
        end = scene.shots[0].things[0].acts[0].end
        assert holds(track(shown[:end] if "orbit" in verb else shown, colour_of(shown))), scene


def test_motion_is_seen_in_eight_frames():
    """Between any two of eight uniform frames of a moving thing, more changes than compression does."""
    moving = replace(WORLD, verbs=("left", "right", "up", "down"), still=0.0, frames=(16, 32, 48))
    for scene in islice(scenes(35, moving), 30):
        act = scene.shots[0].things[0].acts[0]
        shown = watch(scene)[np.round(np.linspace(0, act.end - 1, 8)).astype(int)]
        assert all(np.abs(a - b).max() > 60 for a, b in pairwise(shown))


@pytest.mark.parametrize("verb", [verb for verb in CAMERA if verb in ("left", "right", "up", "down")])
@pytest.mark.parametrize("background", ["wall", "meadow", "sea", "desert", "city", "snow"])
def test_the_world_moves_against_a_panning_camera(verb, background):
    """The shift that best lays the first frame over a later one is the camera's, the other way round."""
    shot = Shot(things=(), background=background, camera=Camera(acts=(shoot(verb, 0, 8),)), frames=8)
    shown = watch(Scene(shots=(shot,), size=96))
    first, later = shown[0], shown[3]
    shifts = {
        (dx, dy): np.abs(first[24:-24, 24:-24] - later[24 + dy : 72 + dy, 24 + dx : 72 + dx]).mean()
        for dx in range(-20, 21)
        for dy in range(-20, 21)
    }
    dx, dy = min(shifts, key=shifts.get)
    moved = {"left": dx > 5, "right": dx < -5, "up": dy > 5, "down": dy < -5}
    assert moved[verb], (dx, dy)


@pytest.mark.parametrize("light", ["day", "sunset", "night"])
@pytest.mark.parametrize("style", ["flat", "pastel", "pixel art"])
def test_colours_can_be_told_apart_in_every_light_and_style(light, style):
    names = [*CHART, "white"]
    bodies = []
    for name in names:
        thing = Thing(form="square", colour=name, size="large")
        bodies.append(watch(Scene(shots=(Shot(things=(thing,), light=light, style=style, frames=1),)))[0][48, 48])
    gaps = [np.abs(a - b).sum() for k, a in enumerate(bodies) for b in bodies[:k]]
    assert min(gaps) > 40, (names, bodies)
