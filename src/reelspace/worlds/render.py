"""Scene → pixels. Everything is a picture with transparency, scaled and placed to a fraction of a pixel by Pillow.

Only integer arithmetic touches the pixels after a picture has been made, so equal scenes give equal bytes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from reelspace.worlds.scene import BACKGROUNDS, COLOURS, SHAPES, SIZES, Pose, Scene, Shot

_RADIUS = 48  # of a thing in its stamp, in pixels
_STAMP = 160
_FINE = 3  # shapes are drawn this much larger and reduced
# Red, green and blue of the light on the world behind, and on the things: less, so that their colours stay theirs.
_LIGHT = {
    "day": ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0)),
    "sunset": ((0.98, 0.7, 0.7), (1.0, 0.93, 0.9)),
    "night": ((0.3, 0.36, 0.58), (0.76, 0.78, 0.9)),
}
_PASTEL = (0.62, 90)  # colours are scaled and lifted

Point = tuple[float, float]
World = tuple[str, int, int, str, str]  # background, lay, size, light, style
Look = tuple[str, str, str, str, str, int]  # form, colour, texture, light, style, degrees


def frames(scene: Scene) -> NDArray[np.uint8]:
    """All frames of the scene before compression: uint8 `[T, size, size, 3]`, RGB."""
    return np.stack(list(draw(scene)))


def draw(scene: Scene) -> Iterator[NDArray[np.uint8]]:
    """The frames one by one."""
    for shot in scene.shots:
        for frame in range(shot.frames):
            yield picture(shot, frame, scene.size)


def picture(shot: Shot, frame: int, size: int) -> NDArray[np.uint8]:
    """One frame of a shot: uint8 `[size, size, 3]`, RGB."""
    world = (shot.background, shot.lay, size, shot.light, shot.style)
    image = _behind(world, _rounded(shot.camera.pose(frame))).copy()
    for _, small, corner in _shown(shot, frame, size):
        image.paste(small, corner, small)
    if shot.style == "pixel art":
        grid = size // max(2, round(size / 48))
        image = image.resize((grid, grid), Image.Resampling.BOX).resize((size, size), Image.Resampling.NEAREST)
    if shot.bar is not None:
        left = round(shot.bar * size)
        image.paste((128, 128, 128), (left, 0, left + size // 8, size))
    pixels = np.array(image)
    return _noisy(pixels, shot.noise) if shot.noise else pixels


def cover(shot: Shot, frame: int, size: int) -> NDArray[np.uint8]:
    """Whose pixel each is in one frame: uint8 `[size, size]`, 0 the world's, 1 the first thing's, ….

    Noise, coarseness and a bar across are none of its concern.
    """
    image = Image.new("L", (size, size))
    for number, small, corner in _shown(shot, frame, size):
        image.paste(number + 1, corner, small.getchannel("A").point([0] * 128 + [255] * 128))
    return np.array(image)


def _shown(shot: Shot, frame: int, size: int) -> Iterator[tuple[int, Image.Image, tuple[int, int]]]:
    """Number, picture and corner of each thing that is seen, from the back to the front."""
    for number, thing in enumerate(shot.things):
        pose = _rounded(shot.on_screen(thing, frame))
        if pose.seen:
            look = (thing.form, thing.colour, thing.texture, shot.light, shot.style, round(pose.turn) % 360)
            yield number, *_placed(look, pose.x * size, pose.y * size, SIZES[thing.size] * pose.zoom * size)


def _rounded(pose: Pose) -> Pose:
    """To less than a hundredth of a pixel, so that what is equal but for the last bits of a float is drawn equal."""
    return pose._replace(x=round(pose.x, 5), y=round(pose.y, 5), zoom=round(pose.zoom, 5), turn=round(pose.turn, 3))


def _noisy(pixels: NDArray[np.uint8], noise: int) -> NDArray[np.uint8]:
    """Seeded by the frame's own pixels: equal frames stay equal, whatever their order."""
    random = np.random.default_rng(zlib.crc32(pixels.tobytes()))
    grain = random.integers(-noise, noise + 1, (2, *pixels.shape), dtype=np.int16).sum(axis=0)
    return np.asarray(np.clip(pixels + grain, 0, 255), dtype=np.uint8)


@lru_cache(maxsize=128)
def _behind(world: World, view: Pose) -> Image.Image:
    """What the camera sees of a backdrop, which is twice as wide and high as the still frame."""
    backdrop, size = _backdrop(world), world[2]
    x, y, half = (0.5 + view.x) * size, (0.5 + view.y) * size, 0.5 * size / view.zoom
    if view.turn == 0:
        return backdrop.resize((size, size), Image.Resampling.BILINEAR, (x - half, y - half, x + half, y + half))
    roll, scale = math.radians(view.turn), 1 / view.zoom
    cos, sin, middle = scale * math.cos(roll), scale * math.sin(roll), size / 2
    matrix = (cos, -sin, x - middle * (cos - sin), sin, cos, y - middle * (sin + cos))
    return backdrop.transform((size, size), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)


@lru_cache(maxsize=4096)
def _placed(look: Look, x: float, y: float, radius: float) -> tuple[Image.Image, tuple[int, int]]:
    """The stamp with its centre at (x, y) and `radius` pixels for its `_RADIUS`, and where its corner goes."""
    reach = 1.35 * radius
    left, top = math.floor(x - reach), math.floor(y - reach)
    wide, high = math.ceil(x + reach) - left, math.ceil(y + reach) - top
    scale = _RADIUS / radius
    u, v = _STAMP / 2 + (left - x) * scale, _STAMP / 2 + (top - y) * scale
    box = (max(u, 0.0), max(v, 0.0), min(u + wide * scale, float(_STAMP)), min(v + high * scale, float(_STAMP)))
    # The whole stamp need not be multiplied by its transparency, as `resize` would, for every place it is put to.
    return _turned(look).resize((wide, high), Image.Resampling.BILINEAR, box).convert("RGBA"), (left, top)


# The pictures: made once, kept.


@lru_cache(maxsize=2048)
def _turned(look: Look) -> Image.Image:
    """Colours multiplied by transparency."""
    return _stamp(look).convert("RGBa")


@lru_cache(maxsize=256)
def _stamp(look: Look) -> Image.Image:
    form, colour, texture, light, style, degrees = look
    if degrees:
        return _stamp((*look[:5], 0)).rotate(-degrees, Image.Resampling.BILINEAR)
    stamp = _shape(form, colour, texture) if form in SHAPES else _sprite(form)
    lit = _lit(stamp.convert("RGB"), _LIGHT[light][1], style)
    lit.putalpha(stamp.getchannel("A"))
    return lit


def _lit(image: Image.Image, light: tuple[float, float, float], style: str) -> Image.Image:
    """Light and style act on colours alone, so lighting the parts is lighting the whole."""
    scale, lift = _PASTEL if style == "pastel" else (1.0, 0)
    table = [round((level * scale + lift) * factor) for factor in light for level in range(256)]
    return image.point(table)


@lru_cache(maxsize=16)
def _sprite(form: str) -> Image.Image:
    name = form.replace(" ", "_") + ".png"
    with files("reelspace.worlds").joinpath("sprites", name).open("rb") as file:
        cut = Image.open(file).convert("RGBA")
    scale = _RADIUS * min(2.6 / max(cut.size), 2 / math.sqrt(cut.width * cut.height))
    cut = cut.resize((round(cut.width * scale), round(cut.height * scale)), Image.Resampling.BICUBIC)
    stamp = Image.new("RGBA", (_STAMP, _STAMP))
    stamp.paste(cut, ((_STAMP - cut.width) // 2, (_STAMP - cut.height) // 2))
    return stamp


@lru_cache(maxsize=256)
def _shape(form: str, colour: str, texture: str) -> Image.Image:
    rgb = COLOURS[colour]
    body, inner = _masks(form)
    edge = (90, 90, 95) if colour == "black" else tuple(round(0.4 * level) for level in rgb)
    shade = (120, 120, 125) if colour == "black" else tuple(round(0.5 * level) for level in rgb)
    stamp = Image.new("RGBA", body.size, (*edge, 0))
    stamp.paste((*edge, 255), mask=body)
    stamp.paste((*rgb, 255), mask=inner)
    stamp.paste((*shade, 255), mask=ImageChops.multiply(inner, _pattern(texture, body.size)))
    return stamp.reduce(_FINE)


def _pattern(texture: str, size: tuple[int, int]) -> Image.Image:
    mask = Image.new("L", size)
    drawing, step = ImageDraw.Draw(mask), 24 * _FINE
    for at in range(0, size[0], step):
        if texture == "striped":
            drawing.rectangle((at, 0, at + step // 2, size[1]), fill=255)
        if texture == "dotted":
            for other in range(0, size[1], step):
                drawing.ellipse((at, other, at + 0.62 * step, other + 0.62 * step), fill=255)
    return mask


@lru_cache(maxsize=len(SHAPES))
def _masks(form: str) -> tuple[Image.Image, Image.Image]:
    """Where the shape is, and where it is not its edge: masks `_FINE` times the stamp."""
    body = _outline(form)
    return body, body.filter(ImageFilter.BoxBlur(8)).point([0] * 254 + [255] * 2)


def _outline(form: str) -> Image.Image:
    mask = Image.new("L", (_STAMP * _FINE, _STAMP * _FINE))
    drawing, middle, radius = ImageDraw.Draw(mask), _STAMP * _FINE / 2, _RADIUS * _FINE

    def disc(x: float, y: float, r: float, fill: int) -> None:
        box = [
            middle + (x - r) * radius,
            middle + (y - r) * radius,
            middle + (x + r) * radius,
            middle + (y + r) * radius,
        ]
        drawing.ellipse(box, fill=fill)

    if form in ("circle", "ring", "moon"):
        disc(0, 0, 1, 255)
    if form == "ring":
        disc(0, 0, 0.55, 0)
    if form == "moon":
        disc(0.5, 0, 0.85, 0)
    if form in _POLYGONS:
        drawing.polygon([(middle + x * radius, middle + y * radius) for x, y in _POLYGONS[form]], fill=255)
    return mask


def _star() -> list[Point]:
    return [
        (r * math.sin(k * math.pi / 5), 0.06 - r * math.cos(k * math.pi / 5))
        for k in range(10)
        for r in [(1.15, 0.5)[k % 2]]
    ]


def _heart() -> list[Point]:
    turns = (2 * math.pi * k / 64 for k in range(64))
    return [
        (
            1.05 * math.sin(t) ** 3,
            -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 15,
        )
        for t in turns
    ]


_T = 0.33  # half the width of a cross's arm
_POLYGONS: dict[str, list[Point]] = {
    "square": [(-0.82, -0.82), (0.82, -0.82), (0.82, 0.82), (-0.82, 0.82)],
    "triangle": [(0, -1.1), (0.9, 0.85), (-0.9, 0.85)],
    "cross": [
        *((-_T, -1), (_T, -1), (_T, -_T), (1, -_T), (1, _T), (_T, _T)),
        *((_T, 1), (-_T, 1), (-_T, _T), (-1, _T), (-1, -_T), (-_T, -_T)),
    ],
    "star": _star(),
    "heart": _heart(),
}


@lru_cache(maxsize=256)
def _backdrop(world: World) -> Image.Image:
    """The world behind the things, twice as wide and high as a frame, so that the camera can move."""
    background, lay, size, light, style = world
    edge = 4 * size
    image = Image.new("RGB", (edge, edge))
    random = np.random.default_rng([BACKGROUNDS.index(background), lay])
    _PAINTERS[background](ImageDraw.Draw(image), edge, random)
    return _lit(image.reduce(2), _LIGHT[light][0], style)


def _bands(drawing: ImageDraw.ImageDraw, edge: int, bands: list[tuple[float, tuple[int, int, int]]]) -> None:
    """Fills downwards: each colour from its height (a fraction) to the next."""
    for top, colour in bands:
        drawing.rectangle((0, top * edge, edge, edge), fill=colour)


def _ridge(drawing: ImageDraw.ImageDraw, edge: int, heights: NDArray[np.float64], colour: tuple[int, int, int]) -> None:
    xs = np.linspace(0, edge, len(heights))
    points = [(float(x), float(y) * edge) for x, y in zip(xs, heights, strict=True)]
    drawing.polygon([(0.0, float(edge)), *points, (float(edge), float(edge))], fill=colour)


def _waves(random: np.random.Generator, base: float, height: float, count: float) -> NDArray[np.float64]:
    x = np.linspace(0, 2 * np.pi, 97)
    first, second = random.uniform(0, 2 * np.pi, 2)
    return np.asarray(base - height * (np.sin(count * x + first) + 0.5 * np.sin(2.3 * count * x + second)))


def _wall(drawing: ImageDraw.ImageDraw, edge: int, random: np.random.Generator) -> None:
    high, wide, joint = edge // 16, edge // 8, max(2, edge // 200)
    for row in range(16):
        for x in range(-wide // 2 * (row % 2), edge, wide):
            tone = int(random.integers(-16, 12))
            fill, mortar = (188 + tone, 182 + tone, 172 + tone), (160, 153, 142)
            drawing.rectangle((x, row * high, x + wide, (row + 1) * high), fill=fill, outline=mortar, width=joint)


def _meadow(drawing: ImageDraw.ImageDraw, edge: int, random: np.random.Generator) -> None:
    _bands(drawing, edge, [(0, (165, 210, 240))])
    _ridge(drawing, edge, _waves(random, 0.42, 0.03, 2), (135, 185, 120))
    _ridge(drawing, edge, _waves(random, 0.5, 0.02, 3), (150, 200, 110))
    for x, y in random.uniform((0, 0.55), (1, 1), (70, 2)) * edge:
        blade = edge / 60
        drawing.line((x, y, x, y - blade), fill=(105, 165, 75), width=max(2, edge // 150))
    for x, y in random.uniform((0, 0.05), (1, 0.35), (5, 2)) * edge:
        for shift in (-1, 0, 1):
            r = edge / 30
            drawing.ellipse((x + shift * r - r, y - r, x + shift * r + r, y + r), fill=(235, 243, 248))


def _sea(drawing: ImageDraw.ImageDraw, edge: int, random: np.random.Generator) -> None:
    _bands(drawing, edge, [(0, (190, 225, 245)), (0.4, (95, 160, 190))])
    for row in range(14):
        y = (0.43 + 0.042 * row) * edge
        for x in random.uniform(0, 1, 9) * edge:
            drawing.arc((x, y, x + edge / 14, y + edge / 30), 200, 340, fill=(165, 210, 225), width=max(2, edge // 110))
    x = float(random.uniform(0.2, 0.8)) * edge
    drawing.polygon(
        [(x, 0.39 * edge), (x + edge / 9, 0.39 * edge), (x + edge / 12, 0.42 * edge), (x + edge / 40, 0.42 * edge)],
        fill=(110, 85, 70),
    )


def _desert(drawing: ImageDraw.ImageDraw, edge: int, random: np.random.Generator) -> None:
    _bands(drawing, edge, [(0, (205, 225, 235))])
    for base, colour in (
        (0.4, (215, 185, 135)),
        (0.5, (228, 200, 150)),
        (0.66, (220, 190, 138)),
        (0.8, (232, 206, 160)),
    ):
        _ridge(drawing, edge, _waves(random, base, 0.025, 1.5), colour)
    for x, y in random.uniform((0, 0.5), (1, 0.95), (6, 2)) * edge:
        r, green = edge / 90, (120, 150, 105)
        drawing.rectangle((x - r, y - 5 * r, x + r, y), fill=green)
        drawing.rectangle((x - 3 * r, y - 3 * r, x + 3 * r, y - 2 * r), fill=green)


def _city(drawing: ImageDraw.ImageDraw, edge: int, random: np.random.Generator) -> None:
    _bands(drawing, edge, [(0, (200, 210, 222)), (0.78, (120, 122, 128))])
    wide = edge // 10
    for k in range(10):
        top, tone = float(random.uniform(0.18, 0.5)) * edge, int(random.integers(140, 178))
        drawing.rectangle((k * wide, top, (k + 1) * wide - edge // 90, 0.78 * edge), fill=(tone, tone - 6, tone - 2))
        for y in np.arange(top + edge / 40, 0.75 * edge, edge / 22):
            for x in (k * wide + wide // 5, k * wide + 3 * wide // 5):
                drawing.rectangle((x, y, x + wide // 6, y + edge // 60), fill=(225, 220, 190))
    for x in range(0, edge, edge // 8):
        drawing.rectangle((x, 0.88 * edge, x + edge // 16, 0.895 * edge), fill=(215, 215, 210))


def _snow(drawing: ImageDraw.ImageDraw, edge: int, random: np.random.Generator) -> None:
    _bands(drawing, edge, [(0, (196, 212, 230))])
    _ridge(drawing, edge, _waves(random, 0.4, 0.05, 2), (214, 224, 236))
    _ridge(drawing, edge, _waves(random, 0.5, 0.02, 2.5), (226, 232, 240))
    for x, y in sorted(random.uniform((0, 0.45), (1, 0.95), (14, 2)).tolist(), key=lambda place: float(place[1])):
        for tier in range(3):
            top, half = (y - 0.02 * (tier + 1) - 0.02) * edge, (0.03 - 0.007 * tier) * edge
            points = [(x * edge - half, top + 0.04 * edge), (x * edge + half, top + 0.04 * edge), (x * edge, top)]
            drawing.polygon(points, fill=(120, 150, 140))


_PAINTERS = {"wall": _wall, "meadow": _meadow, "sea": _sea, "desert": _desert, "city": _city, "snow": _snow}
