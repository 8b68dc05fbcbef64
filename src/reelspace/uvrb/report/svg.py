"""The report's pictures: radar, heat map, differences. Colours are names of CSS classes, so that themes can differ."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, cos, pi, sin
from typing import NamedTuple


def radar(axes: Sequence[str], lines: Sequence[tuple[str, Sequence[float | None]]], label: str) -> str:
    """A line a model around `axes`, from 0 in the middle outwards; a line breaks where a value is missing."""
    size, radius = 460, 170
    middle = size / 2
    rings = max(1, ceil(5 * max((value for _, values in lines for value in values if value is not None), default=1.0)))

    def at(axis: int, value: float) -> tuple[float, float]:
        angle, value = 2 * pi * axis / len(axes) - pi / 2, value * 5 / rings
        return middle + radius * value * cos(angle), middle + radius * value * sin(angle)

    parts = [f'<svg class="radar" viewBox="0 0 {size} {size}" role="img" aria-label="{escape(label)}">']
    for ring in range(1, rings + 1):
        points = " ".join(_point(*at(axis, ring / 5)) for axis in range(len(axes)))
        y = middle - radius * ring / rings + 12
        parts.append(f'<polygon class="grid" points="{points}"/>')
        parts.append(f'<text class="tick" x="{middle + 4:.1f}" y="{y:.1f}">{ring / 5:.1f}</text>')
    for axis, name in enumerate(axes):
        x, y = at(axis, rings / 5)
        parts.append(f'<line class="grid" x1="{middle:.1f}" y1="{middle:.1f}" x2="{x:.1f}" y2="{y:.1f}"/>')
        x, y = at(axis, 1.13 * rings / 5)
        parts.append(f'<text class="axis" x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{escape(name)}</text>')
    for number, (name, values) in enumerate(lines):
        parts.append(f'<g class="line{number}"><title>{escape(name)}</title>')
        parts += _line([None if value is None else at(axis, value) for axis, value in enumerate(values)])
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def _line(points: Sequence[tuple[float, float] | None]) -> list[str]:
    """A closed line through points, with gaps, and a dot on each."""
    known = [point for point in points if point is not None]
    drawn = []
    if len(known) == len(points):
        drawn.append(f'<polygon class="line" points="{" ".join(_point(*point) for point in known)}"/>')
    else:
        for one, other in zip(points, [*points[1:], *points[:1]], strict=True):
            if one is not None and other is not None:
                drawn.append(f'<polyline class="line" points="{_point(*one)} {_point(*other)}"/>')
    return [*drawn, *(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>' for x, y in known)]


def _point(x: float, y: float) -> str:
    return f"{x:.1f},{y:.1f}"


class Square(NamedTuple):
    """A field of a heat map: its colour's class, what stands in it, and what it says when pointed at."""

    colour: str
    text: str
    hint: str


def heat(rows: Sequence[str], columns: Sequence[str], squares: Sequence[Sequence[Square]], label: str) -> str:
    """A grid of coloured fields with their numbers."""
    left = 12 + 7.2 * max(map(len, rows))
    top, wide, high = 16 + 6.2 * max(map(len, columns)), 44, 26
    width, height = left + wide * len(columns) + 3.2 * max(map(len, columns)), top + high * len(rows) + 8
    parts = [
        f'<svg class="heat" viewBox="0 0 {width:.0f} {height:.0f}" style="width:{width:.0f}px" role="img" '
        f'aria-label="{escape(label)}">'
    ]
    for number, name in enumerate(columns):
        x = left + wide * (number + 0.5) + 4
        parts.append(
            f'<text class="axis" transform="translate({x:.1f},{top - 6:.1f}) rotate(-60)">{escape(name)}</text>'
        )
    for line, (name, of_row) in enumerate(zip(rows, squares, strict=True)):
        y = top + high * line
        parts.append(f'<text class="axis" x="{left - 8:.1f}" y="{y + 18:.1f}" text-anchor="end">{escape(name)}</text>')
        for number, square in enumerate(of_row):
            x = left + wide * number
            parts.append(
                f'<g class="{square.colour}"><title>{escape(square.hint)}</title>'
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide - 2}" height="{high - 2}" rx="3"/>'
                f'<text x="{x + wide / 2 - 1:.1f}" y="{y + 17:.1f}" text-anchor="middle">{escape(square.text)}</text>'
                "</g>"
            )
    return "".join([*parts, "</svg>"])


def signed(value: float | None) -> str:
    """The class of a value from −1 to 1: `n5` to `n1`, `p0` to `p5`; `none`."""
    if value is None:
        return "none"
    step = min(5, round(abs(value) * 5))
    return f"n{step}" if value < 0 and step else f"p{step}"


def unsigned(value: float | None) -> str:
    """The class of a value from 0 to 1."""
    return signed(None if value is None else min(max(value, 0.0), 1.0))


class Bar(NamedTuple):
    """A difference with its interval."""

    name: str
    gap: float
    low: float
    high: float
    sure: bool
    hint: str


def differences(bars: Sequence[Bar], label: str) -> str:
    """Points with their intervals around 0; a filled point is more than chance."""
    left, wide, high = 110, 400, 22
    reach = max(0.05, *(max(abs(bar.low), abs(bar.high)) for bar in bars))
    step = next(step for step in (0.02, 0.05, 0.1, 0.2, 0.5) if reach / step <= 5 or step == 0.5)
    reach = step * ceil(reach / step - 1e-9)
    width, height = left + wide + 70, high * len(bars) + 40

    def at(value: float) -> float:
        return left + wide * (value + reach) / (2 * reach)

    parts = [
        f'<svg class="gaps" viewBox="0 0 {width} {height}" style="width:{width}px" role="img" '
        f'aria-label="{escape(label)}">'
    ]
    for number in range(-round(reach / step), round(reach / step) + 1):
        x = at(number * step)
        kind = "zero" if number == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" y1="6" x2="{x:.1f}" y2="{height - 26}"/>')
        mark = f"{number * step:+.2f}".replace("-", "−") if number else "0"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 10}" text-anchor="middle">{mark}</text>')
    for number, bar in enumerate(bars):
        y = 18 + high * number
        side = ("up" if bar.gap > 0 else "down") + ("" if bar.sure else " unsure")
        parts.append(f'<g class="{side}"><title>{escape(bar.hint)}</title>')
        parts.append(f'<text class="axis" x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(bar.name)}</text>')
        parts.append(f'<line class="bar" x1="{at(bar.low):.1f}" y1="{y}" x2="{at(bar.high):.1f}" y2="{y}"/>')
        parts.append(f'<circle cx="{at(bar.gap):.1f}" cy="{y}" r="5"/>')
        shown = f"{bar.gap:+.3f}".replace("-", "−")
        parts.append(f'<text class="axis" x="{left + wide + 10}" y="{y + 4}">{shown}</text></g>')
    return "".join([*parts, "</svg>"])
