"""The eyes first: what each visual token sees is taught before a word is, for the generator knows it.

A caption says little of a picture; the generator says of each of its cells which thing covers it, how that looks, where
its middle is and how it moves. Linear heads on the visual tokens learn to tell it and are dropped afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.qwen_vl.pixels import normalised, patchified
from reelspace.worlds.render import cover, picture
from reelspace.worlds.sample import Split, generator
from reelspace.worlds.scene import BACKGROUNDS, CAMERA, COLOURS, FORMS, LIGHTS, SIZES, STYLES, TEXTURES, Pose, Shot
from reelspace.worlds.tiny.batches import chosen
from reelspace.worlds.tiny.lessons import EDGE, sampled, turned
from reelspace.worlds.tiny.model import CUT, Shape, looked
from reelspace.worlds.tiny.steps import Pace, Steps, keep, numbered

if TYPE_CHECKING:
    import torch

OF_THINGS = {"form": FORMS, "colour": ("", *COLOURS), "texture": TEXTURES}
OF_WORLDS = {"background": BACKGROUNDS, "light": LIGHTS, "style": STYLES}
WAYS = ("nowhere", "left", "right", "up", "down", "askew")
OF_CHANGES = {"way": WAYS, "growing": ("", "in", "out"), "turning": ("", "clockwise", "anticlockwise")}
OF_PLACES = {
    "across": ("far left", "left", "middle", "right", "far right"),
    "down": ("top", "high", "middle", "low", "bottom"),
}
"""Where in the picture a thing's middle is: a visual token knows the places of others from its own, but not its own."""
FILMING = ("nothing", *CAMERA)
CLASSES = OF_THINGS | OF_WORLDS | OF_CHANGES | OF_PLACES | {"filming": FILMING}
NAMES = (
    *("x", "y", "radius", "step x", "step y", "growth", "turn", "first", "last"),
    *("camera x", "camera y", "camera zoom", "camera roll"),
)
NUMBERS = len(NAMES)
"""Of a covered cell: the thing's middle, radius, step, growth and turn, whether it is there in the first frame and the
last. Of every cell: what the camera does."""
_LEAST = 12
"""Pixels of a cell, in both frames together, that a thing must cover to be its own."""


@dataclass
class Sights:
    """Pairs of frames and what is to be seen in them.

    Attributes:
        rows: float32 `[pairs · patches, values]`: the patches.
        grid: int64 `[pairs, 3]`.
        thing: int64 `[pairs · cells]`: 1 where a thing covers the cell.
        kinds: name → int64 `[pairs · cells]`: numbers of values, -1 where there is none.
        numbers: float32 `[pairs · cells, NUMBERS]`, not a number where there is none.
    """

    rows: torch.Tensor
    grid: torch.Tensor
    thing: torch.Tensor
    kinds: dict[str, torch.Tensor]
    numbers: torch.Tensor


def sights(worlds: dict[str, float], pairs: int, split: Split, *names: object) -> Sights:
    """A batch of pairs of neighbouring frames, of its own for every name; two pairs a scene."""
    import torch

    random = generator("eyes", split, *names)
    rows, tables = [], []
    for number in range(pairs // 2):
        world = list(worlds)[turned(random, list(worlds.values()))]
        drawn = sampled(world, split, *names, number)
        at = chosen(drawn)
        for k in random.permutation(len(at) // 2)[:2]:
            (shot, one), (other, two) = drawn.at(at[2 * k]), drawn.at(at[2 * k + 1])
            shown = [picture(drawn.shots[shot], one, EDGE), picture(drawn.shots[other], two, EDGE)]
            rows.append(patchified(normalised(np.stack(shown)), CUT)[0])
            tables.append(told(drawn.shots[shot], one, two))
    side = EDGE // CUT.patch
    table = {key: np.concatenate([made[key] for made in tables]) for key in tables[0]}
    return Sights(
        rows=torch.from_numpy(np.concatenate(rows)),
        grid=torch.tensor([[1, side, side]] * len(rows)),
        thing=torch.from_numpy(table["thing"]),
        kinds={key: torch.from_numpy(table[key]) for key in CLASSES},
        numbers=torch.from_numpy(table["numbers"]),
    )


def told(shot: Shot, one: int, two: int) -> dict[str, NDArray[np.generic]]:
    """What is to be seen in each cell of two frames of a shot, row by row."""
    covers = np.stack([cover(shot, frame, EDGE) for frame in (one, two)])
    side = EDGE // CUT.factor
    cells = covers.reshape(2, side, CUT.factor, side, CUT.factor).transpose(1, 3, 0, 2, 4).reshape(side * side, -1)
    counts = np.stack([(cells == k + 1).sum(axis=1) for k in range(len(shot.things))], axis=1)
    owner = np.where(counts.max(axis=1) >= _LEAST, counts.argmax(axis=1), -1)
    table: dict[str, NDArray[np.generic]] = {"thing": (owner >= 0).astype(np.int64)}
    for name, values in OF_THINGS.items():
        known = [values.index(getattr(thing, name)) for thing in shot.things]
        if name == "texture":
            known = [
                value if thing.colour and shot.style != "pixel art" else -1
                for value, thing in zip(known, shot.things, strict=True)
            ]
        table[name] = np.array([known[k] if k >= 0 else -1 for k in owner], dtype=np.int64)
    for name, values in OF_WORLDS.items():
        table[name] = np.full(len(owner), values.index(getattr(shot, name)), dtype=np.int64)
    changes = [_changes(shot.on_screen(thing, one), shot.on_screen(thing, two)) for thing in shot.things]
    for column, name in enumerate(OF_CHANGES):
        table[name] = np.array([changes[k][column] if k >= 0 else -1 for k in owner], dtype=np.int64)
    places = [_place(shot.on_screen(thing, one), shot.on_screen(thing, two)) for thing in shot.things]
    for column, name in enumerate(OF_PLACES):
        table[name] = np.array([places[k][column] if k >= 0 else -1 for k in owner], dtype=np.int64)
    table["filming"] = np.full(len(owner), _filming(shot.camera.pose(one), shot.camera.pose(two)), dtype=np.int64)
    table["numbers"] = _numbers(shot, one, two, owner)
    return table


def _numbers(shot: Shot, one: int, two: int, owner: NDArray[np.int64]) -> NDArray[np.float32]:
    side = EDGE // CUT.factor
    found = np.full((len(owner), NUMBERS), np.nan, dtype=np.float32)
    before, after = shot.camera.pose(one), shot.camera.pose(two)
    found[:, 9:] = _change(before, after)
    for cell, number in enumerate(owner):
        if number < 0:
            continue
        thing = shot.things[number]
        was, now = shot.on_screen(thing, one), shot.on_screen(thing, two)
        row, column = divmod(cell, side)
        middle = ((was.x + now.x) / 2 * side - column - 0.5, (was.y + now.y) / 2 * side - row - 0.5)
        radius = SIZES[thing.size] * now.zoom * 8 - 1
        found[cell, :9] = (*middle, radius, *_change(was, now), 2 * was.seen - 1, 2 * now.seen - 1)
    return found


def _changes(was: Pose, now: Pose) -> tuple[int, int, int]:
    """Numbers of the way a thing goes, of whether it grows or shrinks, and of how it turns."""
    dx, dy, zoom, turn = _change(was, now)
    return _way(dx, dy, 0.2), _sign(zoom, 0.3), _sign(turn, 0.25)


def _place(was: Pose, now: Pose) -> tuple[int, int]:
    """Numbers of where a thing is, between two frames: of five strips each way, the inner three 0.15 wide."""
    across, down = np.searchsorted(_STRIPS, ((was.x + now.x) / 2, (was.y + now.y) / 2))
    return int(across), int(down)


_STRIPS = (0.275, 0.425, 0.575, 0.725)


def _filming(was: Pose, now: Pose) -> int:
    dx, dy, zoom, turn = _change(was, now)
    turned = _sign(turn, 0.1)
    if change := _sign(zoom, 0.1) or (turned and 2 + turned):
        return FILMING.index(("in", "out", "clockwise", "anticlockwise")[change - 1])
    return _way(dx, dy, 0.1)


def _way(dx: float, dy: float, least: float) -> int:
    low, high = sorted((abs(dx), abs(dy)))
    if high < least:
        return 0
    if low > 0.4 * high:
        return WAYS.index("askew")
    return WAYS.index(("left", "right")[dx > 0] if abs(dx) == high else ("up", "down")[dy > 0])


def _sign(value: float, least: float) -> int:
    """0 for little, else 1 for more and 2 for less."""
    return 0 if abs(value) < least else 1 if value > 0 else 2


def _change(was: Pose, now: Pose) -> tuple[float, ...]:
    turn = (now.turn - was.turn + 180) % 360 - 180
    return (12 * (now.x - was.x), 12 * (now.y - was.y), 10 * np.log(now.zoom / was.zoom), turn / 12)


def heads(width: int) -> torch.nn.ModuleDict:
    """Linear heads on visual tokens of that width."""
    import torch

    kinds = {"thing": 2, "numbers": NUMBERS, **{name: len(values) for name, values in CLASSES.items()}}
    return torch.nn.ModuleDict({name: torch.nn.Linear(width, n) for name, n in kinds.items()})


def losses(heads: torch.nn.ModuleDict, seen: torch.Tensor, made: Sights) -> dict[str, torch.Tensor]:
    """The loss of each head over the cells that have something to tell, given visual tokens `[pairs · cells, d]`."""
    from torch.nn import functional

    seen = functional.rms_norm(seen, seen.shape[-1:])  # as the language model's first layer takes them
    found = {"thing": functional.cross_entropy(heads["thing"](seen), made.thing)}
    for name, truth in made.kinds.items():
        found[name] = functional.cross_entropy(heads[name](seen), truth, ignore_index=-1)
    known = ~made.numbers.isnan()
    found["numbers"] = functional.smooth_l1_loss(heads["numbers"](seen)[known], made.numbers[known], beta=0.1)
    return found


def read(heads: torch.nn.ModuleDict, seen: torch.Tensor, made: Sights) -> dict[str, float]:
    """Share of cells that each head names right; of a thing's middle, size and change, the variance explained."""
    from torch.nn import functional

    seen = functional.rms_norm(seen, seen.shape[-1:])
    found = {}
    for name, truth in {"thing": made.thing, **made.kinds}.items():
        right = (heads[name](seen).argmax(dim=-1) == truth)[truth >= 0]
        found[name] = float(right.float().mean())
    told = heads["numbers"](seen)
    for column, name in enumerate(NAMES[:7]):  # the others hardly ever vary
        known = ~made.numbers[:, column].isnan()
        truth, off = made.numbers[known, column], (told - made.numbers)[known, column]
        found[name] = 1 - float(off.square().mean() / truth.var().clamp(min=1e-6))
    return found


@dataclass(frozen=True, kw_only=True)
class Eyes(Pace):
    """How the eyes are taught.

    Attributes:
        pairs: pairs of frames a step.
        worlds: name → share of scenes.
        exam: pairs of each exam.
    """

    pairs: int = 64
    worlds: dict[str, float] = field(default_factory=lambda: {"full": 1.0})
    exam: int = 512


STATE = "eyes.pt"
CURVES = "eyes.jsonl"


def opened(
    visual: torch.nn.Module, shape: Shape, eyes: Eyes, folder: Path, seed: int, say: Callable[[str], None]
) -> None:
    """Teaches a vision tower to see. A stopped lesson goes on; a finished one is not given again."""
    import torch

    own = {name: size for name, size in asdict(shape).items() if name == "hidden" or name.startswith("vision")}
    claim = json.dumps([own, asdict(eyes), seed])
    torch.manual_seed(seed)
    tellers = heads(shape.hidden)
    steps = Steps(eyes, visual, tellers)
    done = 0
    if (folder / STATE).exists():
        state = torch.load(folder / STATE, weights_only=True)
        if state["claim"] == claim:
            visual.load_state_dict(state["visual"])
            tellers.load_state_dict(state["heads"])
            steps.restore(state["steps"])
            done = int(state["step"])
    rows = [row for row in _rows(folder) if json.loads(row)["step"] <= done]
    for number, made in numbered(_Made(eyes, seed), done, eyes.steps):
        each = losses(tellers, looked(visual, made.rows, made.grid), made)
        steps.take(sum(WEIGHTS.get(name, 1.0) * loss for name, loss in each.items()), number)
        if (number + 1) % eyes.every == 0 or number + 1 == eyes.steps:
            shown = {name: round(loss.item(), 4) for name, loss in each.items()}
            rows.append(json.dumps({"step": number + 1, "loss": shown, **examined(visual, tellers, eyes)}))
            (folder / CURVES).write_text("".join(f"{row}\n" for row in rows))
            state = {"visual": visual.state_dict(), "heads": tellers.state_dict(), "steps": steps.state()}
            keep({"claim": claim, "step": number + 1, **state}, folder / STATE)
            say(rows[-1])


WEIGHTS = {"form": 4.0, "way": 2.0, "numbers": 4.0}


def examined(visual: torch.nn.Module, heads: torch.nn.ModuleDict, eyes: Eyes) -> dict[str, float]:
    """What the eyes tell of held-out scenes."""
    import torch

    with torch.inference_mode():
        made = sights(eyes.worlds, eyes.exam, "held-out", "exam")
        found = read(heads, looked(visual, made.rows, made.grid), made)
    return {name: round(value, 3) for name, value in found.items()}


def _rows(folder: Path) -> list[str]:
    path = folder / CURVES
    return path.read_text().splitlines() if path.exists() else []


@dataclass(frozen=True)
class _Made:
    eyes: Eyes
    seed: int

    def __call__(self, number: int) -> Sights:
        return sights(self.eyes.worlds, self.eyes.pairs, "train", self.seed, number)
