"""What a plain classifier misses and a person asks for: colours, light, place, movement, people.

A picture's attributes are measured from its pixels; a text's are the ones it names. Both are rows of one block, so
that their dot product rewards a picture for having what the text names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# The eleven basic colour terms (Berlin & Kay 1969), each by a few typical sRGB values.
_COLOURS: dict[str, tuple[int, ...]] = {
    "red": (0xD01020, 0xF03030, 0x901018),
    "orange": (0xF08020, 0xFFA040),
    "yellow": (0xF0D820, 0xFFF080),
    "green": (0x209030, 0x106020, 0x60C040, 0x708040),
    "blue": (0x2040C0, 0x102060, 0x4090E0, 0x90C8F0),
    "purple": (0x702090, 0xA060D0),
    "pink": (0xF090B0, 0xF04090),
    "brown": (0x704020, 0x402810, 0xA07848),
    "black": (0x080808,),
    "white": (0xF8F8F8,),
    "grey": (0x505050, 0x808080, 0xB8B8B8),
}
# Signed rows: what counts as + and as −.
_SIGNED: dict[str, tuple[str, str]] = {
    "light": (
        r"bright\w*|sunny|sunshine|sunlit|day|daytime|daylight",
        r"dark\w*|nights?|nighttime|midnight|dim\w*|gloomy",
    ),
    "colourful": (r"colou?rful|vivid", r"black[- ]and[- ]white|monochrome|gr[ae]yscale|sepia|colou?rless"),
    "outdoors": (r"outdoors?|outside|landscapes?|scenery", r"indoors?|inside|interiors?"),
    "movement": (r"moving|motion|movement|fast|action", r"still|static|motionless|immobile|standstill"),
    "people": (
        r"persons?|people|faces?|portraits?|selfies?|humans?|crowds?|family|friends?|couple|someone|speakers?|actors?|"
        r"(?:wo)?m[ae]n|ladies|lady|guys?|boys?|girls?|child(?:ren)?|kids?|bab(?:y|ies)",
        r"empty|deserted|uninhabited",
    ),
}
NAMES = (*_COLOURS, *_SIGNED, "rest")
DIM = len(NAMES)
_COLOURLESS = NAMES.index("colourful")

_TERM = np.repeat(np.arange(len(_COLOURS)), [len(values) for values in _COLOURS.values()])
_WORDS = {name: rf"{name}(?:s|ish)?" for name in _COLOURS} | {"grey": "gr[ae]y(?:ish)?"}
_PATTERNS = [(row, 1.0, re.compile(rf"\b(?:{word})\b", re.I)) for row, word in enumerate(_WORDS.values())] + [
    (len(_COLOURS) + row, sign, re.compile(rf"\b(?:{words})\b", re.I))
    for row, pair in enumerate(_SIGNED.values())
    for sign, words in zip((1.0, -1.0), pair, strict=True)
]


_VALUE = np.arange(256, dtype=np.float32) / 255
_LINEAR = np.where(_VALUE > 0.04045, ((_VALUE + 0.055) / 1.055) ** 2.4, _VALUE / 12.92).astype(np.float32)


def _oklab(srgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """SRGB bytes `[..., 3]` → Oklab (Ottosson 2020), where distance is how different colours look."""
    linear = _LINEAR[srgb]
    to_lms = np.array(
        [
            [0.41222147, 0.53633254, 0.05144599],
            [0.21190350, 0.68069955, 0.10739696],
            [0.08830246, 0.28171884, 0.62997870],
        ]
    )
    to_lab = np.array(
        [
            [0.21045426, 0.79361779, -0.00407205],
            [1.97799850, -2.42859221, 0.45059371],
            [0.02590404, 0.78277177, -0.80867577],
        ]
    )
    return np.asarray(np.cbrt(linear @ to_lms.T) @ to_lab.T, dtype=np.float32)


_PALETTE = _oklab(
    np.array([[v >> 16, v >> 8 & 255, v & 255] for values in _COLOURS.values() for v in values], dtype=np.uint8)
)


def of_text(text: str) -> NDArray[np.float32]:
    """The attributes a text names: a unit vector float32 `[DIM]`, or zeros if it names none."""
    row = np.zeros(DIM, dtype=np.float32)
    for index, sign, pattern in _PATTERNS:
        if pattern.search(text):
            row[index] += sign
    if row[_COLOURLESS] < 0:  # “black and white” names no colour
        row[: len(_COLOURS)] = 0
    length = np.linalg.norm(row)
    return row / length if length else row


def of_frames(frames: Sequence[NDArray[np.uint8]], outdoors: float, faces: float) -> NDArray[np.float32]:
    """The attributes of a picture or clip: a unit vector float32 `[DIM]`.

    Args:
        frames: uint8 `[S, S, 3]`, the whole picture squeezed to a square; one for a picture.
        outdoors: −1 (surely indoors) … 1 (surely outdoors), from the classifier.
        faces: 0 (surely no face) … 1 (surely one), from the face net.
    """
    small = np.stack([frame[2::4, 2::4] for frame in frames])
    distinct = list({id(frame): None for frame in frames})  # a clip of few frames repeats them
    order = [distinct.index(id(frame)) for frame in frames]
    lab = _oklab(small[[order.index(place) for place in range(len(distinct))]])
    distance = (_PALETTE**2).sum(1) - 2 * lab @ _PALETTE.T  # [frames, …, palette], less a constant of the pixel
    terms, lab = _TERM[distance.argmin(-1)][order].ravel(), lab[order].reshape(-1, 3)
    shares = np.bincount(terms, minlength=len(_COLOURS)) / len(lab)
    signed = {
        "light": (lab[:, 0].mean(dtype=np.float64) - 0.55) / 0.25,
        "colourful": np.hypot(lab[:, 1], lab[:, 2]).mean(dtype=np.float64) / 0.03 - 1,
        "outdoors": outdoors,
        "movement": _movement(small) if len(frames) > 1 else 0.0,
        "people": (faces - 0.35) / 0.25,
    }
    # Square roots of shares: a small red thing is worth naming, and the colours' length is 1 whatever they are.
    row = np.array([*np.sqrt(shares), *np.clip([signed[name] for name in _SIGNED], -1, 1), 0], dtype=np.float32)
    # What is left goes into a row no text names, so that every picture's block has the same length.
    row[-1] = np.sqrt(max(0.0, 1 + len(_SIGNED) - float((row**2).sum())))
    return row / np.float32(np.sqrt(1 + len(_SIGNED)))


def _movement(small: NDArray[np.uint8]) -> float:
    """−1 (nothing changes from frame to frame) … 1, from the mean change of grey levels."""
    grey = small.mean(axis=3, dtype=np.float32)
    change = float(np.abs(np.diff(grey, axis=0)).mean(dtype=np.float64))
    return float(np.clip(np.log2(max(change, 1e-3) / 8) / 2, -1, 1))
