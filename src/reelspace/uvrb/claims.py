"""What the paper's text states about its tables, and whether the tables say so.

A stated number *follows* if some values that round to the printed ones, computed as the text says, round to it. For a
correlation that fails this, every other reading is tried: Pearson and Spearman; all 16 models, the 14 baselines, the
CLIP-based and the MLLM-based ones with and without GVE; and “overall” as either average, as printed or as it follows.
With that many readings some agree by chance, most of all Spearman's over six rows: an agreement says what may have been
done, not what was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from typing import Literal, NamedTuple

import numpy as np

from reelspace.uvrb import published
from reelspace.uvrb.abilities import weights
from reelspace.uvrb.audit import Cell, Cells, printed
from reelspace.uvrb.statistics import METHODS, Floats, Interval, correlate, ranks

Verdict = Literal["follows", "follows otherwise", "does not follow", "cannot be derived"]

_UNIT = 0.0005  # half of the last digit of the tables' scores
_EXACT = 1e-9


class Judged(NamedTuple):
    """A claim, judged.

    Attributes:
        where: the part of the paper.
        says: the claim, in our words.
        verdict: `follows`; `follows otherwise`: by another method, or over other rows, than the text names; `does not
            follow`; `cannot be derived`: the tables do not have what it takes.
        gives: what the tables give, and how.
    """

    where: str
    says: str
    verdict: Verdict
    gives: str


def judge(cells: Cells | None = None) -> list[Judged]:
    """Every claim.

    Args:
        cells: the tables; left out, as printed.
    """
    given = printed() if cells is None else cells
    claims: list[Stated | Statement] = [*correlations(), *statements()]
    return [claim.judge(given) for claim in claims]


# Correlations


class Reading(NamedTuple):
    """A way to compute a correlation, and what it gives."""

    method: str
    rows: str
    average: str | None  # what “overall” is taken as
    value: float
    n: int
    interval: Interval | None

    def __str__(self) -> str:
        spread = f" [{self.interval.low:.2f}, {self.interval.high:.2f}]" if self.interval else ""
        overall = f", overall as {self.average}" if self.average else ""
        return f"{self.method} {self.value:.3f}{spread} over {self.rows} (n={self.n}{overall})"


def groups() -> dict[str, list[str]]:
    """Sets of the published models that a correlation may be taken over."""
    models = published.models().values()
    return {
        "all 16": [model.name for model in models],
        "the 14 baselines": [model.name for model in models if not model.ours],
        "the CLIP-based": [model.name for model in models if model.architecture == "CLIP"],
        "the MLLM-based": [model.name for model in models if model.architecture == "MLLM"],
        "the MLLM-based baselines": [model.name for model in models if model.architecture == "MLLM" and not model.ours],
    }


OVERALL = ("AVG-A", "AVG-D", "AVG-A derived from Table 1")
"""What the text may mean by overall performance: as printed in Table 2, in Table 1, and without Table 2's faults."""

_NAMED = {
    "all": ("all 16", "the 14 baselines"),
    "CLIP": ("the CLIP-based",),
    "MLLM": ("the MLLM-based", "the MLLM-based baselines"),
}


@dataclass(frozen=True)
class Stated:
    """A correlation that the text states: of two columns, over the rows it names, by the method it names (Pearson)."""

    x: str
    y: str
    value: float
    at_least: bool
    rows: str

    def judge(self, cells: Cells) -> Judged:
        """Whether the tables give it."""
        sign = "at least " if self.at_least else ""
        about = {"all": "all models", "CLIP": "CLIP-based models", "MLLM": "MLLM-based models"}[self.rows]
        says = f"ρ({self.x}, {self.y}) is {sign}{self.value:.2f} over {about}"
        readings = self.readings(cells)
        stated = [reading for reading in readings if reading.method == "pearson" and reading.rows in _NAMED[self.rows]]
        if any(self._agrees(reading, cells) for reading in stated):
            kept = next(reading for reading in stated if self._agrees(reading, cells))
            return Judged("4.3", says, "follows", str(kept))
        others = [reading for reading in readings if self._agrees(reading, cells)]
        first = str(stated[0])
        if others:
            more = f", and by {len(others) - 1} more of {len(readings)} readings" if len(others) > 1 else ""
            return Judged("4.3", says, "follows otherwise", f"{first}; but {others[0]}{more}")
        nearest = min(readings, key=lambda reading: abs(reading.value - self.value))
        more = f"; the nearest of {len(readings)} readings: {nearest}" if nearest != stated[0] else ""
        return Judged("4.3", says, "does not follow", f"{first}{more}")

    def readings(self, cells: Cells) -> list[Reading]:
        """All of them, those the text names first."""
        averages = OVERALL if "AVG" in (self.x, self.y) else (None,)
        own = [*_NAMED[self.rows], *(name for name in groups() if name not in _NAMED[self.rows])]
        found = []
        for rows, method, average in product(own, METHODS, averages):
            names = groups()[rows]
            x, y = (column(cells, names, name, average) for name in (self.x, self.y))
            _, value, interval, n = correlate(x, y, method)
            if value is not None:
                found.append(Reading(method, rows, average, value, n, interval))
        return found

    def _agrees(self, reading: Reading, cells: Cells) -> bool:
        names = groups()[reading.rows]
        x, y = (column(cells, names, name, reading.average) for name in (self.x, self.y))
        low, high = rounding(x, y, reading.method)
        if self.at_least:
            return high + 0.005 + _EXACT >= self.value
        return low - 0.005 - _EXACT <= self.value <= high + 0.005 + _EXACT


def column(cells: Cells, models: Sequence[str], name: str, average: str | None) -> Floats:
    """A column of Table 2, or of Table 1, in the order of `models`."""
    if name == "AVG" and average == OVERALL[2]:
        shares = weights("AVG-A")
        return np.array([sum(share * cells[Cell("1", m, task)] for task, share in shares.items()) for m in models])
    name = average or name if name == "AVG" else name
    table = "1" if name == "AVG-D" or Cell("2", models[0], name) not in cells else "2"
    return np.array([cells[Cell(table, model, name)] for model in models])


def rounding(x: Floats, y: Floats, method: str) -> Interval:
    """The least and greatest correlation of values that round to the given ones: within three standard deviations of
    what independent rounding does to it, to first order.

    Spearman's moves only where values tie in print: these are ordered once with and once against the other column.
    """
    if method == "spearman":
        ends = [correlate(_ordered(x, sign * y), _ordered(y, sign * x), "pearson").value for sign in (1, -1)]
        known = [value for value in ends if value is not None]
        return Interval(min(known), max(known))
    value = correlate(x, y).value
    assert value is not None
    a, b = x - x.mean(), y - y.mean()
    a, b = a / np.sqrt(a @ a), b / np.sqrt(b @ b)
    slopes = np.concatenate(
        [(b - value * a) / np.linalg.norm(x - x.mean()), (a - value * b) / np.linalg.norm(y - y.mean())]
    )
    reach = 3 * _UNIT / sqrt(3) * float(np.linalg.norm(slopes))
    return Interval(max(-1.0, value - reach), min(1.0, value + reach))


def _ordered(values: Floats, by: Floats) -> Floats:
    """Ranks; equal values are ordered by another column."""
    order = np.lexsort((by, values))
    found = np.empty(len(values))
    found[order] = ranks(np.arange(len(values)))
    return found


def correlations() -> list[Stated]:
    """Those that Section 4.3 states."""
    found = []
    for line in published.rows("correlations"):
        x, _, y = line["pair"].partition("~")
        number = line["claimed_rho"]
        found.append(
            Stated(x, y, float(number.removeprefix(">=")), number.startswith(">="), line["group_named_in_paper"])
        )
    return found


# Statements about numbers


@dataclass(frozen=True)
class Statement:
    """A statement about cells.

    Attributes:
        stated: the numbers it has, in order.
        test: cells and stated numbers → whether it holds (`None`: that cannot be told), and what the tables give.
    """

    where: str
    says: str
    stated: tuple[float, ...]
    test: Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]

    def judge(self, cells: Cells) -> Judged:
        """Whether the tables say so."""
        holds, gives = self.test(cells, self.stated)
        verdict: Verdict = "cannot be derived" if holds is None else "follows" if holds else "does not follow"
        return Judged(self.where, self.says, verdict, gives)


def _quotes(*places: Cell) -> Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]:
    """Numbers of the tables, repeated."""

    def test(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
        missing = [place for place in places if place not in cells]
        if missing:
            return None, f"Table {missing[0].table} has no line {missing[0].row}"
        wrong = []
        for place, number in zip(places, stated, strict=True):
            if abs(cells[place] - number) > _EXACT:
                owners = [
                    other.row
                    for other, value in cells.items()
                    if (other.table, other.column) == (place.table, place.column) and abs(value - number) < _EXACT
                ]
                hint = f"; {number:.3f} is {', '.join(owners)}'s" if owners else ""
                wrong.append(f"{place}: {cells[place]:.3f}{hint}")
        return not wrong, "; ".join(wrong) or "as printed there"

    return test


def _gains(*pairs: tuple[Cell, Cell]) -> Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]:
    """How many percent each first cell is above its second."""

    def test(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
        holds, given = True, []
        for (new, old), percent in zip(pairs, stated, strict=True):
            low, high = _ratio(cells[new], cells[old])
            digits = 0.5 if percent == int(percent) else 0.05
            holds &= low - digits - _EXACT <= percent <= high + digits + _EXACT
            given.append(f"{cells[new]:.3f} / {cells[old]:.3f} = +{100 * (cells[new] / cells[old] - 1):.1f} %")
        return holds, "; ".join(given)

    return test


def _ratio(new: float, old: float) -> Interval:
    """Percent between which a gain lies, by rounding."""
    return Interval(
        100 * ((new - _UNIT) / (old + _UNIT) - 1),
        100 * ((new + _UNIT) / (old - _UNIT) - 1),
    )


def _exceeds(
    table: str, model: str, columns: Sequence[str], over: str | None = None
) -> Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]:
    """A model has more than another (or than all others) in each of some columns."""

    def test(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
        wrong = []
        for name in columns:
            others = [
                cell
                for cell in cells
                if cell.table == table and cell.column == name and cell.row != model and over in (None, cell.row)
            ]
            best = max(others, key=lambda cell: cells[cell])
            mine = cells[Cell(table, model, name)]
            if mine <= cells[best]:
                wrong.append(f"{name}: {best.row} has {cells[best]:.3f}, {model} {mine:.3f}")
        return not wrong, "; ".join(wrong) or f"so it is in {', '.join(columns)}"

    return test


def _least_and_most(
    pairs: Sequence[tuple[Cell, Cell]],
) -> Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]:
    """The least and the greatest of several gains in percent."""

    def test(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
        spans = [_ratio(cells[new], cells[old]) for new, old in pairs]
        gains = [100 * (cells[new] / cells[old] - 1) for new, old in pairs]
        least = Interval(min(span.low for span in spans), min(span.high for span in spans))
        most = Interval(max(span.low for span in spans), max(span.high for span in spans))
        holds = all(
            span.low - 0.05 - _EXACT <= number <= span.high + 0.05 + _EXACT
            for span, number in zip((least, most), stated, strict=True)
        )
        return holds, f"+{min(gains):.1f} % to +{max(gains):.1f} %"

    return test


def _difference(first: Cell, second: Cell) -> Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]:
    def test(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
        gap = cells[first] - cells[second]
        return abs(gap - stated[0]) <= 3 * _UNIT + _EXACT, f"{cells[first]:.3f} − {cells[second]:.3f} = {gap:.3f}"

    return test


def _totals(parts: Sequence[Cell], half_unit: float) -> Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]:
    """A sum of counts that are printed in thousands."""

    def test(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
        total = sum(cells[part] for part in parts)
        slack = half_unit + 500 * len(parts) if len(parts) > 1 else half_unit
        return abs(total - stated[0]) <= slack + 1, f"{total:,.0f}"

    return test


def _best(table: str, name: str) -> Callable[[Cells, tuple[float, ...]], tuple[bool | None, str]]:
    """The greatest value of a column."""

    def test(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
        best = max((cell for cell in cells if (cell.table, cell.column) == (table, name)), key=lambda cell: cells[cell])
        return abs(cells[best] - stated[0]) < _EXACT, f"{cells[best]:.3f}, {best.row}"

    return test


def _closest_to_overall(cells: Cells, stated: tuple[float, ...]) -> tuple[bool | None, str]:
    """Of all abilities, PR goes best with the average."""
    names = groups()["all 16"]
    found, held = [], []
    for average in OVERALL:
        overall = column(cells, names, "AVG", average)
        values = {
            name: correlate(column(cells, names, name, None), overall).value or 0.0
            for name in ("TXT", "CMP", "VIS", "CG", "FG", "LC", "S", "T", "PR")
        }
        best = max(values, key=lambda name: values[name])
        held.append(best == "PR")
        found.append(f"with {average}: {best} {values[best]:.2f}, PR {values['PR']:.2f}")
    return any(held), "; ".join(found) + f" (pearson, n={len(names)})"


def statements() -> list[Statement]:
    """What the text says of the tables in numbers, correlations apart."""

    def two(model: str, name: str) -> Cell:
        return Cell("1" if name == "AVG-D" else "2", model, name)

    def three(model: str, name: str) -> Cell:
        return Cell("3", model, name)

    seven, unite = "GVE-7B", "Unite-7B"
    both = [(three(f"GVE-{size}", name), three(f"GVE-i-{size}", name)) for size in ("3B", "7B") for name in _AVERAGES]
    uvrd = [Cell("7", line["dataset"], "samples") for line in published.rows("table7")]
    return [
        Statement(
            "4.2",
            "GVE-7B scores 0.573 over datasets and 0.600 over abilities",
            (0.573, 0.600),
            _quotes(two(seven, "AVG-D"), two(seven, "AVG-A")),
        ),
        Statement(
            "4.2",
            "GVE-7B is 6.5 % above Unite-7B over datasets and 7.3 % over abilities",
            (6.5, 7.3),
            _gains(*((two(seven, name), two(unite, name)) for name in _AVERAGES)),
        ),
        Statement(
            "4.2",
            "GVE-7B and Unite-7B: TXT 0.657 and 0.609, CMP 0.312 and 0.254, LC 0.814 and 0.746, S 0.821 and 0.779, "
            "T 0.469 and 0.412",
            (0.657, 0.609, 0.312, 0.254, 0.814, 0.746, 0.821, 0.779, 0.469, 0.412),
            _quotes(*(two(model, name) for name in ("TXT", "CMP", "LC", "S", "T") for model in (seven, unite))),
        ),
        Statement(
            "4.2", "GVE-7B has CG 0.587 and FG 0.570", (0.587, 0.570), _quotes(two(seven, "CG"), two(seven, "FG"))
        ),
        Statement(
            "4.2",
            "GVE-7B is above Unite-7B in TXT, CMP, CG, FG, LC, S and T",
            (),
            _exceeds("2", seven, ("TXT", "CMP", "CG", "FG", "LC", "S", "T"), unite),
        ),
        Statement(
            "4.2",
            "GVE-7B leads, of all models, in TXT, CMP, CG, FG, LC, S and T",
            (),
            _exceeds("2", seven, ("TXT", "CMP", "CG", "FG", "LC", "S", "T")),
        ),
        Statement("4.2", "Unite-7B is above GVE-7B in VIS and PR", (), _exceeds("2", unite, ("VIS", "PR"), seven)),
        Statement(
            "4.2",
            "GVE-3B scores 0.571, Unite-7B 0.559",
            (0.571, 0.559),
            _quotes(two("GVE-3B", "AVG-A"), two(unite, "AVG-A")),
        ),
        Statement(
            "4.2",
            "UVRD raises CMP of the 3B model by 27 %",
            (27,),
            _gains((three("GVE-s-3B", "CMP"), three("GVE-i-3B", "CMP"))),
        ),
        Statement(
            "4.2",
            "the pyramid raises the 7B model from 0.594 to 0.600, its TXT from 0.648 to 0.657",
            (0.594, 0.600, 0.648, 0.657),
            _quotes(*(three(f"GVE-{kind}7B", name) for name in ("AVG-A", "TXT") for kind in ("s-", ""))),
        ),
        Statement(
            "4.2", "UVRD and the pyramid raise the averages by 1.8 % to 3.1 %", (1.8, 3.1), _least_and_most(both)
        ),
        Statement("4.3", "of all abilities PR goes best with overall performance", (), _closest_to_overall),
        Statement(
            "4.3",
            "VIS of CLIP4Clip is 0.714, of Unite-7B 0.702",
            (0.714, 0.702),
            _quotes(two("CLIP4Clip", "VIS"), two(unite, "VIS")),
        ),
        Statement("4.3", "CLIP4Clip is above Unite-7B in VIS", (), _exceeds("2", "CLIP4Clip", ("VIS",), unite)),
        Statement("1, 3.2", "UVRD has 1.55 million pairs", (1.55e6,), _totals(uvrd, 5_000)),
        Statement(
            "A.4", "the 3B model has 12.55 million instances", (12.55e6,), _totals([Cell("8", "total", "3b")], 5_000)
        ),
        Statement(
            "A.4", "the 7B model has 13.73 million instances", (13.73e6,), _totals([Cell("8", "total", "7b")], 5_000)
        ),
        Statement(
            "A.12",
            "with 8 frames the two GVE are 0.029 apart in AVG-D",
            (0.029,),
            _difference(two(seven, "AVG-D"), two("GVE-3B", "AVG-D")),
        ),
        Statement(
            "A.13",
            "LanguageBind has the highest mean accuracy, 0.553",
            (0.553,),
            _quotes(Cell("11", "LanguageBind", "AVG")),
        ),
        Statement(
            "A.13",
            "GVE-7B and InternVideo2-6B have a mean accuracy of 0.526",
            (0.526, 0.526),
            _quotes(Cell("11", seven, "AVG"), Cell("11", "InternVideo2-6B", "AVG")),
        ),
        Statement("A.13", "the best on Breakfast is 0.453", (0.453,), _best("11", "Breakfast")),
        Statement("A.13", "the best on SSV2 is 0.569", (0.569,), _best("11", "SSV2")),
    ]


_AVERAGES = ("AVG-D", "AVG-A")
