"""Models side by side: those that were run here, and those of the papers.

A model's row has a score a task and, where it was run here, one a query. Rows of one suite can stand together; those of
`worlds`, which is drawn anew, stand beside no published ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from reelspace.errors import ReelspaceError
from reelspace.uvrb import published
from reelspace.uvrb.abilities import abilities, columns, weights
from reelspace.uvrb.results import Results
from reelspace.uvrb.statistics import (
    Correlation,
    Floats,
    Interval,
    binomial,
    correlate,
    holm,
    mean_interval,
    middle,
    p_value,
    random,
    resampled,
    sign_test,
)
from reelspace.uvrb.tasks import suite


@dataclass(frozen=True)
class Entry:
    """A model's row.

    Attributes:
        name: unique on its board.
        suite: whose tasks the scores are of.
        scores: task → score.
        counts: task → how many queries.
        results: where the scores of the queries are; `None` for a published model.
        architecture: `CLIP` or `MLLM`, where it is known.
        parameters: how many, where it is known.
        notes: what a reader of its numbers should know.
    """

    name: str
    suite: str
    scores: Mapping[str, float]
    counts: Mapping[str, int]
    results: Results | None = None
    architecture: str | None = None
    parameters: float | None = None
    notes: tuple[str, ...] = ()
    _kept: dict[str, dict[str, float]] = field(default_factory=dict, compare=False, repr=False)
    _drawn: dict[str, Floats] = field(default_factory=dict, compare=False, repr=False)

    @property
    def published(self) -> bool:
        """Whether it is from a paper: then only means are known."""
        return self.results is None

    @cached_property
    def columns(self) -> dict[str, float | None]:
        """Averages and abilities; `None` where a task of it is missing."""
        return abilities(self.scores, self.suite)

    def value(self, column: str) -> float | None:
        """The score of a task, an ability or an average."""
        return self.scores.get(column) if column in suite(self.suite) else self.columns.get(column)

    def answers(self, task: str) -> dict[str, float]:
        """Query → score; of a model that was run here."""
        assert self.results is not None
        if task not in self._kept:
            self._kept[task] = {query.qid: query.score for query in self.results.queries(task)}
        return self._kept[task]

    def drawn(self, task: str) -> Floats:
        """Scores of a task with its queries drawn again."""
        if task not in self._drawn:
            generator = random(self.name, task)
            if self.published:
                self._drawn[task] = binomial(self.scores[task], self.counts[task], generator)
            else:
                self._drawn[task] = resampled(list(self.answers(task).values()), generator)
        return self._drawn[task]

    def interval(self, column: str) -> Interval | None:
        """How sure a score is; `None` where there is none, or the number of its queries is not known."""
        if column in suite(self.suite):
            if column not in self.scores or not self.counts.get(column):
                return None
            if self.published:
                return middle(self.drawn(column))
            return mean_interval(list(self.answers(column).values()), random(self.name, column))
        shares = weights(column, self.suite)
        if self.value(column) is None or not all(self.counts.get(task) for task in shares):
            return None
        return middle(np.sum([share * self.drawn(task) for task, share in shares.items()], axis=0))


def of_results(results: Results) -> Entry:
    """The row of a run."""
    manifest, model = results.manifest, results.manifest["model"]
    notes = []
    if manifest.get("limit"):
        notes.append(f"only the first {manifest['limit']:,} queries of each task")
    if failures := sum(int(task.get("failures") or 0) for task in manifest["tasks"].values()):
        notes.append(f"{failures:,} items could not be embedded and count as wrong")
    return Entry(
        name=results.model,
        suite=results.suite,
        scores=results.scores,
        counts={name: int(task["queries"]) for name, task in manifest["tasks"].items()},
        results=results,
        architecture=model.get("architecture"),
        parameters=model.get("parameters"),
        notes=tuple(notes),
    )


def of_papers(suite_name: str) -> list[Entry]:
    """The published rows of a suite; `worlds` has none."""
    table = {
        "uvrb": published.scores,
        "classification": published.classification,
        "text-video": published.text_video,
    }.get(suite_name)
    if table is None:
        return []
    counts = {name: task.queries for name, task in suite(suite_name).items()}
    known = published.models()
    return [
        Entry(
            name=name,
            suite=suite_name,
            scores=scores,
            counts=counts,
            architecture=known[name].architecture if name in known else None,
            parameters=known[name].parameters if name in known else None,
        )
        for name, scores in table().items()
    ]


def board(runs: Sequence[Results], with_papers: bool = True) -> list[Entry]:
    """Rows of one suite: the published ones first, then the runs; equal names are told apart.

    Raises:
        ReelspaceError: the runs are of different suites, or asked of a task different things.
    """
    suites = dict.fromkeys(run.suite for run in runs)
    if len(suites) > 1:
        raise ReelspaceError(
            f"Results of different suites do not compare: {', '.join(suites)}. Report them one by one."
        )
    suite_name = next(iter(suites), "uvrb")
    _same_data(runs)
    rows = of_papers(suite_name) if with_papers else []
    for run in runs:
        entry = of_results(run)
        names = {row.name for row in rows}
        if entry.name in names:
            entry = replace(entry, name=f"{entry.name} ({run.folder.name})")
        if entry.name in names:
            raise ReelspaceError(f"{run.folder}: its results are here already, as {entry.name}.")
        rows.append(entry)
    return rows


def _same_data(runs: Sequence[Results]) -> None:
    """Two runs of a task must have asked the same."""
    first: dict[str, tuple[str, Results]] = {}
    for run in runs:
        for name, task in run.manifest["tasks"].items():
            digest = str(task.get("data"))
            known, other = first.setdefault(name, (digest, run))
            if known != digest:
                raise ReelspaceError(
                    f"{run.folder} and {other.folder} asked different things in {name} (another size, limit or version "
                    "of the data): run one of them again as the other."
                )


# Two models


@dataclass(frozen=True)
class Difference:
    """By how much one model is above another in a task, an ability or an average.

    Attributes:
        column: which.
        gap: the first's score less the second's.
        interval: of the gap.
        p: two-sided, by the bootstrap.
        exact: p of the exact sign test over the queries that only one answers right; `None` for abilities and where
            the answers are not known.
        adjusted: p when all tasks (or all abilities) are looked at together, by Holm's method.
        n: queries.
        paired: whether both were asked the same queries, one by one.
    """

    column: str
    gap: float
    interval: Interval
    p: float
    exact: float | None
    adjusted: float
    n: int
    paired: bool

    @property
    def significant(self) -> bool:
        """Whether the difference is more than chance, all of its kind looked at together."""
        return self.adjusted < 0.05


def comparable(first: Entry, second: Entry) -> list[str]:
    """The tasks that both have, and of which it is known how many queries they have."""
    assert first.suite == second.suite
    return [
        name
        for name in suite(first.suite)
        if name in first.scores and name in second.scores and first.counts.get(name) and second.counts.get(name)
    ]


def compare(first: Entry, second: Entry) -> list[Difference]:
    """The differences in every task, ability and average that both have; tasks come last.

    Raises:
        ReelspaceError: the models were not asked the same queries, or have no task in common.
    """
    tasks = comparable(first, second)
    if not tasks:
        raise ReelspaceError(f"{first.name} and {second.name} have no task in common whose number of queries is known.")
    gaps = {task: _gaps(first, second, task) for task in tasks}
    summed = []
    for column in columns(first.suite):
        shares = weights(column, first.suite)
        if all(task in gaps for task in shares):
            drawn = np.sum([share * gaps[task].drawn for task, share in shares.items()], axis=0)
            gap = sum(share * gaps[task].mean for task, share in shares.items())
            n, paired = sum(gaps[task].n for task in shares), all(gaps[task].paired for task in shares)
            summed.append(Difference(column, gap, middle(drawn), p_value(drawn), None, 1.0, n, paired))
    single = [
        Difference(task, of.mean, middle(of.drawn), p_value(of.drawn), of.exact, 1.0, of.n, of.paired)
        for task, of in gaps.items()
    ]
    return [*_adjusted(summed), *_adjusted(single)]


def _adjusted(differences: Sequence[Difference]) -> list[Difference]:
    # The exact p where there is one: the bootstrap's is too small where few queries differ.
    values = holm([one.p if one.exact is None else max(one.p, one.exact) for one in differences])
    return [replace(one, adjusted=value) for one, value in zip(differences, values, strict=True)]


@dataclass(frozen=True)
class _Gaps:
    mean: float
    drawn: Floats
    exact: float | None
    n: int
    paired: bool


def _gaps(first: Entry, second: Entry, task: str) -> _Gaps:
    """The gap in one task, and the same with queries drawn again."""
    mean = first.scores[task] - second.scores[task]
    if first.published or second.published:
        n = min(first.counts[task], second.counts[task])
        return _Gaps(mean, first.drawn(task) - second.drawn(task), None, n, False)
    ours, theirs = first.answers(task), second.answers(task)
    if ours.keys() != theirs.keys():
        raise ReelspaceError(f"{first.name} and {second.name} were asked different queries of {task}; run one again.")
    each = np.array([score - theirs[qid] for qid, score in ours.items()])
    drawn = resampled(each, random(first.name, second.name, task))
    return _Gaps(mean, drawn, sign_test(each), len(each), True)


# Many models


def correlation(rows: Sequence[Entry], x: str, y: str, method: str = "pearson") -> Correlation:
    """How two columns go together over the rows that have both."""
    pairs = [(a, b) for row in rows if (a := row.value(x)) is not None and (b := row.value(y)) is not None]
    return correlate([a for a, _ in pairs], [b for _, b in pairs], method)


def correlations(rows: Sequence[Entry], wanted: Sequence[str], method: str = "pearson") -> list[list[Correlation]]:
    """The matrix of correlations between columns: tasks, abilities, averages."""
    return [[correlation(rows, x, y, method) for y in wanted] for x in wanted]
