"""What a report says: models side by side, the differences between two, and what goes with what.

The same `Report` becomes an HTML page (`html`), Markdown and LaTeX tables (`text`). Nothing in it hangs on when or
where it is made: the same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from reelspace.errors import ReelspaceError
from reelspace.uvrb.abilities import columns
from reelspace.uvrb.board import Difference, Entry, board, comparable, compare, correlations
from reelspace.uvrb.findings import Restated, findings
from reelspace.uvrb.results import Results
from reelspace.uvrb.statistics import Correlation
from reelspace.uvrb.tasks import suite

_SHOWN = 5  # models in the radar: more lines than that cannot be told apart


@dataclass(frozen=True)
class Report:
    """Models of one suite.

    Attributes:
        suite: its name.
        rows: every model, published ones first.
        pairs: models that are compared: the first less the second.
    """

    suite: str
    rows: tuple[Entry, ...]
    pairs: tuple[tuple[Entry, Entry], ...]

    @property
    def runs(self) -> tuple[Entry, ...]:
        """The models that were run here."""
        return tuple(row for row in self.rows if not row.published)

    @cached_property
    def shown(self) -> tuple[Entry, ...]:
        """The few models of the radar: the runs, what they are compared with, and the best published ones."""
        wanted = [*self.runs, *(other for _, other in self.pairs), *best_first(self.rows)]
        return tuple({row.name: row for row in wanted}.values())[:_SHOWN]

    @property
    def abilities(self) -> tuple[str, ...]:
        """The averages and abilities that some model has."""
        return tuple(name for name in columns(self.suite) if any(row.value(name) is not None for row in self.rows))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that some model has."""
        return tuple(name for name in suite(self.suite) if any(name in row.scores for row in self.rows))

    @cached_property
    def chance(self) -> dict[str, float]:
        """What a random ranking scores in a task, by what the runs say."""
        found: dict[str, float] = {}
        for row in self.runs:
            assert row.results is not None
            tasks = row.results.manifest["tasks"].items()
            found |= {name: float(task["chance"]) for name, task in tasks if task.get("chance") is not None}
        return found

    @cached_property
    def differences(self) -> list[tuple[str, str, list[Difference]]]:
        """The two models' names and their differences, of each pair."""
        return [(one.name, other.name, compare(one, other)) for one, other in self.pairs]

    @cached_property
    def findings(self) -> list[Restated]:
        """The paper's findings, of all models; none where the suite lacks the abilities or there are few models."""
        return findings(self.rows) if len(columns(self.suite)) > 1 and len(self.rows) >= 4 else []

    def matrix(self, wanted: Sequence[str], method: str) -> list[list[Correlation]]:
        """Correlations between columns over all models."""
        return correlations(self.rows, wanted, method)

    @property
    def correlated(self) -> bool:
        """Whether there are models enough for correlations."""
        return len(self.rows) >= 4


def build(runs: Sequence[Results], against: str | None = None, with_papers: bool = True) -> Report:
    """A report of runs, beside the published models of their suite.

    Args:
        runs: results of one suite; none: the published models of UVRB alone.
        against: the name of the model to compare with; left out, runs are compared with the best published one, and
            with the first of them.
        with_papers: whether to show the published models.

    Raises:
        ReelspaceError: there is nothing to report; the runs do not belong together; no model of that name is there.
    """
    rows = board(runs, with_papers)
    if not rows:
        raise ReelspaceError("There is nothing to report: give a folder of results.")
    names = {row.name: row for row in rows}
    if against is not None and against not in names:
        raise ReelspaceError(f"There is no model “{against}” to compare with; there are {', '.join(names)}.")
    return Report(rows[0].suite, tuple(rows), tuple(_pairs(rows, None if against is None else names[against])))


def _pairs(rows: Sequence[Entry], reference: Entry | None) -> Iterator[tuple[Entry, Entry]]:
    runs = [row for row in rows if not row.published]
    papers = [row for row in best_first(rows) if row.published]
    if reference is not None:
        yield from (
            (row, reference) for row in runs or papers[:1] if row is not reference and comparable(row, reference)
        )
        return
    if not runs:
        yield from ((one, other) for one, other in [papers[:2]] if comparable(one, other))
    for run in runs:
        yield from ((run, other) for other in [other for other in papers if comparable(run, other)][:1])
    yield from ((run, runs[0]) for run in runs[1:] if comparable(run, runs[0]))


def best_first(rows: Sequence[Entry]) -> list[Entry]:
    """By AVG-A, else AVG-D, else the mean of what there is; then by name."""

    def goodness(row: Entry) -> tuple[float, float, str]:
        whole = row.value("AVG-A") if row.value("AVG-A") is not None else row.value("AVG-D")
        mean = sum(row.scores.values()) / max(1, len(row.scores))
        return (-(whole if whole is not None else -1.0), -mean, row.name)

    return sorted(rows, key=goodness)


def marks(rows: Sequence[Entry], column: str) -> dict[str, str]:
    """Model → `best` or `second`, of a column as it is printed, with three digits: equal ones share a mark."""
    values = {row.name: round(value, 3) for row in rows if (value := row.value(column)) is not None}
    ranked = sorted(set(values.values()), reverse=True)
    names = dict(zip(ranked[:2], ("best", "second"), strict=False))
    return {name: names[value] for name, value in values.items() if value in names}
