"""One question to all signals of a library: each ranks within itself, and what they found is fused by time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.answers import Evidence, Hit, SearchReport
from reelspace.index.query import Question
from reelspace.index.searcher import Answer, Searcher, seen
from reelspace.index.wording import MOST, Told, Worded, Wording
from reelspace.moments import Scored
from reelspace.rank.fusion import DAMPING, Fused, Place, agreeing, fuse_spans

COUNTS = {"seen": (2.2, 15.0), "said": (2.8, 34.3), "written": (3.5, 32.2), "named": (5.8, 49.8)}
"""What a find of a signal counts, by its margin m above the least score that fits: `log(1 + exp(a + b·m))`, the doubt
that it takes away if it is as sure as `1 / (1 + exp(−(a + b·m)))`. Scores of different signals are never compared:
these are chosen by how often such finds were right, so that the kind of question that loses most by what other signals
find loses least; see `benchmarks/signals`."""
HIGHEST = 30.0  # a + b·m is no more than that
UNKNOWN = 2.3  # what a find counts that is seen by a model that has no measure of it: as if it just fitted
QUOTED = 30.0  # what a find counts that has the quoted words
ENOUGH = 0.61
"""What the best finds of several signals must say together for anything to fit, where 1 is what they would say if each
just fitted; chosen likewise."""
SHOWN = 0.05  # of what the signal that counts most gives an answer: what gives less, and fits not, is not shown


class Ranking(NamedTuple):
    """What one signal found, best first."""

    places: list[Place]
    finds: Sequence[Answer | Told]


class SignalledSearcher:
    """Answers one question from what is seen (unless left out) and the text of signals."""

    def __init__(self, model: str, searcher: Searcher | None, wordings: Mapping[str, Wording], asked: Worded) -> None:
        self._model, self._searcher, self._wordings, self._asked = model, searcher, wordings, asked

    def search(self, question: Question, k: int, page: int, per_video: int | None) -> SearchReport:
        """The report of one page."""
        rankings = self.rankings()
        fused = fuse_spans({by: one.places for by, one in rankings.items()}, DAMPING)
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

    def rankings(self) -> dict[str, Ranking]:
        """What each signal found: name → its ranking."""
        found: dict[str, Ranking] = {}
        if self._searcher is not None:
            found["seen"] = self._ranking("seen", self._searcher.found(MOST, None).answers)
        for by, wording in self._wordings.items():
            found[by] = self._ranking(by, wording.search(self._asked))
        return found

    def _ranking(self, by: str, finds: Sequence[Answer | Told]) -> Ranking:
        margins = self.margins(by, finds)
        places = []
        for number, find in enumerate(finds):
            span = _span(find) if isinstance(find, Answer) else find.span
            if margins is not None:
                margin = float(margins[number])
                places.append(Place(span, margin >= 0, counts(by, margin)))
            elif isinstance(find, Answer):
                assert self._searcher is not None
                places.append(Place(span, self._searcher.fits(find) is not False, UNKNOWN))
            else:  # it has the quoted words: that is an answer, whatever it means
                places.append(Place(span, weight=QUOTED))
        return Ranking(places, finds)

    def margins(self, by: str, finds: Sequence[Answer | Told]) -> NDArray[np.float64] | None:
        """How far above the least score that fits finds of a signal are, float64 `[n]`; None where nobody can tell, or
        words were quoted.
        """
        if by == "seen":
            assert self._searcher is not None
            return self._searcher.margins([find for find in finds if isinstance(find, Answer)])
        if self._asked.phrases:
            return None
        least = self._wordings[by].least(self._asked)
        return np.array([find.score - least for find in finds if isinstance(find, Told)])

    def _match(self, rankings: Mapping[str, Ranking]) -> bool | None:
        """Whether anything fits: one decision over all signals. They must say `ENOUGH` together: one that is sure is
        enough, and so are several that are less. A signal alone fits where its best find does.
        """
        told = {by: ranking for by, ranking in rankings.items() if by != "seen"}
        if self._asked.phrases:
            return any(ranking.places for ranking in told.values())
        looked = rankings["seen"].finds if "seen" in rankings else []
        if looked and self.margins("seen", looked[:1]) is None:  # the model says no more than whether it fits
            best = looked[0]
            assert self._searcher is not None and isinstance(best, Answer)
            return evidence(told) >= _bar(told) or self._searcher.fits(best)
        return evidence(rankings) >= _bar(rankings)

    def _hit(self, fused: Fused, rankings: Mapping[str, Ranking]) -> Hit:
        finds = {by: rankings[by].finds[place] for by, place in fused.places.items()}
        places = {by: rankings[by].places[place] for by, place in fused.places.items()}
        worth = {by: place.weight / (DAMPING + fused.places[by] + 1) for by, place in places.items()}
        order = sorted(finds, key=lambda by: (-worth[by], list(rankings).index(by)))
        order = [by for by in order if places[by].fits or worth[by] >= SHOWN * worth[order[0]]]
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
        answers = self._searcher.found(wanted + MOST, None).answers
        for number, place in enumerate(self._ranking("seen", answers).places):
            answer, span = answers[number], place.span
            there = spans.get(span.video, [])
            if not there or not agreeing(np.array([(span.start, span.end)]), np.array(there)).any():
                hits.append(
                    Hit(
                        rank=1,
                        path=answer.files[0],
                        start=span.start,
                        end=span.end,
                        score=place.weight / (DAMPING + number + 1),
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


def counts(by: str, margin: float) -> float:
    """What a find of a signal counts that has this margin, from 0 upwards."""
    a, b = COUNTS[by]
    return math.log1p(math.exp(min(a + b * margin, HIGHEST)))


def evidence(rankings: Mapping[str, Ranking]) -> float:
    """How much the best finds of signals say together that something fits, where 1 is what they would say if each just
    fitted: the logarithm of the doubt that all of them leave, as if they were independent.
    """
    told = sum(ranking.places[0].weight for ranking in rankings.values() if ranking.places)
    usual = sum(counts(by, 0.0) for by in rankings)
    return told / usual if rankings else 0.0


def _bar(rankings: Mapping[str, Ranking]) -> float:
    return ENOUGH if len(rankings) > 1 else 1.0


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
