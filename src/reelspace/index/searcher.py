"""One question to one space: score, find moments, leave out what is gone, page."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reelspace.answers import Evidence, Hit, Rerank, SearchReport
from reelspace.index.ann import AnnStore
from reelspace.index.base import Vectors
from reelspace.index.catalogue import Catalogue, FileRow, WindowRow
from reelspace.index.exact import Scan
from reelspace.index.globs import matcher
from reelspace.index.query import Asked, Question
from reelspace.moments import ALIKE, Moment, Scored, lies_in, moments, rank
from reelspace.rank.calibration import Calibration
from reelspace.rank.exclude import beyond, exclude

Range = tuple[float | None, float | None]

FEWEST = 96  # windows fetched at first, or two a moment
FURTHER = 4  # times as many, when these were not enough
SAMPLE = 1024  # windows whose scores tell what is usual for a query; in a library of fewer, all


class Filters(NamedTuple):
    """Where to search; see `Library.search`."""

    within: tuple[str, ...] = ()
    duration: Range = (None, None)
    dated: Range = (None, None)

    @property
    def none(self) -> bool:
        """Whether they let everything pass."""
        return not self.within and self.duration == self.dated == (None, None)


class Selections:
    """Contents that pass filters → the files by which they do. The last few are kept until the catalogue changes."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kept: dict[tuple[int, Filters], Mapping[int, set[str]]] = {}

    def of(self, filters: Filters) -> Mapping[int, set[str]]:
        """What passes now."""
        key = self._catalogue.data_version, filters
        found = self._kept.get(key)
        if found is None:
            found = self._look(filters)
            latest = [one for one in list(self._kept.items()) if one[0][0] == key[0]][-3:]
            self._kept = {**dict(latest), key: found}
        return found

    def _look(self, filters: Filters) -> Mapping[int, set[str]]:
        inside = matcher(filters.within) if filters.within else lambda path: True
        passing: dict[int, set[str]] = {}
        for path, video, duration, date in self._catalogue.dated_files():
            if within(duration, filters.duration) and within(date, filters.dated) and inside(path):
                passing.setdefault(video, set()).add(path)
        return passing


class Near(NamedTuple):
    """The windows that score best, their vectors float32 `[n, d]`, and a score that no other window is above."""

    windows: list[WindowRow]
    vectors: Vectors
    floor: float


class Ranking(Protocol):
    """The windows that pass the filters, by inner product with one query."""

    def best(self, k: int, least: float = -np.inf) -> Near:
        """The k best, where those that score below `least` may be left out. The floor is −inf if no more are there."""


class Corpus(Protocol):
    """What one question is put to: the windows that pass its filters, and the files they are in."""

    def sample(self, most: int) -> Vectors:
        """Up to `most` vectors that stand for all there are, whatever the filters."""

    @property
    def depth(self) -> int | None:
        """Up to this k a ranking may miss some, and the answer to a smaller k begins that to a greater one; `None`:
        it never does.
        """

    def ranking(self, query: Vectors, exact: bool = False) -> Ranking:
        """What is nearest to `query` `[d]`: if `exact`, none is missed; else it is asked for no more than `depth`."""

    def files(self, window: WindowRow) -> list[str]:
        """The files a window's content is in now, those that pass the filters first; none of them if none does."""


class LocalCorpus:
    """A space of a catalogue on this machine."""

    def __init__(self, catalogue: Catalogue, store: AnnStore, passing: Mapping[int, set[str]] | None) -> None:
        """Searches `store`; `passing` is what `Selections` give, `None` where there are no filters."""
        self._catalogue, self._store, self._passing = catalogue, store, passing
        self._among = None if passing is None else store.of_videos(np.fromiter(passing, np.int64, len(passing)))

    @property
    def depth(self) -> int | None:
        return self._store.depth

    def sample(self, most: int) -> Vectors:
        return self._store.sample(most)

    def ranking(self, query: Vectors, exact: bool = False) -> Ranking:
        store = self._store.exact if exact else self._store
        return LocalRanking(self._catalogue, store.scan(query, self._among))

    def files(self, window: WindowRow) -> list[str]:
        there = [file.path for file in self._catalogue.files_of(window.video) if _is_there(file)]
        return there if self._passing is None else passing_first(there, self._passing.get(window.video, ()))


class LocalRanking:
    """One pass over the vectors; going further down only looks up the windows that follow."""

    def __init__(self, catalogue: Catalogue, scan: Scan) -> None:
        self._catalogue, self._scan = catalogue, scan
        self._rows, self._scores = scan.best_rows(FURTHER * FEWEST)
        self._windows: dict[int, WindowRow] = {}  # of the ids that were looked up, less those that are gone
        self._looked_up = 0

    def best(self, k: int, least: float = -np.inf) -> Near:
        if k >= len(self._rows):  # one more than asked for tells the floor
            self._rows, self._scores = self._scan.best_rows(FURTHER * k)
        k = min(k, int((self._scores >= least).sum()))
        rows = self._rows[:k]
        self._look_up(rows[self._looked_up :])
        ids = self._scan.rows.ids[rows].tolist()
        there = [place for place, id in enumerate(ids) if id in self._windows]
        floor = float(self._scores[k]) if k < len(self._scores) else -np.inf
        return Near([self._windows[ids[place]] for place in there], self._scan.rows.vectors[rows[there]], floor)

    def _look_up(self, rows: NDArray[np.intp]) -> None:
        held = self._scan.rows
        found = self._catalogue.windows(held.ids[rows], held.origins[rows, 1])
        self._windows |= {window.id: window for window in found}
        self._looked_up += len(rows)


class Answer(NamedTuple):
    """A moment that answers, and where to find it.

    Attributes:
        vector: of the window it grew from, float32 `[d]`.
        files: what it is in, best first.
        score: what it is ranked by.
        matched: what of the query it fits, and how well.
        judged: what a second look gave it.
    """

    moment: Moment
    vector: Vectors
    files: list[str]
    score: float
    matched: Mapping[str, float] = {}
    judged: float | None = None

    def repeats(self, other: Answer) -> bool:
        """Whether they are one finding, although they may have grown from different windows."""
        ours, theirs = self.moment, other.moment
        return ours.video == theirs.video and (lies_in(ours.best, theirs) or lies_in(theirs.best, ours))


class Found(NamedTuple):
    """A ranking's beginning, and whether its best fits (`None`: nobody can tell)."""

    answers: list[Answer]
    match: bool | None

    def report(self, question: Question, model: str, k: int, page: int, rerank: Rerank | None = None) -> SearchReport:
        """The report of one page."""
        first = k * (page - 1)
        shown = enumerate(self.answers[first : first + k], start=first + 1)
        return SearchReport(
            query=question.described,
            model=model,
            match=self.match,
            page=page,
            hits=[_hit(answer, place) for place, answer in shown],
            rerank=rerank,
        )


class Searcher:
    """Answers one question from one state of a corpus."""

    def __init__(self, corpus: Corpus, model: str, asked: Asked, calibration: Calibration | None) -> None:
        self._corpus, self._model, self._asked, self._calibration = corpus, model, asked, calibration
        sample = corpus.sample(SAMPLE)
        unwanted = [beyond(asked.vector, vector) for vector in asked.without]
        self._unwanted = [(vector, float((sample @ vector).mean()) if len(sample) else 0.0) for vector in unwanted]
        self._spread = float(self._scores(sample).std()) if len(sample) else 0.0
        self._files: dict[str, list[str]] = {}  # of contents that were come upon

    def search(self, question: Question, k: int, page: int, per_video: int | None) -> SearchReport:
        """The report of one page."""
        return self.found(k * page, per_video).report(question, self._model, k, page)

    def found(self, wanted: int, per_video: int | None) -> Found:
        """The best `wanted` moments."""
        answers = [
            answer._replace(matched={label: float(part @ answer.vector) for label, part in self._asked.parts.items()})
            for answer in self._answers(wanted, per_video)
        ]
        return Found(answers, self._match(answers))

    def _match(self, answers: list[Answer]) -> bool | None:
        """Whether the best answer fits; `None` where the model has no calibration for such a query."""
        return self.fits(answers[0]) if answers else False

    def fits(self, answer: Answer) -> bool | None:
        """Whether an answer fits; `None` where the model has no calibration for such a query."""
        if self._calibration is None or self._asked.form is None:
            return None
        score = float(answer.vector @ self._asked.vector)
        return self._calibration.match(self._asked.form, self._asked.vector, score)

    def margins(self, answers: Sequence[Answer]) -> NDArray[np.float64] | None:
        """How far above the least score of a match answers are (below: negative); `None` where nobody can tell."""
        if self._calibration is None or self._asked.form is None:
            return None
        scores = np.array([float(answer.vector @ self._asked.vector) for answer in answers])
        return self._calibration.margins(self._asked.form, self._asked.vector, scores)

    def _scores(self, vectors: Vectors) -> NDArray[np.float32]:
        """Likeness to what is asked, less what exclusion takes off. Equal rows score equally wherever they lie."""
        rows = vectors.astype(np.float64)
        scores = (rows @ self._asked.vector.astype(np.float64)).astype(np.float32)
        for unwanted, usual in self._unwanted:
            scores = exclude(scores, (rows @ unwanted.astype(np.float64)).astype(np.float32), usual)
        return scores

    def _answers(self, wanted: int, per_video: int | None) -> list[Answer]:
        """The best `wanted` moments.

        Beyond what an approximate index answers, exact search goes on with what that has not given: however far
        somebody pages, nothing comes twice and nothing is left out.
        """
        near, enough = self._reach(wanted, per_video, self._corpus.depth)
        answers, more = near, wanted
        while not enough:
            further, _ = self._reach(more, per_video, None)
            answers = _followed(near, further, per_video)[:wanted]
            enough = len(answers) == wanted or len(further) < more
            more += wanted - len(answers)
        return answers

    def _reach(self, wanted: int, per_video: int | None, depth: int | None) -> tuple[list[Answer], bool]:
        """The best `wanted` moments, and whether these are all that are wanted or there.

        More and more windows, up to `depth` or else exactly all, are fetched until the moments cannot change any more.
        """
        ranking = self._corpus.ranking(self._asked.vector, exact=depth is None)
        reach, least = max(FEWEST, 2 * wanted), -np.inf
        while True:
            reach = reach if depth is None else min(reach, depth)
            asked = least
            near = ranking.best(reach, asked)
            answers = self._among(near, wanted, per_video)
            # No window that was not fetched scores above the floor (what excludes only lowers scores), and none that
            # scores less than this changes them.
            least = answers[-1].score - ALIKE * self._spread if len(answers) == wanted else -np.inf
            if least > near.floor or near.floor == -np.inf:
                return answers, True
            if reach == depth and asked == -np.inf:  # else some were left out for their scores, and can still be had
                return [one for one in answers if one.score - ALIKE * self._spread > near.floor], False
            reach *= FURTHER

    def _among(self, near: Near, wanted: int, per_video: int | None) -> list[Answer]:
        """The answers among these windows."""
        scored = {
            Scored(window.hash, window.start, window.end, float(score)): place
            for place, (window, score) in enumerate(zip(near.windows, self._scores(near.vectors), strict=True))
        }
        taken: Counter[str] = Counter()
        answers: list[Answer] = []
        for moment in moments(rank(scored), self._spread):
            place = scored[moment.best]
            if moment.video not in self._files:
                self._files[moment.video] = self._corpus.files(near.windows[place])
            files = self._files[moment.video]
            if not files or taken[moment.video] == per_video:
                continue
            taken[moment.video] += 1
            answers.append(Answer(moment, near.vectors[place], files, moment.score))
            if len(answers) == wanted:
                break
        return answers


def seen(answer: Answer) -> Evidence:
    """What was seen of an answer."""
    moment = answer.moment
    return Evidence(by="seen", start=moment.start, end=moment.end, score=moment.score)


def _hit(answer: Answer, place: int) -> Hit:
    return Hit(
        rank=place,
        path=answer.files[0],
        start=answer.moment.start,
        end=answer.moment.end,
        score=answer.score,
        video=answer.moment.video,
        matched=dict(answer.matched),
        found=[seen(answer)],
        copies=answer.files[1:],
        judged=answer.judged,
    )


def _followed(near: list[Answer], further: list[Answer], per_video: int | None) -> list[Answer]:
    """Answers, and then those of another ranking that say something new."""
    answers = list(near)
    by_video: dict[str, list[Answer]] = {}
    for answer in near:
        by_video.setdefault(answer.moment.video, []).append(answer)
    for answer in further:
        there = by_video.setdefault(answer.moment.video, [])
        if len(there) != per_video and not any(map(answer.repeats, there)):
            there.append(answer)
            answers.append(answer)
    return answers


def within(value: float, bounds: Range) -> bool:
    """Whether a value lies in a range; `None` is no bound."""
    least, most = bounds
    return (least is None or value >= least) and (most is None or value <= most)


def passing_first(paths: Sequence[str], passing: Container[str]) -> list[str]:
    """`paths`, those that pass before the others; none if none passes."""
    first = [path for path in paths if path in passing]
    return first and first + [path for path in paths if path not in passing]


def _is_there(file: FileRow) -> bool:
    """A file of another size is not the one that was indexed. (Another time alone is no sign: files are touched.)"""
    assert file.stamp is not None
    try:
        return os.stat(file.path).st_size == file.stamp.size
    except OSError:
        return False
