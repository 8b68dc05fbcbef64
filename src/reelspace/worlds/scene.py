"""What a world holds, as data: things and what they do, the camera, the place, the light. Everything else follows.

A scene is drawn by `render`, described by `captions` and judged by `facts`; none of them knows more than is here.
Places and lengths are fractions of the frame (x to the right, y downwards); times are frame numbers of the shot.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, Self

GENERATOR = "1"
"""Version of everything that decides pixels. A new one makes new files and leaves the old cache alone."""

COLOURS = {
    "red": (220, 35, 35),
    "orange": (250, 140, 20),
    "yellow": (255, 225, 40),
    "green": (40, 165, 60),
    "blue": (40, 85, 225),
    "purple": (150, 55, 190),
    "white": (245, 245, 245),
    "black": (25, 25, 28),
}
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "ring", "moon")
SPRITES = (
    *("basketball", "cow", "crab", "dog", "duck", "goldfish"),
    *("hammer", "hedgehog", "panda", "parrot", "sheep", "traffic cone"),
)
FORMS = SHAPES + SPRITES
LOPSIDED = ("triangle", "heart", "moon", *(sprite for sprite in SPRITES if sprite != "basketball"))
"""Forms whose turning can be seen, and seen which way: the others have too many symmetries."""
SIZES = {"small": 0.085, "medium": 0.125, "large": 0.175}
"""Radius of a thing."""
TEXTURES = ("plain", "striped", "dotted")
BACKGROUNDS = ("wall", "meadow", "sea", "desert", "city", "snow")
LIGHTS = ("day", "sunset", "night")
STYLES = ("flat", "pastel", "pixel art")
_COLUMNS = {"left": 0.2, "": 0.5, "right": 0.8}
_ROWS = {"top": 0.2, "": 0.5, "bottom": 0.8}
PLACES = {f"{row} {column}".strip() or "centre": (x, y) for row, y in _ROWS.items() for column, x in _COLUMNS.items()}

VERBS = (
    *("left", "right", "up", "down", "grow", "shrink", "appear", "vanish"),
    *("turn clockwise", "turn anticlockwise", "orbit clockwise", "orbit anticlockwise"),
)
RETURNS = ("left", "right", "up", "down", "swell", "blink")
"""Acts that end where they began; any ordering of them shows the same frames."""
RELATIONS = ("pass", "meet", "leave", "hide", "emerge")
SOLID = ("circle", "square", "heart", "basketball", "panda")
"""Forms that something small can hide behind."""
CAMERA = ("left", "right", "up", "down", "in", "out", "clockwise", "anticlockwise")
OPPOSITE = {
    **{"left": "right", "up": "down", "in": "out", "clockwise": "anticlockwise"},
    **{"grow": "shrink", "appear": "vanish", "meet": "leave", "hide": "emerge", "pass": "pass", "swell": "swell"},
    **{"blink": "blink", "turn clockwise": "turn anticlockwise", "orbit clockwise": "orbit anticlockwise"},
}
OPPOSITE |= {after: before for before, after in OPPOSITE.items()}
"""What an act becomes when time runs backwards."""
STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
ORBIT = 0.16
"""Radius of an orbit."""


Course = Literal["line", "zigzag", "bounce", "orbit"]


class Pose(NamedTuple):
    """Where something is in one frame: centre, size relative to its own, degrees clockwise, whether it is seen."""

    x: float
    y: float
    zoom: float = 1.0
    turn: float = 0.0
    seen: bool = True


@dataclass(frozen=True, kw_only=True)
class Act:
    """Something that a thing or the camera does from frame `start` to before frame `end`.

    Its first frame shows the state before and its last frame the state after, so that a film run backwards is
    again a film of acts. With `back` it goes there and returns: every ordering of such acts has the same frames.

    Attributes:
        verb: its name, a key of `OPPOSITE`.
        dx, dy, zoom, turn: what it adds up to: fractions of the frame, a factor, degrees clockwise.
        path: how it gets there.
        other: the thing it is about (`pass`, `meet`, `leave`, `hide`, `emerge`).
    """

    verb: str
    start: int
    end: int
    dx: float = 0.0
    dy: float = 0.0
    zoom: float = 1.0
    turn: float = 0.0
    path: Course = "line"
    other: int | None = None
    back: bool = False

    def progress(self, frame: int) -> float:
        """0 before it, 1 after it (0 again for one that returns)."""
        step, length = frame - self.start, self.end - self.start
        if self.back:
            inside = 0 <= step < length
            return min(1.0, (min(step, length - 1 - step) + 1) / math.ceil(length / 2)) if inside else 0.0
        return min(max(step / (length - 1), 0.0), 1.0)

    def apply(self, pose: Pose, frame: int) -> Pose:
        """The pose with what has been done of this act by `frame`."""
        u = self.progress(frame)
        x, y, turn = pose.x + u * self.dx, pose.y + u * self.dy, pose.turn + u * self.turn
        wave = 0.12 * math.sin(3 * math.pi * u)
        if self.path == "bounce":
            y -= abs(wave)
        elif self.path == "zigzag":
            x, y = (x, y + wave) if self.dx else (x + wave, y)
        elif self.path == "orbit":
            angle, turn = math.radians(self.turn) * u, pose.turn
            x, y = pose.x + ORBIT * math.sin(angle), pose.y + ORBIT * (1 - math.cos(angle))
        return Pose(x, y, pose.zoom * self.zoom**u, turn, pose.seen and self._shows(frame))

    def _shows(self, frame: int) -> bool:
        if self.verb == "appear":
            return frame >= (self.start + self.end) // 2
        if self.verb == "vanish":
            return frame < (self.start + self.end + 1) // 2
        return self.verb != "blink" or not self.start <= frame < self.end

    def reversed(self, frames: int) -> Act:
        """The act seen in a film of `frames` frames that is run backwards."""
        start, end = frames - self.end, frames - self.start
        if self.back:
            return replace(self, start=start, end=end)
        turn = -self.turn if self.turn else 0.0
        verb = OPPOSITE[self.verb]
        return replace(self, verb=verb, start=start, end=end, dx=-self.dx, dy=-self.dy, zoom=1 / self.zoom, turn=turn)


@dataclass(frozen=True, kw_only=True)
class Actor:
    """What has a pose and acts.

    Attributes:
        x, y, zoom, turn: its pose before its first act.
    """

    x: float = 0.5
    y: float = 0.5
    zoom: float = 1.0
    turn: float = 0.0
    acts: tuple[Act, ...] = ()

    def pose(self, frame: int) -> Pose:
        """Its pose in one frame of its shot."""
        pose = Pose(self.x, self.y, self.zoom, self.turn)
        for act in self.acts:
            pose = act.apply(pose, frame)
        return pose

    def reversed(self, frames: int) -> Self:
        """The actor in a film of `frames` frames that is run backwards."""
        x, y, zoom, turn = (round(value, 9) for value in self.pose(frames)[:4])
        acts = tuple(act.reversed(frames) for act in reversed(self.acts))
        return replace(self, x=x, y=y, zoom=zoom, turn=turn, acts=acts)


@dataclass(frozen=True, kw_only=True)
class Camera(Actor):
    """The centre it looks at, its zoom, its roll in degrees clockwise; and what it does."""


@dataclass(frozen=True, kw_only=True)
class Thing(Actor):
    """A shape (with a colour and a texture) or a sprite (which has its own), and what it does."""

    form: str
    colour: str = ""
    size: str = "medium"
    texture: str = "plain"

    @property
    def name(self) -> str:
        """`red circle`, `dog`: unique in its shot."""
        return f"{self.colour} {self.form}".strip()


@dataclass(frozen=True, kw_only=True)
class Shot:
    """An uncut stretch of video. Things later in the tuple are in front.

    Attributes:
        lay: which of the background's layouts (where the hills, waves, stars … are).
        noise: standard deviation of the sensor noise in grey levels.
        bar: a grey bar over the frame, its left edge as a fraction of the width; `None`: no occlusion.
    """

    things: tuple[Thing, ...]
    background: str = "wall"
    light: str = "day"
    style: str = "flat"
    camera: Camera = Camera()
    frames: int = 16
    chapter: int = 0
    lay: int = 0
    noise: int = 0
    bar: float | None = None

    def on_screen(self, thing: Thing, frame: int) -> Pose:
        """The thing's pose as the camera sees it; `x` and `y` are fractions of the frame."""
        pose, view = thing.pose(frame), self.camera.pose(frame)
        roll = math.radians(-view.turn)
        dx, dy = (pose.x - view.x) * view.zoom, (pose.y - view.y) * view.zoom
        x = 0.5 + dx * math.cos(roll) - dy * math.sin(roll)
        y = 0.5 + dx * math.sin(roll) + dy * math.cos(roll)
        return Pose(x, y, pose.zoom * view.zoom, pose.turn - view.turn, pose.seen)

    def reversed(self) -> Shot:
        """The same frames in the opposite order."""
        things = tuple(thing.reversed(self.frames) for thing in self.things)
        return replace(self, things=things, camera=self.camera.reversed(self.frames))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A video: its shots with a cut between each two.

    Attributes:
        size: width and height in pixels, even.
        rate: frames a second.
        quantiser: how hard it is compressed: 0 (none) to 51; above 35 it shows.
    """

    shots: tuple[Shot, ...]
    size: int = 96
    rate: int = 8
    quantiser: int = 22

    @property
    def frames(self) -> int:
        """Number of frames."""
        return sum(shot.frames for shot in self.shots)

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.frames / self.rate

    @property
    def starts(self) -> tuple[int, ...]:
        """First frame of each shot."""
        return tuple(sum(shot.frames for shot in self.shots[:k]) for k in range(len(self.shots)))

    def at(self, frame: int) -> tuple[int, int]:
        """Number of the shot shown in a frame of the video, and the frame's number in that shot."""
        shot = bisect_right(self.starts, frame) - 1
        return shot, frame - self.starts[shot]

    def reversed(self) -> Scene:
        """The same frames in the opposite order."""
        return replace(self, shots=tuple(shot.reversed() for shot in reversed(self.shots)))

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` makes the scene of it again."""
        return asdict(self)

    @property
    def key(self) -> str:
        """20 hex digits that name the video: equal scenes drawn by one generator are equal files."""
        text = json.dumps([GENERATOR, self.to_json()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def from_json(data: dict[str, Any]) -> Scene:
    """The scene that `Scene.to_json` gave."""

    def acts(rows: list[dict[str, Any]]) -> tuple[Act, ...]:
        return tuple(Act(**row) for row in rows)

    def shot(row: dict[str, Any]) -> Shot:
        things = tuple(Thing(**(thing | {"acts": acts(thing["acts"])})) for thing in row["things"])
        camera = Camera(**(row["camera"] | {"acts": acts(row["camera"]["acts"])}))
        return Shot(**(row | {"things": things, "camera": camera}))

    return Scene(**(data | {"shots": tuple(map(shot, data["shots"]))}))


def truth(scene: Scene) -> Iterator[dict[str, Any]]:
    """Frame by frame: seconds, shot, camera (x, y, zoom, roll), and each thing's centre and radius in pixels."""
    for frame in range(scene.frames):
        number, at = scene.at(frame)
        shot = scene.shots[number]
        things = []
        for thing in shot.things:
            pose = shot.on_screen(thing, at)
            x, y, radius = (round(part * scene.size, 2) for part in (pose.x, pose.y, SIZES[thing.size] * pose.zoom))
            things.append({"name": thing.name, "x": x, "y": y, "radius": radius, "seen": pose.seen})
        camera = [round(value, 4) for value in shot.camera.pose(at)[:4]]
        yield {"time": round(frame / scene.rate, 6), "shot": number, "camera": camera, "things": things}
