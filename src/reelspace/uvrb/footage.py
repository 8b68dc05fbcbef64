"""A library measured on questions of one's own: which file answers each, and from when to when.

A file of questions is CSV:

    query,path,start,end
    a dog jumps,a.mp4,3,7
    a dog jumps,b.mp4,,
    a wedding,-,,
    a ship,,,

or JSON:

    [{"query": "a dog jumps", "answers": [{"path": "a.mp4", "start": 3, "end": 7}, {"path": "b.mp4"}]},
     {"query": "a wedding", "answers": []},
     {"query": "a ship"}]

`-` in place of a path (an empty list) says that nothing in the library answers: such questions measure the “no match”
decision. No path at all says that nobody has looked yet. A question may have several answers: rows with the same
question. `start` and `end` (seconds, or 1:02.5) may be left out where the whole file is meant. Further columns `image`
and `video` ask with a picture or a clip (FILE or FILE@START-END), alone or with the text. Paths are relative to the
file.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelspace.errors import EncodeError, ItemError, MediaError, ReelspaceError
from reelspace.item import Item, parse_seconds
from reelspace.uvrb.moments import Asked, Measured, Predicted, measure
from reelspace.uvrb.results import write_text
from reelspace.uvrb.statistics import mean_interval, middle, random, resampled, wilson

if TYPE_CHECKING:
    from reelspace.answers import Hit, SearchReport
    from reelspace.library import Library

DEPTH = 1000  # videos down to which a rank is looked for
_NOWHERE = "-"  # in place of a path: nothing answers
_APART = 1e5  # seconds between two videos where their spans are laid on one line


@dataclass(frozen=True)
class Answer:
    """A file that answers, from when to when in seconds; without times the whole of it."""

    path: str
    start: float | None = None
    end: float | None = None

    @property
    def span(self) -> tuple[float, float] | None:
        """From when to when, where that is known."""
        return None if self.start is None or self.end is None else (self.start, self.end)


@dataclass(frozen=True)
class Question:
    """What is asked, and what answers it.

    Attributes:
        answers: absolute paths with their times; empty: nothing does; `None`: nobody has looked yet.
    """

    text: str | None = None
    image: str | None = None
    video: str | None = None
    answers: tuple[Answer, ...] | None = None

    @property
    def parts(self) -> tuple[str | None, str | None, str | None]:
        """What makes it this question."""
        return self.text, self.image, self.video

    @property
    def said(self) -> str:
        """For a person."""
        return " + ".join(part for part in self.parts if part)

    def item(self, folder: Path) -> Item:
        """What is put to the library; pictures and clips lie relative to `folder`."""
        image = None if self.image is None else Path(_beside(self.image, folder))
        video = None if self.video is None else _beside(self.video, folder)
        return Item(text=self.text, image=image, video=video)


# Files


def read(path: str | os.PathLike[str]) -> list[Question]:
    """The questions of a file, in its order.

    Raises:
        ReelspaceError: it is neither such a CSV nor such a JSON file; the line is named.
    """
    place = Path(path)
    text = place.read_text("utf-8-sig")
    rows = _json_rows(place, text) if _is_json(place, text) else _csv_rows(place, text)
    found: dict[tuple[str | None, ...], Question] = {}
    for where, row in rows:
        question = _question(place, where, row)
        before = found.get(question.parts)
        if before is not None:
            question = replace(before, answers=_joined(place, where, before.answers, question.answers))
        found[question.parts] = question
    if not found:
        raise ReelspaceError(f"{place}: there are no questions in it.")
    return list(found.values())


def write(path: str | os.PathLike[str], questions: Iterable[Question]) -> None:
    """Writes questions, as JSON where the name ends so, else as CSV; paths beside the file are relative to it."""
    place = Path(path)
    if place.suffix == ".json":
        rows = [_as_json(question, place.parent) for question in questions]
        write_text(place, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        return
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["query", "image", "video", "path", "start", "end"])
    for one in questions:
        parts = [part or "" for part in one.parts]
        answers = [Answer("")] if one.answers is None else list(one.answers) or [Answer(_NOWHERE)]
        for answer in answers:
            times = ["" if time is None else f"{time:g}" for time in (answer.start, answer.end)]
            writer.writerow([*parts, _shown(answer.path, place.parent), *times])
    write_text(place, out.getvalue())


def _is_json(place: Path, text: str) -> bool:
    return place.suffix == ".json" or (place.suffix != ".csv" and text.lstrip().startswith("["))


def _csv_rows(place: Path, text: str) -> Iterable[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text))
    names = {name.strip() for name in reader.fieldnames or ()}
    if not names & {"query", "image", "video"} or names - _COLUMNS:
        raise ReelspaceError(
            f"{place}: its first line must name columns: query (or image, or video), and of path, start and end those "
            "that there are."
        )
    for row in reader:
        if None in row:
            raise ReelspaceError(
                f"{place}, line {reader.line_num}: more fields than columns; put quotes around commas."
            )
        yield f"line {reader.line_num}", {str(key).strip(): (value or "").strip() for key, value in row.items()}


_COLUMNS = {"query", "image", "video", "path", "start", "end"}


def _json_rows(place: Path, text: str) -> Iterable[tuple[str, dict[str, Any]]]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise ReelspaceError(f"{place}: is no JSON ({error}).") from None
    if not isinstance(rows, list):
        raise ReelspaceError(f"{place}: must be a list of questions.")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or row.keys() - (_COLUMNS | {"answers"}):
            known = ", ".join(sorted({*_COLUMNS, "answers"}))
            raise ReelspaceError(f"{place}, question {number}: has other fields than {known}.")
        if "answers" not in row:
            yield f"question {number}", row
        elif not row["answers"]:
            yield f"question {number}", {**row, "path": _NOWHERE}
        for answer in row.get("answers") or ():
            yield f"question {number}", {**row, **answer}


def _question(place: Path, where: str, row: dict[str, Any]) -> Question:
    text, image, video = (str(row.get(name) or "") or None for name in ("query", "image", "video"))
    if not (text or image or video):
        raise ReelspaceError(f"{place}, {where}: asks nothing.")
    path = str(row.get("path") or "")
    if not path and "path" in row and row["path"] is None:
        path = _NOWHERE
    try:
        start, end = (_seconds(row.get(name)) for name in ("start", "end"))
    except ItemError as error:
        raise ReelspaceError(f"{place}, {where}: {error}") from None
    if (start is None) != (end is None) or (start is not None and end is not None and not 0 <= start < end):
        raise ReelspaceError(f"{place}, {where}: start and end belong together, and the end is later.")
    if path in ("", _NOWHERE):
        return Question(text, image, video, () if path else None)
    return Question(text, image, video, (Answer(_beside(path, place.parent), start, end),))


def _seconds(value: Any) -> float | None:
    return None if value in (None, "") else parse_seconds(str(value))


def _joined(
    place: Path, where: str, before: tuple[Answer, ...] | None, now: tuple[Answer, ...] | None
) -> tuple[Answer, ...] | None:
    """The answers of two rows with one question."""
    if before is None or now is None:
        return before if now is None else now
    if bool(before) != bool(now):
        raise ReelspaceError(f"{place}, {where}: says that nothing answers, and another line that something does.")
    return tuple(dict.fromkeys((*before, *now)))


def _beside(path: str, folder: Path) -> str:
    return os.path.normpath(folder.absolute() / path)


def _shown(path: str, folder: Path) -> str:
    """Relative where it lies beneath the file's folder."""
    return path.removeprefix(f"{os.path.normpath(folder.absolute())}{os.sep}")


def _as_json(question: Question, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: part for name, part in zip(("query", "image", "video"), question.parts, strict=True) if part
    }
    if question.answers is not None:
        row["answers"] = [
            {"path": _shown(one.path, folder)} | ({} if one.span is None else {"start": one.start, "end": one.end})
            for one in question.answers
        ]
    return row


# Measuring


@dataclass(frozen=True)
class Outcome:
    """What became of one question.

    Attributes:
        rank: of the first video that answers, from 1; `None`: not among the first 1000, or nothing answers.
        match: what the library decided: whether anything fits; `None` without a calibration.
        failed: why it could not be asked, or measured.
    """

    question: Question
    rank: int | None = None
    match: bool | None = None
    failed: str | None = None


@dataclass(frozen=True)
class Bench:
    """A library's figures.

    Attributes:
        figures: name → mean, 95 % interval, how many questions.
        outcomes: of every question that somebody has looked at.
        unlabelled: questions that nobody has.
    """

    model: str
    videos: int
    figures: dict[str, Measured] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    unlabelled: int = 0

    @property
    def failures(self) -> list[Outcome]:
        """The questions that could not be measured."""
        return [one for one in self.outcomes if one.failed]


def bench(
    library: Library,
    questions: Sequence[Question],
    folder: Path,
    recall_at: Sequence[int] = (1, 5, 10),
    progress: Callable[[int], None] | None = None,
) -> Bench:
    """Puts every question to a library and measures its answers.

    Args:
        library: what is measured.
        questions: as `read` gives them.
        folder: what their pictures and clips are relative to.
        recall_at: the k of recall@k.
        progress: called with how many questions are done.

    Raises:
        LibraryError: nothing is indexed.
        ReelspaceError: nobody has looked at any question.
    """
    asked = [question for question in questions if question.answers is not None]
    if not asked:
        raise ReelspaceError("None of the questions has an answer yet; label them first: reelspace bench … --label")
    known, videos = set(library.files()), library.status().videos
    depth = max(1, min(DEPTH, videos))
    model, found = "", _Found()
    outcomes = []
    for number, question in enumerate(asked, start=1):
        missing = [one.path for one in question.answers or () if one.path not in known]
        if missing:
            outcomes.append(Outcome(question, failed=f"{missing[0]} is not indexed in this library"))
        else:
            try:
                ranked = library.search(item := question.item(folder), k=depth, per_video=1)
                spans = library.search(item, k=10) if any(one.span for one in question.answers or ()) else None
                inside = _inside(library, item, question) if spans else None
            except (EncodeError, ItemError, MediaError) as error:
                outcomes.append(Outcome(question, failed=str(error)))
            else:
                model = ranked.model
                outcomes.append(found.add(question, ranked, spans, inside, recall_at, depth))
        if progress is not None:
            progress(number)
    return Bench(model, videos, found.figures(), outcomes, len(questions) - len(asked))


def _inside(library: Library, item: Item, question: Question) -> SearchReport | None:
    """The best moments of the one video that answers; `None` where several do."""
    paths = {one.path for one in question.answers or ()}
    if len(paths) != 1:
        return None
    return library.search(item, k=10, within=literally(paths.pop()))


def literally(path: str) -> str:
    """A glob that matches this path alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


class _Found:
    """Collects what the figures are made of."""

    def __init__(self) -> None:
        self.recall: dict[int, list[float]] = {}
        self.ranks: list[float] = []
        self.rejected: list[bool] = []
        self.accepted: list[bool] = []
        self.spans: list[Asked] = []
        self.anywhere: dict[str, list[Predicted]] = {}
        self.within: dict[str, list[Predicted]] = {}

    def add(
        self,
        question: Question,
        ranked: SearchReport,
        spans: SearchReport | None,
        inside: SearchReport | None,
        recall_at: Sequence[int],
        depth: int,
    ) -> Outcome:
        right = {one.path for one in question.answers or ()}
        if not right:
            if ranked.match is not None:
                self.accepted.append(ranked.match)
            return Outcome(question, None, ranked.match)
        if ranked.match is not None:
            self.rejected.append(not ranked.match)
        places = [hit.rank for hit in ranked.hits if right & {hit.path, *hit.copies}]
        for k in recall_at:
            best = {path for hit in ranked.hits[:k] for path in (hit.path, *hit.copies)}
            self.recall.setdefault(k, []).append(len(right & best) / len(right))
        self.ranks.append(places[0] if places else depth + 1)
        if spans is not None:
            self._add_spans(question, spans, inside)
        return Outcome(question, places[0] if places else None, ranked.match)

    def _add_spans(self, question: Question, spans: SearchReport, inside: SearchReport | None) -> None:
        """Lays the videos on one line, far from each other, so that only spans of one video can overlap."""
        qid = str(len(self.spans))
        paths = dict.fromkeys(one.path for one in question.answers or ())
        offsets = {path: number * _APART for number, path in enumerate(paths)}
        truths = tuple(
            (offsets[one.path] + one.span[0], offsets[one.path] + one.span[1])
            for one in question.answers or ()
            if one.span is not None
        )
        self.spans.append(Asked(qid, question.said, "", truths))
        self.anywhere[qid] = [_laid(hit, offsets) for hit in spans.hits]
        if inside is not None:
            self.within[qid] = [_laid(hit, offsets) for hit in inside.hits]

    def figures(self) -> dict[str, Measured]:
        """Name → figure, of what there is."""
        found = {f"recall@{k}": _mean(values, f"recall@{k}") for k, values in self.recall.items()}
        if self.ranks:
            found["mean rank"] = _ranks(self.ranks)
            found["reciprocal rank"] = _mean([1 / rank for rank in self.ranks], "reciprocal rank")
        if self.rejected:
            found["missed although there"] = _share(self.rejected)
        if self.accepted:
            found["matched although absent"] = _share(self.accepted)
        if self.spans:
            whole = measure(self.spans, self.anywhere)
            found |= {f"moments {name}": figure for name, figure in whole.items()}
        inside = [query for query in self.spans if query.qid in self.within]
        if inside:
            found |= {f"moments in the right video {name}": f for name, f in measure(inside, self.within).items()}
        return found


def _laid(hit: Hit, offsets: dict[str, float]) -> Predicted:
    for path in (hit.path, *hit.copies):
        if path in offsets:
            return Predicted(offsets[path] + hit.start, offsets[path] + hit.end, hit.score)
    return Predicted(-2 * _APART + hit.start, -2 * _APART + hit.end, hit.score)  # another video: it overlaps nothing


def _mean(values: Sequence[float], name: str) -> Measured:
    return Measured(float(np.mean(values)), mean_interval(values, random("bench", name)), len(values))


def _ranks(values: Sequence[float]) -> Measured:
    """Of numbers that are no shares, however many of them are 1."""
    given = np.asarray(values, dtype=np.float64)
    return Measured(float(given.mean()), middle(resampled(given, random("bench", "mean rank"))), len(given))


def _share(values: Sequence[bool]) -> Measured:
    return Measured(float(np.mean(values)), wilson(sum(values), len(values)), len(values))


def data(result: Bench) -> dict[str, Any]:
    """All of it, for a program."""
    return {
        "model": result.model,
        "videos": result.videos,
        "figures": {
            name: {"value": one.value, "low": one.interval.low, "high": one.interval.high, "questions": one.n}
            for name, one in result.figures.items()
        },
        "questions": [
            {"query": one.question.said, "rank": one.rank, "match": one.match, "failed": one.failed}
            for one in result.outcomes
        ],
        "unlabelled": result.unlabelled,
    }
