"""What can be searched: the question is read and embedded here, and put to wherever the vectors are."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reelspace import embed
from reelspace.answers import RerankProgress, SearchReport
from reelspace.embed.base import Embedder
from reelspace.errors import ItemError
from reelspace.index.fused import DEEP, fused
from reelspace.index.query import Question, as_items, ask
from reelspace.index.searcher import Corpus, Filters, Found, Range, Searcher
from reelspace.index.second import SecondLook
from reelspace.index.signalled import SignalledSearcher
from reelspace.index.wording import Wording, worded
from reelspace.item import Item
from reelspace.rank import scorers
from reelspace.rank.base import PairScorer
from reelspace.rank.calibration import calibration_of
from reelspace.signals.base import BY, SignalError, parse_by

if TYPE_CHECKING:
    from reelspace.embed.lite.text import TextEncoder
    from reelspace.media.reader import Reader

RERANK_K = 10


class Searchable(ABC):
    """Videos that can be asked for, by a model whose vectors they have. It is a context manager."""

    def __init__(self) -> None:
        self._embedders: dict[str, Embedder] = {}
        self._scorers: dict[str, PairScorer] = {}
        self._reader_made: Reader | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def _open(self, filters: Filters, model: str | None = None) -> tuple[Embedder, Corpus]:
        """The model to ask with (`None`: the one in use), and what to put a question to."""

    def search(
        self,
        query: str | Item | Sequence[str | Item],
        *,
        without: str | Item | Sequence[str | Item] = (),
        k: int = 10,
        page: int = 1,
        per_video: int | None = None,
        within: str | Sequence[str] = (),
        duration: Range = (None, None),
        dated: Range = (None, None),
        instruction: str | None = None,
        fuse_with: str | Sequence[str] = (),
        rerank: str | PairScorer | None = None,
        rerank_k: int = RERANK_K,
        progress: Callable[[RerankProgress], None] | None = None,
        by: str | Sequence[str] | None = None,
    ) -> SearchReport:
        """The moments that answer `query`, best first.

        Args:
            query: words, an item, or several of them.
            without: what the answers should not be.
            k: moments a page.
            page: 1 is the first; pages continue one ranking.
            per_video: most moments of one video.
            within: globs of paths to search in; any of them may match.
            duration: least and greatest running time of the video, in seconds.
            dated: earliest and latest date of the video (when it was recorded, else the file's time), unix seconds.
            instruction: for models that take one; `None` is the preset's default.
            fuse_with: other models that the library has vectors of: each is asked too, and the rankings are fused by
                reciprocal rank. A fused ranking has at most the best 200 moments of each.
            rerank: a scorer, or its name, that takes a second look at the best moments, together with the query.
            rerank_k: at how many.
            progress: called before, while and after the second look is taken.
            by: what to search: any of `seen`, `said`, `written`, `named`. Left out, all that there is; words are
                needed for all but `seen`. What several find is fused by time. Where there are signals, words in double
                quotes must be said, written or named exactly so. `fuse_with` and `rerank` go by what is seen alone.

        Raises:
            SignalError: it cannot be searched by that.
            LibraryError: nothing is indexed yet, or the vectors are of another version of the model.
            ItemError, MediaError, EncodeError: the query cannot be understood, read or embedded.
            ModelError: the scorer cannot be loaded, or breaks its contract.
        """
        if k < 1 or page < 1 or (per_video is not None and per_video < 1):
            raise ItemError("k, page and per_video count from 1.")
        question = Question(as_items(query), as_items(without), instruction)
        look = self._second_look(question, rerank, rerank_k, progress)
        filters = Filters(globs(within), duration, dated)
        others = [fuse_with] if isinstance(fuse_with, str) else list(fuse_with)
        sought = self._by(question, by, alone=bool(others or look))
        if sought != ("seen",):
            return self._signalled(question, sought, filters).search(question, k, page, per_video)
        wanted = DEEP if others else max(k * page, rerank_k if look else 0)
        rankings: dict[str, Found] = {}
        for model in (None, *others):
            embedder, corpus = self._open(filters, model)
            if embedder.name in rankings:
                raise ItemError(f"{embedder.name} is asked already: fuse with another model.")
            asked = ask(embedder, self._reader, question)
            searcher = Searcher(corpus, embedder.name, asked, calibration_of(embedder))
            rankings[embedder.name] = searcher.found(wanted, per_video)
        found = fused(rankings, per_video) if others else next(iter(rankings.values()))
        cost = None
        if look and k * (page - 1) < rerank_k:
            answers, cost = look(found.answers)
            found = found._replace(answers=answers)
        return found.report(question, " + ".join(rankings), k, page, cost)

    def _signalled(self, question: Question, sought: Sequence[str], filters: Filters) -> SignalledSearcher:
        """What answers a question by these."""
        embedder, corpus = self._open(filters, None)
        searcher = None
        if "seen" in sought:
            asked = ask(embedder, self._reader, question)
            searcher = Searcher(corpus, embedder.name, asked, calibration_of(embedder))
        texts, without = ([item.text for item in items if item.text] for items in (question.items, question.without))
        wordings = {name: self._wording(name, filters, corpus) for name in sought if name != "seen"}
        return SignalledSearcher(embedder.name, searcher, wordings, worded(texts, without, self._text_encoder))

    def _by(self, question: Question, by: str | Sequence[str] | None, alone: bool) -> tuple[str, ...]:
        """What to search a question by; `alone`: the rest of what is asked for goes by what is seen alone."""
        told, words = self._told(), any(item.text for item in question.items)
        if by is None:
            return ("seen", *(told if words and not alone else ()))
        wanted = parse_by(by)
        if alone and wanted != ("seen",):
            raise SignalError("A second look and other models go by what is seen: leave them out, or --by.")
        spoken = [name for name in wanted if name != "seen"]
        if spoken and not words:
            raise SignalError(f"What is {' or '.join(spoken)} is found by words: give some, or search by seen alone.")
        for name in spoken:
            if name not in told and not self._looked_for(name):
                raise SignalError(
                    f"Nothing is known yet of what is {name}; run `reelspace index --signals {BY[name]}` in the "
                    "library, and search there."
                )
        return wanted

    def _told(self) -> tuple[str, ...]:
        """Those of `said`, `written` and `named` that anything is known of."""
        return ()

    def _looked_for(self, by: str) -> bool:
        """Whether one of them was looked for, whatever was found."""
        return False

    def _wording(self, by: str, filters: Filters, corpus: Corpus) -> Wording:
        """The text of one of them.

        Raises:
            SignalError: none is kept here.
        """
        raise SignalError(f"No text of what is {by} is kept here; search by seen.")

    @property
    def _text_encoder(self) -> TextEncoder:
        from reelspace.embed.lite.text import shared

        return shared()

    def _second_look(
        self,
        question: Question,
        rerank: str | PairScorer | None,
        k: int,
        progress: Callable[[RerankProgress], None] | None,
    ) -> SecondLook | None:
        if rerank is None:
            return None
        if question.without:
            raise ItemError(
                "A second look judges what is asked for, not what is unwanted: leave out `without` (--not), or the "
                "second look (--rerank)."
            )
        if isinstance(rerank, str):
            if rerank not in self._scorers:
                self._scorers[rerank] = scorers.load(rerank)
            rerank = self._scorers[rerank]
        return SecondLook(rerank, question.items, k, self._reader, progress)

    @property
    def _reader(self) -> Reader:
        from reelspace.media.reader import Reader

        with self._lock:
            if self._reader_made is None:
                self._reader_made = Reader()
            return self._reader_made

    def _embedder(self, model: str) -> Embedder:
        with self._lock:
            if model not in self._embedders:
                made = embed.load(model)
                self._embedders[model] = made
                self._embedders.setdefault(made.name, made)  # one that was named by its URL is found by its name, too
            return self._embedders[model]

    def close(self) -> None:
        """Ends the decoding processes and closes what is open."""
        if self._reader_made is not None:
            self._reader_made.close()
            self._reader_made = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def globs(patterns: str | Sequence[str]) -> tuple[str, ...]:
    """Several, where one alone may be given as a string."""
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)
