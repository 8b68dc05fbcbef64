"""One question to the text that a signal found: by its words and by its meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from reelspace.index.base import Ids, Vectors
from reelspace.index.catalogue import WindowRow
from reelspace.index.exact import MatrixStore
from reelspace.index.texts import PassageRow, Texts, terms
from reelspace.moments import Scored, nms
from reelspace.signals.base import BY

WORDS = 0.5
"""What all words of a question are worth beside its meaning, whose cosine is 1 at most. A part of them is worth its
share's square of that: a passage that has one word of three is usually about something else."""
USUAL, SPREAD = 0.06, 0.09
"""Scores of passages that have nothing to do with a question: their mean, with a margin, and standard deviation."""
SIGHT, USUAL_SIGHT = 0.5, 0.4
"""How much higher a passage must score to fit, the nearer the question is to what a picture can show, and how near
questions usually are to that: “a bee on a flower” is near many a passage about bees, and asks for a picture."""
NEAR = 0.1  # below the least score of a fit by so much, a passage is worth no place at all
MOST = 200  # passages taken from a signal's ranking

# Words that say nothing of what is asked for.
_FILLERS = frozenset(
    """
    a an and are as at be been but by did do does for from had has have he her his how i if in into is it its me
    my of on or our say saying says she so some than that the their them then there these they this those to us
    was we were what when where which while who whom whose why will with would you your about part video clip
    scene moment talk talks talking mention mentions mentioned speak speaks speaking someone somebody shows
    showing shown
    """.split()  # noqa: SIM905 - as a list it would be a page long
)


def least_fit(passages: int) -> float:
    """The least score of a passage that fits, among so many of them.

    The best of n that have nothing to do with a question scores the higher the more there are: about
    `sqrt(2 ln n)` standard deviations above their mean. See benchmarks/signals.
    """
    return USUAL + SPREAD * math.sqrt(2 * math.log(max(passages, 10)))


class Worded(NamedTuple):
    """A question as text."""

    text: str
    vector: Vectors  # [DIM]
    words: list[str]
    phrases: list[list[str]]
    sight: float
    """Cosine to the nearest of the things that the built-in model knows by sight."""
    without: list[tuple[Vectors, list[list[str]]]]
    """Meaning and quoted words of what the answer should not be."""


class Told(NamedTuple):
    """A passage that answers."""

    passage: PassageRow
    score: float
    files: list[str]

    @property
    def span(self) -> Scored:
        """As a span with its score."""
        return Scored(self.passage.hash, self.passage.start, self.passage.end, self.score)


def quotes(text: str) -> tuple[str, list[list[str]]]:
    """A question's text without quotation marks, and the phrases that stood in double ones, as words."""
    phrases = [terms(first or second) for first, second in re.findall(r'"([^"]*)"|“([^”]*)”', text)]
    return re.sub(r'["“”]', " ", text), [phrase for phrase in phrases if phrase]


def worded(texts: Sequence[str], without: Sequence[str], embed: Callable[[list[str]], Vectors]) -> Worded:
    """The question that these texts ask, and what it does not want."""
    from reelspace.embed.lite import space

    text, phrases = quotes(" ".join(texts))
    refused = [quotes(one) for one in without]
    vectors = embed([text, *(plain for plain, _ in refused)])
    every = list(dict.fromkeys(terms(text)))
    told = [word for word in every if word not in _FILLERS]
    barred = [(vector, phrases) for vector, (_, phrases) in zip(vectors[1:], refused, strict=True)]
    return Worded(text, vectors[0], told or every, phrases, float((space.things() @ vectors[0]).max()), barred)


def says(text: str) -> bool:
    """Whether a text has a word that says something. What a short text of others means is near to anything."""
    return any(word not in _FILLERS and (len(word) > 1 or not word.isascii()) for word in terms(text))


def holds(text: str, phrase: Sequence[str]) -> bool:
    """Whether a text has exactly these words, one after another."""
    return f" {' '.join(phrase)} " in f" {' '.join(terms(text))} "


def _barred(text: str, asked: Worded) -> bool:
    """Whether a text has a phrase that is not wanted."""
    return any(holds(text, phrase) for _, phrases in asked.without for phrase in phrases)


class Wording:
    """The passages of one signal that pass a question's filters, searched."""

    def __init__(
        self,
        texts: Texts,
        store: MatrixStore,
        by: str,
        among: Ids | None,
        files: Callable[[WindowRow], list[str]],
    ) -> None:
        """Searches what is `said`, `written` or `named`.

        `among` are the ids of passages that pass filters (None: all), `files` is as of a `Corpus`.
        """
        self._texts, self._store, self._files = texts, store, files
        signal = BY[by]
        assert signal is not None, "what is seen is no text"
        self._signal = signal
        of_signal = texts.of_signal(signal)
        self._ids = of_signal if among is None else np.intersect1d(of_signal, among)

    def least(self, asked: Worded) -> float:
        """The least score of a passage that fits."""
        return least_fit(len(self._ids)) + SIGHT * (asked.sight - USUAL_SIGHT)

    def search(self, asked: Worded) -> list[Told]:
        """Up to `MOST` passages, best first: score descending, then by content and time."""
        if not len(self._ids) or not (asked.words or asked.phrases):
            return []  # signs alone mean nothing
        shares = self._shares(asked.words)
        ids = self._quoting(asked.phrases) if asked.phrases else self._candidates(asked, shares)
        ids = self._store.known(ids)
        vectors = self._store.vectors(ids)
        meaning = vectors @ asked.vector
        wanted = np.ones(len(ids), bool)
        for vector, _ in asked.without:
            wanted &= vectors @ vector <= meaning
        scores = {
            int(id): float(cosine) + WORDS * shares.get(int(id), 0.0) ** 2
            for id, cosine in zip(ids[wanted], meaning[wanted], strict=True)
        }
        return self._told(scores, shares, asked)

    def _shares(self, words: Sequence[str]) -> dict[int, float]:
        """Passage → the share of the question's words that it has, rare ones counting for more."""
        total = self._texts.count(self._signal)
        holding = {word: self._texts.holding(word, self._signal) for word in words}
        weight = {word: math.log(1 + (total - len(ids) + 0.5) / (len(ids) + 0.5)) for word, ids in holding.items()}
        whole = sum(weight.values()) or 1.0
        shares: dict[int, float] = {}
        for word, ids in holding.items():
            for id in ids:
                shares[id] = shares.get(id, 0.0) + weight[word] / whole
        return shares

    def _candidates(self, asked: Worded, shares: Mapping[int, float]) -> Ids:
        near = self._store.search(asked.vector[None], MOST, self._ids)[0].ids
        worded = sorted(shares, key=lambda id: (-shares[id], id))[: 4 * MOST]
        return np.union1d(near, np.intersect1d(np.array(worded, np.int64), self._ids))

    def _quoting(self, phrases: Sequence[Sequence[str]]) -> Ids:
        """Passages with all of these phrases, word by word."""
        ids = self._ids
        for phrase in phrases:
            ids = np.intersect1d(ids, np.array(self._texts.holding(" ".join(phrase), self._signal), np.int64))
        rows = self._texts.passages(ids.tolist())
        exact = [id for id, row in rows.items() if all(holds(row.text, phrase) for phrase in phrases)]
        return np.array(sorted(exact), np.int64)

    def _told(self, scores: Mapping[int, float], shares: Container[int], asked: Worded) -> list[Told]:
        rows = self._texts.passages(scores)
        ranked = sorted(rows.values(), key=lambda row: (-scores[row.id], row.hash, row.start, row.id))
        files: dict[int, list[str]] = {}
        found: list[Told] = []
        floor = -math.inf if asked.phrases else least_fit(len(self._ids)) - NEAR
        for row in ranked:
            if scores[row.id] < floor:
                break
            if not (says(row.text) or row.id in shares or asked.phrases) or _barred(row.text, asked):
                continue
            if row.video not in files:
                files[row.video] = self._files(WindowRow(row.id, row.video, row.hash, row.start, row.end))
            there = files[row.video]
            if row.file is not None:  # a name of one file, not of its copies
                path = self._texts.path_of(row.file)
                there = [path, *(other for other in there if other != path)] if path in there else []
            if there:
                found.append(Told(row, scores[row.id], there))
            if len(found) == 2 * MOST:
                break
        best = set(nms([told.span for told in found]))
        kept: list[Told] = []
        for told in found:
            if told.span in best:
                best.discard(told.span)
                kept.append(told)
        return kept[:MOST]
