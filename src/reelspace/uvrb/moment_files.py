"""Files of moment retrieval: QVHighlights, Charades-STA, ActivityNet Captions.

    qvhighlights  JSON lines: {"qid", "query", "vid", "duration", "relevant_windows": [[start, end], …]}; predictions:
                  {"qid", "pred_relevant_windows": [[start, end, score], …]}
    charades      text lines: VIDEO START END##what happens
    activitynet   one JSON object: {VIDEO: {"duration", "timestamps": [[start, end], …], "sentences": […]}}

Predictions for the other two are in QVHighlights' form as well; queries there have no ids of their own and are named
VIDEO#k, k counting from 0 within the video in the order of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reelspace.errors import ReelspaceError
from reelspace.uvrb.moments import Asked, Predicted


class Loaded(NamedTuple):
    """The queries of a file, and what was left out: which line or video, and why.

    ActivityNet Captions and Charades-STA hold a few spans that end before they begin, or begin after the video's end;
    nothing can be right there.
    """

    asked: list[Asked]
    skipped: list[str]


def load(path: str | os.PathLike[str], form: str | None = None) -> Loaded:
    """The queries of a file.

    Args:
        path: the file.
        form: `qvhighlights`, `charades` or `activitynet`; left out, it is told by what the file looks like.

    Raises:
        ReelspaceError: it is none of them, or damaged.
    """
    text = _text(Path(path))
    form = form or _guess(text)
    if form not in FORMS:
        raise ReelspaceError(f"{path}: is in none of the forms {', '.join(FORMS)}; name one, or see docs/moments.md.")
    try:
        loaded = FORMS[form](text)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ReelspaceError(f"{path}: is not in the form of {form} ({type(error).__name__}: {error}).") from None
    if not loaded.asked:
        raise ReelspaceError(f"{path}: holds no query with a span that can be right.")
    return loaded


def predictions(path: str | os.PathLike[str]) -> dict[str, list[Predicted]]:
    """Query id → predicted spans, in the order of the file.

    Raises:
        ReelspaceError: a line is not in QVHighlights' form of a submission, or a query has two.
    """
    found: dict[str, list[Predicted]] = {}
    for number, line in _lines(_text(Path(path))):
        try:
            row = json.loads(line)
            qid, spans = str(row["qid"]), [_predicted(span) for span in row["pred_relevant_windows"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ReelspaceError(
                f"{path}, line {number}: is no prediction ({type(error).__name__}: {error})."
            ) from None
        if qid in found:
            raise ReelspaceError(f"{path}, line {number}: query {qid} has predictions already.")
        found[qid] = spans
    return found


def write(path: str | os.PathLike[str], asked: Iterable[Asked], found: Mapping[str, Sequence[Predicted]]) -> None:
    """Writes predictions in QVHighlights' form of a submission; seconds to the hundredth."""
    lines = [
        json.dumps(
            {
                "qid": int(query.qid) if query.qid.isdecimal() else query.qid,
                "query": query.text,
                "vid": query.video,
                "pred_relevant_windows": [
                    [round(one.start, 2), round(one.end, 2), round(one.score, 6)] for one in found[query.qid]
                ],
            },
            ensure_ascii=False,
        )
        for query in asked
        if query.qid in found
    ]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _predicted(span: list[float]) -> Predicted:
    start, end, *score = map(float, span)
    return Predicted(start, end, score[0] if score else 0.0)


def _text(path: Path) -> str:
    return path.read_text("utf-8-sig")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, line


def _guess(text: str) -> str | None:
    first = next(_lines(text), (0, ""))[1].strip()
    if "##" in first and not first.startswith("{"):
        return "charades"
    try:
        row = json.loads(first)
    except ValueError:
        row = None
    if isinstance(row, dict) and "qid" in row:
        return "qvhighlights"
    return "activitynet" if first.startswith("{") else None


def _qvhighlights(text: str) -> Loaded:
    queries = _Queries()
    for number, line in _lines(text):
        row = json.loads(line)
        spans = [tuple(map(float, span)) for span in row["relevant_windows"]]
        queries.add(str(row["qid"]), row["query"], row["vid"], spans, row.get("duration"), f"line {number}")
    return queries.loaded


def _charades(text: str) -> Loaded:
    queries = _Queries()
    for number, line in _lines(text):
        place, hashes, said = line.partition("##")
        video, start, end = place.split()
        if not hashes:
            raise ValueError(f"line {number} has no ##")
        spans = [(float(start), float(end))]
        queries.add(queries.name(video), said.strip(), video, spans, None, f"line {number}")
    return queries.loaded


def _activitynet(text: str) -> Loaded:
    queries = _Queries()
    for video, row in json.loads(text).items():
        for span, said in zip(row["timestamps"], row["sentences"], strict=True):
            name = queries.name(video)
            queries.add(name, said.strip(), video, [tuple(map(float, span))], float(row["duration"]), name)
    return queries.loaded


class _Queries:
    """Collects queries, and tells which cannot be right."""

    def __init__(self) -> None:
        self.loaded = Loaded([], [])
        self._count: dict[str, int] = {}
        self._names: set[str] = set()

    def name(self, video: str) -> str:
        number = self._count.get(video, 0)
        self._count[video] = number + 1
        return f"{video}#{number}"

    def add(self, qid: str, said: str, video: str, spans: list[Any], duration: float | None, where: str) -> None:
        if qid in self._names:
            raise ValueError(f"query {qid} is there twice")
        self._names.add(qid)
        good = []
        for start, end in spans:
            if not 0 <= start < end or (duration is not None and start >= duration):
                of = "" if duration is None else f" of {duration:g} s"
                self.loaded.skipped.append(f"{where}: {start:g} to {end:g} s{of} is no span")
            else:
                good.append((start, end))
        if good:
            self.loaded.asked.append(Asked(qid, said, video, tuple(good), duration))


FORMS: dict[str, Callable[[str], Loaded]] = {
    "qvhighlights": _qvhighlights,
    "charades": _charades,
    "activitynet": _activitynet,
}
"""Name → reader."""
