"""Test-time scaling: the same model and tasks with more frames, or more visual tokens a frame (arXiv 2510.27571, A.12).

Each setting is a run of its own with results of its own, all from one cache, so a sweep is resumed as a run is. Beside
them stand `sweep.json` and `sweep.svg`, both the same bytes again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import ceil, floor
from pathlib import Path
from typing import Literal

from reelspace.embed.base import Embedder
from reelspace.media.policy import Uniform
from reelspace.uvrb.abilities import abilities
from reelspace.uvrb.protocol import Protocol
from reelspace.uvrb.results import Failure, write_text
from reelspace.uvrb.run import Runner, State, Suite
from reelspace.uvrb.tasks import suite as suite_of

Axis = Literal["frames", "tokens"]
FRAMES = (8, 16, 24, 32, 40, 48)
TOKENS = (200, 400, 600, 800)
"""The paper's range of each; the other one stays at its first value."""


@dataclass
class Sweep:
    """What came of a sweep.

    Attributes:
        axis: `frames` or `tokens`.
        suite: its name.
        model: its name.
        scores: setting → task → score.
        failures: items that could not be embedded, of all settings.
    """

    axis: Axis
    suite: str
    model: str
    scores: dict[int, dict[str, float]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    @property
    def lines(self) -> dict[str, dict[int, float]]:
        """Ability or average → setting → score; and a task that is of no ability of which all was run."""
        found: dict[str, dict[int, float]] = {}
        tasks = suite_of(self.suite)
        for setting, scores in self.scores.items():
            whole = {name: value for name, value in abilities(scores, self.suite).items() if value is not None}
            alone = {name: value for name, value in scores.items() if tasks[name].ability not in whole}
            for name, value in (whole | alone).items():
                found.setdefault(name, {})[setting] = value
        return found

    def told(self) -> dict[str, object]:
        """As JSON."""
        return {
            "axis": self.axis,
            "suite": self.suite,
            "model": self.model,
            "tasks": {str(setting): scores for setting, scores in self.scores.items()},
            "abilities": {name: {str(key): value for key, value in line.items()} for name, line in self.lines.items()},
        }


def settings(axis: Axis, values: Sequence[int], protocol: Protocol) -> dict[int, Protocol]:
    """Value → protocol."""
    if axis == "frames":
        return {value: replace(protocol, frames=str(Uniform(value))) for value in values}
    return {value: replace(protocol, tokens=value, frames=protocol.frames or str(Uniform(8))) for value in values}


def sweep(
    open_it: Callable[[Protocol], Embedder],
    suite: Suite,
    axis: Axis,
    values: Sequence[int],
    output: Path,
    cache: Path,
    protocol: Protocol | None = None,
    batch: int = 16,
    watch: Callable[[int, State], None] = lambda value, state: None,
) -> Sweep:
    """Runs the suite under each setting into `output/AXIS-VALUE`.

    Args:
        open_it: the model under a protocol; see `reelspace.uvrb.models.open_model`.
        suite: what is run.
        axis: what is varied.
        values: over which values.
        output: where results go.
        cache: the folder of vectors.
        protocol: the rest of it; None: the suite's own.
        batch: items the model gets at once.
        watch: called with the setting and how far it is.
    """
    made: Sweep | None = None
    for value, chosen in settings(axis, sorted(set(values)), protocol or suite.protocol).items():
        embedder = open_it(chosen)
        made = made or Sweep(axis, suite.name, embedder.name)
        runner = Runner(embedder, suite, cache, chosen, batch)
        outcome = runner.run(output / f"{axis}-{value}", lambda state, value=value: watch(value, state))  # type: ignore[misc]
        assert outcome.results is not None
        made.scores[value] = outcome.results.scores
        made.failures += outcome.failures
    assert made is not None
    write_text(output / "sweep.json", json.dumps(made.told(), indent=2, ensure_ascii=False) + "\n")
    write_text(output / "sweep.svg", plot(made.lines, axis, f"{made.model}, {made.suite}"))
    return made


_COLOURS = (
    "#4269d0",
    "#efb118",
    "#ff725c",
    "#6cc5b0",
    "#3ca951",
    "#ff8ab7",
    "#a463f2",
    "#97bbf5",
    "#9c6b4e",
    "#9498a0",
)
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 420, 52, 36, 120, 44


def plot(lines: Mapping[str, Mapping[int, float]], axis: str, title: str) -> str:
    """An SVG picture: scores over the setting, a line each; averages are thick."""
    values = sorted({value for line in lines.values() for value in line})
    scores = [score for line in lines.values() for score in line.values()]
    step = next(step for step in (0.02, 0.05, 0.1, 0.2) if max(scores) - min(scores) <= 4 * step or step == 0.2)
    first = min(floor(round(min(scores) / step, 6)), round(1 / step) - 5)
    marks = [step * k for k in range(first, max(ceil(round(max(scores) / step, 6)), first + 5) + 1)]
    low, high = marks[0], marks[-1]

    def x(value: float) -> float:
        share = (value - values[0]) / max(1, values[-1] - values[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(score: float) -> float:
        return _HEIGHT - _BOTTOM - (score - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for score in marks:
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(score):.1f}" y2="{y(score):.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y(score) + 4:.1f}" text-anchor="end">{score:.2f}</text>'
        )
    for value in values:
        parts.append(f'<text x="{x(value):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{value}</text>')
    what = "frames a video" if axis == "frames" else "visual tokens a frame, at most"
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{what}</text>')
    ends = _apart({name: y(line[max(line)]) for name, line in lines.items()})
    for number, (name, line) in enumerate(lines.items()):
        colour, thick = _COLOURS[number % len(_COLOURS)], 3 if name.startswith("AVG") else 1.5
        points = " ".join(f"{x(value):.1f},{y(score):.1f}" for value, score in sorted(line.items()))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}"/>'
            f'<text x="{_WIDTH - _RIGHT + 8}" y="{ends[name] + 4:.1f}" fill="{colour}">{escape(name)} '
            f"{line[max(line)]:.3f}</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _apart(places: Mapping[str, float], gap: float = 13.0) -> dict[str, float]:
    """Places of labels, moved down where they would lie on each other."""
    moved: dict[str, float] = {}
    last = float("-inf")
    for name, place in sorted(places.items(), key=lambda one: one[1]):
        last = moved[name] = max(place, last + gap)
    return moved
