"""What the printed tables of the paper imply, and where they say something else.

A printed value has been rounded, and so have those it follows from: it *follows* if some values that round to what is
printed give it. For means of scores with three digits that is a slack of 0.001 in all. Every value is derived from the
lowest that are printed — abilities from the scores of datasets, not from other abilities — so that one wrong cell
is found where it stands and does not spread.

    Table 1   AVG-D from the 16 scores; a share of n queries must be a multiple of 1/n
    Table 2   each column from Table 1
    Table 3   GVE-3B and GVE-7B from Table 1; the others' FG, TXT and averages from their own abilities
    Table 8   each part from Table 6 or 7; the total from the parts
    Table 11  AVG from the five accuracies

A row is a model (of Tables 1 to 3 together: they are the same models) or a line. What the text states of the tables,
correlations among it, is in `reelspace.uvrb.claims`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from reelspace.errors import ReelspaceError
from reelspace.uvrb import published
from reelspace.uvrb.abilities import COLUMNS, weights
from reelspace.uvrb.tasks import suite

Table = str  # "1", "2", "3", "6", "7", "8", "11"


class Cell(NamedTuple):
    """A printed value's place."""

    table: Table
    row: str
    column: str

    def __str__(self) -> str:
        return f"Table {self.table}, {self.row}, {self.column}"


Cells = Mapping[Cell, float]
Shares = Mapping[Cell, float]  # what a value is a weighted sum of


class Row(NamedTuple):
    """What one wrong cell makes wrong: `models` are Tables 1, 2 and 3, the others have a name of their own."""

    part: str
    name: str


@dataclass(frozen=True)
class Check:
    """A printed value that others imply.

    Attributes:
        row: whose it is.
        slack: what rounding, of it and of the others, can make of a difference.
        ways: sums that it may follow from; the first is what is reported.
        how: in words.
    """

    row: Row
    cell: Cell
    slack: float
    ways: Sequence[Shares]
    how: str

    def implied(self, cells: Cells) -> float:
        """What the first way gives."""
        return _sum(self.ways[0], cells)

    def follows(self, cells: Cells) -> bool:
        """Whether some way gives what is printed."""
        return any(abs(_sum(way, cells) - cells[self.cell]) <= self.slack for way in self.ways)


@dataclass(frozen=True)
class Grain:
    """A share of n queries: a multiple of 1/n. The other attributes are those of `Check`."""

    row: Row
    cell: Cell
    n: int
    slack: float
    how: str

    def implied(self, cells: Cells) -> float:
        """The nearest share that there is."""
        return round(cells[self.cell] * self.n) / self.n

    def follows(self, cells: Cells) -> bool:
        """Whether some share rounds to what is printed."""
        return abs(self.implied(cells) - cells[self.cell]) <= self.slack


class Finding(NamedTuple):
    """A printed value that does not follow.

    Attributes:
        implied: the value that does.
        how: how it was computed.
    """

    row: Row
    cell: Cell
    printed: float
    implied: float
    how: str


class Cure(NamedTuple):
    """A cell by which alone a row would be right: any value from `low` to `high` there makes all of it follow."""

    cell: Cell
    printed: float
    low: float
    high: float


def printed(folder: Path | None = None) -> dict[Cell, float]:
    """Every number of the tables that the audit looks at.

    Args:
        folder: where to read `table1.csv` and so on instead of the published ones; those not there are the published.

    Raises:
        ReelspaceError: a table lacks something, or has something that is no number.
    """
    cells: dict[Cell, float] = {}
    for table, key, columns in _LAYOUT:
        for line in _lines(f"table{table}", folder):
            for column in columns or [name for name in line if name not in key]:
                name = " ".join(line[part] for part in key)
                try:
                    cells[Cell(table, name, column.partition("_")[2] or column)] = float(line[column])
                except ValueError:
                    raise ReelspaceError(
                        f"{folder}/table{table}.csv: {name}, {column}: “{line[column]}” is no number."
                    ) from None
    return cells


_LAYOUT: tuple[tuple[Table, tuple[str, ...], tuple[str, ...]], ...] = (  # table, what names a line, columns (all)
    ("1", ("model",), ()),
    ("2", ("model",), ()),
    ("3", ("model",), ()),
    ("6", ("dataset", "task"), ("samples_3b", "samples_7b")),
    ("7", ("dataset",), ("samples",)),
    ("8", ("category",), ()),
    ("11", ("model",), ()),
)


def _lines(name: str, folder: Path | None) -> list[dict[str, str]]:
    """The lines of a table; one that is given must have the lines and columns of the published one."""
    ours = published.rows(name)
    if folder is None or not (folder / f"{name}.csv").is_file():
        return ours
    with (folder / f"{name}.csv").open(encoding="utf-8-sig", newline="") as file:
        theirs = list(csv.DictReader(file))
    keys = next(key for table, key, _ in _LAYOUT if name == f"table{table}")
    expected = [[line[key] for key in keys] for line in ours]
    if not theirs or set(theirs[0]) != set(ours[0]) or [[line[key] for key in keys] for line in theirs] != expected:
        raise ReelspaceError(f"{folder}/{name}.csv: its lines and columns must be those of the published {name}.csv.")
    return theirs


@cache
def checks() -> tuple[Check | Grain, ...]:
    """Everything that can be derived."""
    return (*_datasets(), *_abilities(), *_ablation(), *_mixture(), *_classification())


def audit(cells: Cells | None = None) -> list[Finding]:
    """The printed values that do not follow, in the order of the tables.

    Args:
        cells: the values; left out, those that are printed.
    """
    given = printed() if cells is None else cells
    return [
        Finding(check.row, check.cell, given[check.cell], check.implied(given), check.how)
        for check in checks()
        if not check.follows(given)
    ]


def cures(row: Row, cells: Cells | None = None) -> list[Cure]:
    """Cells of a row of which one alone, printed otherwise, would let all of the row follow."""
    given = printed() if cells is None else cells
    own = [check for check in checks() if check.row == row]
    places = dict.fromkeys(
        cell for check in own for cell in (check.cell, *(check.ways[0] if isinstance(check, Check) else ()))
    )
    found = []
    for cell in places:
        low, high = _range(cell, own, given)
        if low <= high and not low <= given[cell] <= high:
            found.append(Cure(cell, given[cell], low, high))
    return found


def _range(cell: Cell, own: Sequence[Check | Grain], cells: Cells) -> tuple[float, float]:
    """Between what the value of a cell must be for all checks to hold, the others staying as they are."""
    low, high = float("-inf"), float("inf")
    for check in own:
        if isinstance(check, Grain):  # says little, and nothing about where a value lies
            continue
        way = check.ways[0]
        slope = way.get(cell, 0.0) - (cell == check.cell)
        rest = _sum(way, cells) - cells[check.cell] - slope * cells[cell]
        if slope == 0:
            if abs(rest) > check.slack:
                return float("inf"), float("-inf")
            continue
        ends = sorted(((-check.slack - rest) / slope, (check.slack - rest) / slope))
        low, high = max(low, ends[0]), min(high, ends[1])
    return low, high


# The tables

_SIZES = ("3b", "7b")
_EXACT = 1e-9  # what floating point adds
_SCORE = 0.0005  # half a unit of the last digit of a score
_SLACK = 2 * _SCORE + _EXACT  # of a mean of scores, and of the scores


def _sum(shares: Shares, cells: Cells) -> float:
    return sum(share * cells[cell] for cell, share in shares.items())


def _datasets() -> Iterator[Check | Grain]:
    tasks = suite("uvrb")
    for model in published.scores():
        row = Row("models", model)
        shares = {Cell("1", model, task): share for task, share in weights("AVG-D").items()}
        yield Check(row, Cell("1", model, "AVG-D"), _SLACK, [shares], "mean of the 16 datasets of Table 1")
        for name, task in tasks.items():
            if task.depth == 1:  # a share of queries; recall@10 of several right answers is not
                how = f"the nearest k/{task.queries:,}: a share of {task.queries:,} queries"
                yield Grain(row, Cell("1", model, name), task.queries, _SCORE + _EXACT, how)


def _abilities() -> Iterator[Check]:
    for model in published.scores():
        for column in COLUMNS[1:]:
            yield _from_datasets("2", model, column)


def _from_datasets(table: Table, model: str, column: str) -> Check:
    shares = {Cell("1", model, task): share for task, share in weights(column).items()}
    return Check(Row("models", model), Cell(table, model, column), _SLACK, [shares], f"{_HOW[column]}, of Table 1")


def _ablation() -> Iterator[Check]:
    """The rows that Table 1 has follow from it; the others' sums from the abilities that are means of datasets."""
    leaves = ("CG", "S", "T", "PR", "LC", "CMP", "VIS")
    for line in published.rows("table3"):
        model = line["model"]
        if model in published.scores():
            for column in COLUMNS:
                yield _from_datasets("3", model, column)
            continue
        for column in ("AVG-D", "AVG-A", "TXT", "FG"):
            shares = {
                Cell("3", model, leaf): share
                for leaf in leaves
                if (share := sum(weights(column).get(task, 0.0) for task in weights(leaf)))
            }
            yield Check(Row("models", model), Cell("3", model, column), _SLACK, [shares], _OWN[column])


_HOW = {
    "AVG-D": "mean of the 16 datasets",
    "AVG-A": "mean of TXT, CMP, VIS, CG, FG, LC, these of the datasets",
    "TXT": "mean of CG, FG, LC, these of the datasets",
    "FG": "mean of S, T, PR, these of the datasets",
} | {name: f"mean of {', '.join(weights(name))}" for name in ("CMP", "VIS", "CG", "LC", "S", "T", "PR")}

_OWN = {
    "AVG-D": "(3 CG + 2 S + 2 T + 3 PR + 2 LC + 2 CMP + 2 VIS) / 16, of its own row: by how many datasets each has",
    "AVG-A": "mean of TXT, CMP, VIS, CG, FG, LC, of its own row, TXT and FG from their parts",
    "TXT": "mean of CG, FG, LC, of its own row, FG from S, T, PR",
    "FG": "mean of S, T, PR, of its own row",
}


def _mixture() -> Iterator[Check]:
    parts: dict[str, list[str]] = {}
    for line in published.rows("table6"):
        parts.setdefault(line["part"], []).append(f"{line['dataset']} {line['task']}")
    for size in _SIZES:
        sums: dict[str, Shares] = {
            part: {Cell("6", name, size): 1.0 for name in names} for part, names in parts.items()
        }
        sums["UVRD"] = {Cell("7", line["dataset"], "samples"): 1.0 for line in published.rows("table7")}
        for part, shares in sums.items():
            how = f"sum of the {len(shares)} lines of Table {'7' if part == 'UVRD' else f'6 ({part})'}"
            yield Check(Row("Table 8", part), Cell("8", part, size), _counted(part, shares, size), [shares], how)
        # A part that does not follow is its own fault, not the total's: the total may be of either.
        ways = [
            {cell: share for one in choice for cell, share in one.items()}
            for choice in product(*([{Cell("8", part, size): 1.0}, shares] for part, shares in sums.items()))
        ]
        slack = 4 * 5_000 + 5_000 + 1.0
        yield Check(Row("Table 8", "total"), Cell("8", "total", size), slack, ways, "sum of the four parts")


def _counted(part: str, shares: Shares, size: str) -> float:
    """What rounding leaves open of a sum: printed as 69K, 1.6M in Table 6, 1.82M in Table 8."""
    cells = printed()
    own = 5_000 if cells[Cell("8", part, size)] >= 1e6 else 500
    return own + sum(50_000 if cells[cell] >= 1e6 else 500 for cell in shares) + 1.0


def _classification() -> Iterator[Check]:
    for model, accuracies in published.classification().items():
        shares = {Cell("11", model, name): 1 / len(accuracies) for name in accuracies}
        cell = Cell("11", model, "AVG")
        yield Check(Row("Table 11", model), cell, _SLACK, [shares], "mean of the five accuracies")
