"""One question to all signals of a library: each ranks within itself, and what they found is fused by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from reelspace.answers import Evidence, Hit, SearchReport
from reelspace.index.query import Question
from reelspace.index.searcher import Answer, Searcher, seen
from reelspace.index.wording import MOST, Told, Worded, Wording
from reelspace.moments import Scored
from reelspace.rank.fusion import Fused, Place, agreeing, fuse_spans

DAMPING = 20.0
UNFIT = 0.25
"""What a find that does not fit counts. First choices, both: `benchmarks/signals` has yet to measure them."""


class _Ranking(NamedTuple):
    """What one signal found, best first."""

    places: list[Place]
    finds: Sequence[Answer | Told]


class SignalledSearcher:
    """Answers one question from what is seen (unless left out) and the text of signals."""

    def __init__(self, model: str, searcher: Searcher | None, wordings: Mapping[str, Wording], asked: Worded) -> None:
        self._model, self._searcher, self._wordings, self._asked = model, searcher, wordings, asked

    def search(self, question: Question, k: int, page: int, per_video: int | None) -> SearchReport:
        """The report of one page."""
        rankings = self._rankings()
        fused = fuse_spans({by: one.places for by, one in rankings.items()}, DAMPING, UNFIT)
        if self._asked.phrases:  # quoted words must be there, whatever it looks like
            fused = [one for one in fused if one.places.keys() - {"seen"}]
        hits = self._limited([self._hit(one, rankings) for one in fused], per_video)
        wanted = k * page
        if len(hits) < wanted and self._searcher is not None and not self._asked.phrases:
            hits = self._further(hits, wanted, per_video)
        first = wanted - k
        return SearchReport(
            query=question.described,
            model=self._model,
            by=list(rankings),  # type: ignore[arg-type]
            match=self._match(rankings),
            page=page,
            hits=[hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(hits, start=1)][first:wanted],
        )

    def _rankings(self) -> dict[str, _Ranking]:
        found: dict[str, _Ranking] = {}
        if self._searcher is not None:
            answers = self._searcher.found(MOST, None).answers
            places = [Place(_span(answer), self._searcher.fits(answer) is not False) for answer in answers]
            found["seen"] = _Ranking(places, answers)
        for by, wording in self._wordings.items():
            told = wording.search(self._asked)
            places = [Place(one.span, self._fits(by, one)) for one in told]
            found[by] = _Ranking(places, told)
        return found

    def _fits(self, by: str, told: Told) -> bool:
        """Whether a passage answers: it has the quoted words, or words and meaning enough."""
        return bool(self._asked.phrases) or told.score >= self._wordings[by].least

    def _match(self, rankings: Mapping[str, _Ranking]) -> bool | None:
        """Whether anything fits, in any signal."""
        if any(place.fits for by, ranking in rankings.items() if by != "seen" for place in ranking.places):
            return True
        if self._asked.phrases or "seen" not in rankings:
            return False
        answers = rankings["seen"].finds
        assert self._searcher is not None
        return self._searcher.fits(answers[0]) if answers and isinstance(answers[0], Answer) else False

    def _hit(self, fused: Fused, rankings: Mapping[str, _Ranking]) -> Hit:
        finds = {by: rankings[by].finds[place] for by, place in fused.places.items()}
        fits = {by: rankings[by].places[place].fits for by, place in fused.places.items()}
        order = sorted(finds, key=lambda by: (not fits[by], fused.places[by], list(rankings).index(by)))
        # A name of one file is no name of its copies: that one comes first.
        named = (find for find in finds.values() if isinstance(find, Told) and find.passage.file is not None)
        files = next(named, next(iter(finds.values()))).files
        answer = finds.get("seen")
        return Hit(
            rank=1,
            path=files[0],
            start=fused.span.start,
            end=fused.span.end,
            score=fused.score,
            video=fused.span.video,
            matched=dict(answer.matched) if isinstance(answer, Answer) else {},
            found=[_evidence(by, finds[by]) for by in order],
            copies=files[1:],
        )

    def _further(self, hits: list[Hit], wanted: int, per_video: int | None) -> list[Hit]:
        """What is seen beyond the places that were fused, as far down as somebody pages."""
        assert self._searcher is not None
        spans: dict[str, list[tuple[float, float]]] = {}
        for hit in hits:
            spans.setdefault(hit.video, []).append((hit.start, hit.end))
        hits = list(hits)
        for place, answer in enumerate(self._searcher.found(wanted + MOST, None).answers):
            span = _span(answer)
            there = spans.get(span.video, [])
            if not there or not agreeing(np.array([(span.start, span.end)]), np.array(there)).any():
                hits.append(
                    Hit(
                        rank=1,
                        path=answer.files[0],
                        start=span.start,
                        end=span.end,
                        score=UNFIT / (DAMPING + place + 1),
                        video=span.video,
                        matched=dict(answer.matched),
                        found=[seen(answer)],
                        copies=answer.files[1:],
                    )
                )
        return self._limited(hits, per_video)

    @staticmethod
    def _limited(hits: list[Hit], per_video: int | None) -> list[Hit]:
        if per_video is None:
            return hits
        taken: Counter[str] = Counter()
        kept = []
        for hit in hits:
            taken[hit.video] += 1
            if taken[hit.video] <= per_video:
                kept.append(hit)
        return kept


def _span(answer: Answer) -> Scored:
    moment = answer.moment
    return Scored(moment.video, moment.start, moment.end, moment.score)


def _evidence(by: str, find: Answer | Told) -> Evidence:
    if isinstance(find, Answer):
        return seen(find)
    passage = find.passage
    return Evidence(
        by=by,  # type: ignore[arg-type]
        start=passage.start,
        end=passage.end,
        score=find.score,
        text=passage.text,
        source=passage.source,
        unsure=passage.mark == "unsure",
    )
