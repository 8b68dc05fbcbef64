"""A second look at the best of a ranking: a scorer that sees query and moment together puts them in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reelspace.answers import Rerank, RerankProgress
from reelspace.errors import EncodeError, ItemError, MediaError, ModelError
from reelspace.index.query import as_read, joint
from reelspace.index.searcher import Answer
from reelspace.item import Item, Span

if TYPE_CHECKING:
    from reelspace.media.reader import Reader
    from reelspace.rank.base import PairScorer

AT_FIRST = 2  # pairs whose pace tells how long the rest will take
AT_ONCE = 16  # pairs that are decoded and in memory together


class SecondLook:
    """Scores the best `k` moments of a ranking anew.

    The scorer's scores are no cosines and are never mixed with them: what was judged comes first, by what was said of
    it (equals in the order they had), then what could not be judged, then the rest, both as they were.
    """

    def __init__(
        self,
        scorer: PairScorer,
        items: Sequence[Item],
        k: int,
        reader: Reader,
        progress: Callable[[RerankProgress], None] | None,
    ) -> None:
        """Makes one item of the query and reads its files.

        Raises:
            ItemError: `k` is more than the scorer's budget, or the scorer takes no such query.
            MediaError: the query cannot be read.
        """
        if not 1 <= k <= scorer.budget:
            raise ItemError(f"{scorer.name} looks at 1 to {scorer.budget} moments of a query, not at {k}.")
        query = joint(items)
        if query is None or query.modality not in scorer.modalities:
            asked = " and ".join(item.modality for item in items)
            raise ItemError(
                f"{scorer.name} judges queries of {', '.join(sorted(scorer.modalities))}, not of {asked}: "
                "search without a second look."
            )
        self._scorer, self._k, self._reader, self._progress = scorer, k, reader, progress
        self._query = as_read(query, scorer.sampling, reader)

    def __call__(self, answers: Sequence[Answer]) -> tuple[list[Answer], Rerank]:
        """The ranking in its new order, and what that cost."""
        best, rest = list(answers[: self._k]), list(answers[self._k :])
        begun = time.monotonic()
        self._tell(0, len(best), 0.0)
        scores: dict[int, float] = {}
        reasons: dict[int, str] = {}
        at = 0
        while at < len(best):
            size = AT_FIRST if at == 0 and len(best) > 2 * AT_FIRST else AT_ONCE
            self._score(best, range(at, min(at + size, len(best))), scores, reasons)
            at = min(at + size, len(best))
            self._tell(at, len(best), time.monotonic() - begun)
        order = sorted(range(len(best)), key=lambda row: (row not in scores, -scores.get(row, 0.0), row))
        cost = Rerank(
            model=self._scorer.name,
            k=self._k,
            pairs=len(best),
            seconds=time.monotonic() - begun,
            failed=[reasons[row] for row in sorted(reasons)],
        )
        return [best[row]._replace(judged=scores.get(row)) for row in order] + rest, cost

    def _score(
        self, answers: Sequence[Answer], rows: Sequence[int], scores: dict[int, float], reasons: dict[int, str]
    ) -> None:
        """Adds the scores of some rows, or why they have none."""
        read: dict[int, Item] = {}
        for row in rows:
            moment = answers[row].moment
            span = Span(Path(answers[row].files[0]), moment.start, moment.end)
            try:
                read[row] = Item(video=self._reader.sample(span, self._scorer.sampling))
            except MediaError as error:
                reasons[row] = str(error)
        positions = list(read)
        found = np.empty(0, dtype=np.float32)
        try:
            if positions:
                found = np.asarray(self._scorer.score(self._query, list(read.values())), dtype=np.float32)
        except EncodeError as error:
            found = np.asarray(error.vectors, dtype=np.float32).reshape(-1)
            reasons |= {
                positions[at]: f"{answers[positions[at]].files[0]}: {why}" for at, why in error.failures.items()
            }
            positions = [positions[position] for position in error.positions]
        if found.shape != (len(positions),) or not np.isfinite(found).all():
            raise ModelError(
                f"{self._scorer.name} gave {found.tolist()} for {len(positions)} pairs: it breaks its contract."
            )
        scores |= zip(positions, map(float, found), strict=True)

    def _tell(self, done: int, total: int, elapsed: float) -> None:
        if self._progress is not None:
            self._progress(RerankProgress(model=self._scorer.name, done=done, total=total, elapsed=elapsed))
