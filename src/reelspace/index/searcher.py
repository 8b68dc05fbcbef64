"""One question to one space: score, find moments, leave out what is gone, page."""

from __future__ import annotations

import os
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.answers import Hit, SearchReport
from reelspace.index.ann import AnnStore
from reelspace.index.base import Ids, Store, Vectors
from reelspace.index.catalogue import Catalogue, FileRow, SpaceRow
from reelspace.index.globs import matcher
from reelspace.index.query import Asked, Question
from reelspace.moments import ALIKE, Moment, Scored, moments, rank, within
from reelspace.rank.calibration import Calibration
from reelspace.rank.exclude import beyond, exclude

Range = tuple[float | None, float | None]

FEWEST = 96  # windows fetched at first; eight a moment leave enough when near ones have merged
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
        self._kept: dict[tuple[int, Filters], dict[int, set[str]]] = {}

    def of(self, filters: Filters) -> dict[int, set[str]]:
        """What passes now."""
        key = self._catalogue.data_version, filters
        found = self._kept.get(key)
        if found is None:
            found = self._look(filters)
            latest = [one for one in list(self._kept.items()) if one[0][0] == key[0]][-3:]
            self._kept = {**dict(latest), key: found}
        return found

    def _look(self, filters: Filters) -> dict[int, set[str]]:
        inside = matcher(filters.within) if filters.within else lambda path: True
        allowed: dict[int, set[str]] = {}
        for path, video, duration, date in self._catalogue.dated_files():
            if _within(duration, filters.duration) and _within(date, filters.dated) and inside(path):
                allowed.setdefault(video, set()).add(path)
        return allowed


class _Answer(NamedTuple):
    moment: Moment
    vector: int
    files: list[str]

    def repeats(self, other: _Answer) -> bool:
        """Whether they are one finding, although they may have grown from different windows."""
        ours, theirs = self.moment, other.moment
        return ours.video == theirs.video and (within(ours.best, theirs) or within(theirs.best, ours))


class _Chosen(NamedTuple):
    """Which moments may be given."""

    per_video: int | None
    allowed: dict[int, set[str]] | None  # contents → the files by which they pass the filters
    among: Ids | None  # the vectors of these contents


class Searcher:
    """Answers one question from one state of a space."""

    def __init__(
        self,
        catalogue: Catalogue,
        selections: Selections,
        space: SpaceRow,
        store: AnnStore,
        asked: Asked,
        calibration: Calibration | None,
    ) -> None:
        self._catalogue, self._selections, self._space = catalogue, selections, space
        self._store, self._asked, self._calibration = store, asked, calibration
        sample = store.sample(SAMPLE)
        unwanted = [beyond(asked.vector, vector) for vector in asked.without]
        self._unwanted = [(vector, float((sample @ vector).mean()) if len(sample) else 0.0) for vector in unwanted]
        self._spread = float(self._scores(sample).std()) if len(sample) else 0.0

    def search(self, question: Question, k: int, page: int, per_video: int | None, filters: Filters) -> SearchReport:
        """The report of one page."""
        answers = self._answers(k * page, per_video, filters)
        first = k * (page - 1)
        return SearchReport(
            query=question.described,
            model=self._space.model,
            match=self._match(answers),
            page=page,
            hits=[self._hit(answer, place) for place, answer in enumerate(answers[first:], start=first + 1)],
        )

    def _match(self, answers: list[_Answer]) -> bool | None:
        """Whether the best answer fits; `None` where the model has no calibration for such a query."""
        if not answers:
            return False
        if self._calibration is None or self._asked.form is None:
            return None
        score = float(self._vector(answers[0]) @ self._asked.vector)
        return self._calibration.match(self._asked.form, self._asked.vector, score)

    def _vector(self, answer: _Answer) -> Vectors:
        return np.asarray(self._store.vectors(np.array([answer.vector], np.int64))[0])

    def _scores(self, vectors: Vectors) -> NDArray[np.float32]:
        """Likeness to what is asked, less what exclusion takes off. Equal rows score equally wherever they lie."""
        rows = vectors.astype(np.float64)
        scores = (rows @ self._asked.vector.astype(np.float64)).astype(np.float32)
        for unwanted, usual in self._unwanted:
            scores = exclude(scores, (rows @ unwanted.astype(np.float64)).astype(np.float32), usual)
        return scores

    def _answers(self, wanted: int, per_video: int | None, filters: Filters) -> list[_Answer]:
        """The best `wanted` moments.

        Beyond what an approximate index answers, exact search goes on with what that has not given: however far
        somebody pages, nothing comes twice and nothing is left out.
        """
        allowed = None if filters.none else self._selections.of(filters)
        among = None if allowed is None else self._store.of_videos(np.fromiter(allowed, np.int64))
        chosen = _Chosen(per_video, allowed, among)
        answers, enough = self._reach(self._store, wanted, chosen, self._store.depth)
        near, more = answers, wanted
        while not enough:
            further, _ = self._reach(self._store.exact, more, chosen)
            answers = _followed(near, further, per_video)[:wanted]
            enough = len(answers) == wanted or len(further) < more
            more += wanted - len(answers)
        return answers

    def _reach(
        self, store: Store, wanted: int, chosen: _Chosen, depth: int | None = None
    ) -> tuple[list[_Answer], bool]:
        """The best moments that a store gives, and whether these are all that are wanted or there.

        More and more windows, up to `depth`, are fetched until the moments cannot change any more.
        """
        reach = max(FEWEST, 8 * wanted)
        while True:
            reach = reach if depth is None else min(reach, depth)
            found = store.search(self._asked.vector[None], reach, chosen.among)[0]
            all_fetched = len(found.ids) < reach
            # What excludes only lowers scores, so no window that was not fetched reaches this one.
            floor = -np.inf if all_fetched else float(found.scores[-1])
            answers, settled = self._settled(found.ids, floor, wanted, chosen)
            if settled or all_fetched or reach == depth:
                return answers, settled or all_fetched
            reach *= 4

    def _settled(
        self,
        ids: Ids,
        floor: float,
        wanted: int,
        chosen: _Chosen,
    ) -> tuple[list[_Answer], bool]:
        """The answers among these windows, and whether there are enough that windows below `floor` cannot change."""
        windows = self._catalogue.windows(ids)
        scores = self._scores(self._store.vectors(np.array([window.id for window in windows], np.int64)))
        scored = {
            Scored(window.hash, window.start, window.end, float(score)): window
            for window, score in zip(windows, scores, strict=True)
        }
        files: dict[str, list[str]] = {}
        taken: Counter[str] = Counter()
        answers: list[_Answer] = []
        for moment in moments(rank(scored), self._spread):
            if moment.score - ALIKE * self._spread <= floor:
                return answers, False
            window = scored[moment.best]
            if moment.video not in files:
                files[moment.video] = self._present(window.video, chosen.allowed)
            if not files[moment.video] or taken[moment.video] == chosen.per_video:
                continue
            taken[moment.video] += 1
            answers.append(_Answer(moment, window.id, files[moment.video]))
            if len(answers) == wanted:
                return answers, True
        return answers, False

    def _present(self, video: int, allowed: dict[int, set[str]] | None) -> list[str]:
        """The files of a content that are there now, those that pass the filters first; none of them if none does."""
        there = [file.path for file in self._catalogue.files_of(video) if _is_there(file)]
        if allowed is None:
            return there
        passing = [path for path in there if path in allowed.get(video, ())]
        return passing and passing + [path for path in there if path not in passing]

    def _hit(self, answer: _Answer, place: int) -> Hit:
        vector = self._vector(answer)
        return Hit(
            rank=place,
            path=answer.files[0],
            start=answer.moment.start,
            end=answer.moment.end,
            score=answer.moment.score,
            video=answer.moment.video,
            matched={label: float(part @ vector) for label, part in self._asked.parts.items()},
            copies=answer.files[1:],
        )


def _followed(near: list[_Answer], further: list[_Answer], per_video: int | None) -> list[_Answer]:
    """Answers, and then those of another ranking that say something new."""
    answers = list(near)
    by_video: dict[str, list[_Answer]] = {}
    for answer in near:
        by_video.setdefault(answer.moment.video, []).append(answer)
    for answer in further:
        there = by_video.setdefault(answer.moment.video, [])
        if len(there) != per_video and not any(map(answer.repeats, there)):
            there.append(answer)
            answers.append(answer)
    return answers


def _within(value: float, bounds: Range) -> bool:
    least, most = bounds
    return (least is None or value >= least) and (most is None or value <= most)


def _is_there(file: FileRow) -> bool:
    """A file of another size is not the one that was indexed. (Another time alone is no sign: files are touched.)"""
    assert file.stamp is not None
    try:
        return os.stat(file.path).st_size == file.stamp.size
    except OSError:
        return False
