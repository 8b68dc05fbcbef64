"""High dynamic range → what an ordinary screen shows.

HDR video says how much light each pixel gives (PQ) or what the camera saw (HLG), in the wide colours of BT.2020. Shown
as they are, such numbers look grey and faint. Here they become light, the light of a screen's colours, and the numbers
that make an ordinary screen give that light: up to about half of white they are the same, above it they are drawn
in, so that what is brighter than white keeps its shades (ITU-R BT.2100, BT.2408, BT.2390).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

PQ, HLG = 16, 18  # transfer characteristics, as ITU-T H.273 and FFmpeg number them
WIDE = 9  # primaries of BT.2020

WHITE = 203.0  # cd/m² of a white sheet in HDR (BT.2408); an ordinary screen's white
PEAK = 1000.0  # cd/m² of the brightest light: most films are graded for it, and HLG assumes it
SYSTEM_GAMMA = 1.2  # of HLG at that peak
LUMINANCE = np.array([0.2627, 0.6780, 0.0593], dtype=np.float32)  # of BT.2020
TO_SCREEN = np.array(  # light of BT.2020's primaries → of BT.709's (BT.2087)
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]], dtype=np.float32
)
FINE = 1 << 14  # steps between black and white in the table of a screen's numbers
AT_ONCE = 1 << 18  # pixels worked on together: intermediate values are sixteen times as large as the result

Linear = NDArray[np.float32]


def is_wide(transfer: int, primaries: int) -> bool:
    """Whether pixels with these tags must be brought to a screen's light or colours."""
    return transfer in (PQ, HLG) or primaries == WIDE


def to_screen(pixels: NDArray[np.uint16], transfer: int, primaries: int) -> NDArray[np.uint8]:
    """Ordinary pixels of wide ones: uint16 `[H, W, 3]` → uint8 `[H, W, 3]`, sRGB."""
    rows = max(1, AT_ONCE // pixels.shape[1])
    parts = [_converted(pixels[row : row + rows], transfer, primaries) for row in range(0, len(pixels), rows)]
    return np.concatenate(parts)


def _converted(pixels: NDArray[np.uint16], transfer: int, primaries: int) -> NDArray[np.uint8]:
    light = _linear(transfer)[pixels]  # 1 is white
    if transfer == HLG:
        light *= np.power(light @ LUMINANCE, SYSTEM_GAMMA - 1)[..., None] * np.float32(PEAK / WHITE)
    if primaries == WIDE:
        light = light @ TO_SCREEN.T
    np.maximum(light, 0, out=light)  # colours that no ordinary screen has
    if transfer in (PQ, HLG):
        brightest = light.max(axis=-1)
        light *= np.interp(brightest, *_gains()).astype(np.float32)[..., None]  # all three alike: the hue stays
    np.minimum(light, 1, out=light)
    return _screen()[(light * (FINE - 1) + np.float32(0.5)).astype(np.int32)]


@cache
def _linear(transfer: int) -> Linear:
    """What a 16-bit number stands for: light relative to white; of HLG, the scene's light relative to its peak."""
    signal = np.arange(1 << 16) / ((1 << 16) - 1)
    if transfer == PQ:
        light = pq_light(signal) / WHITE
    elif transfer == HLG:
        a, b, c = 0.17883277, 0.28466892, 0.55991073
        light = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)
    else:
        light = np.where(signal <= 0.04045, signal / 12.92, ((signal + 0.055) / 1.055) ** 2.4)
    return light.astype(np.float32)


@cache
def _screen() -> NDArray[np.uint8]:
    """Light in `FINE` steps → sRGB."""
    light = np.arange(FINE) / (FINE - 1)
    signal = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.round(signal * 255).astype(np.uint8)


@cache
def _gains() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Light relative to white, and by what it is to be multiplied (BT.2390: a soft knee in PQ's even steps)."""
    signal = np.linspace(0, float(pq_signal(np.array(PEAK))), 512)[1:]
    even, top = signal / signal[-1], float(pq_signal(np.array(WHITE))) / signal[-1]
    knee = 1.5 * top - 0.5
    t = np.clip((even - knee) / (1 - knee), 0, 1)
    bent = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * top
    light = pq_light(signal)
    gain = np.where(even <= knee, 1.0, pq_light(bent * signal[-1]) / light)
    beyond = np.geomspace(light[-1], 10_000, 32)[1:]  # what is brighter than the peak becomes white
    return np.append(light, beyond) / WHITE, np.append(gain, WHITE / beyond)


_M1, _M2 = 2610 / 16384, 2523 / 4096 * 128
_C1, _C2, _C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32


def pq_light(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Light in cd/m² that a PQ signal 0…1 stands for."""
    root = signal ** (1 / _M2)
    return np.asarray(10_000 * (np.maximum(root - _C1, 0) / (_C2 - _C3 * root)) ** (1 / _M1), dtype=np.float64)


def pq_signal(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """The PQ signal 0…1 of a light in cd/m²."""
    power = (light / 10_000) ** _M1
    return np.asarray(((_C1 + _C2 * power) / (1 + _C3 * power)) ** _M2, dtype=np.float64)
