"""What can be searched: the question is read and embedded here, and put to wherever the vectors are."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reelspace import embed
from reelspace.answers import SearchReport
from reelspace.embed.base import Embedder
from reelspace.errors import ItemError
from reelspace.index.query import Question, as_items, ask
from reelspace.index.searcher import Corpus, Filters, Range, Searcher
from reelspace.item import Item
from reelspace.rank.calibration import calibration_of

if TYPE_CHECKING:
    from reelspace.media.reader import Reader


class Searchable(ABC):
    """Videos that can be asked for, by a model whose vectors they have. It is a context manager."""

    def __init__(self) -> None:
        self._embedders: dict[str, Embedder] = {}
        self._reader_made: Reader | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def _open(self, filters: Filters) -> tuple[Embedder, Corpus]:
        """The model to ask with, and what to put a question to."""

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

        Raises:
            LibraryError: nothing is indexed yet, or the vectors are of another version of the model.
            ItemError, MediaError, EncodeError: the query cannot be understood, read or embedded.
        """
        if k < 1 or page < 1 or (per_video is not None and per_video < 1):
            raise ItemError("k, page and per_video count from 1.")
        question = Question(as_items(query), as_items(without), instruction)
        embedder, corpus = self._open(Filters(globs(within), duration, dated))
        asked = ask(embedder, self._reader, question)
        return Searcher(corpus, embedder.name, asked, calibration_of(embedder)).search(question, k, page, per_video)

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
                self._embedders[model] = embed.load(model)
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
