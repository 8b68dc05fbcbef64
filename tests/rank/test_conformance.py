import numpy as np

from reelspace.errors import ModelError
from reelspace.item import Item
from reelspace.media.policy import Centres, Sampling
from reelspace.rank.base import PairScorer
from reelspace.rank.conformance import violations

CANDIDATES = [Item(text) for text in ("a dog", "a red car", "night")]


class Overlap:
    name = "overlap"
    fingerprint = "0" * 16
    budget = 10
    modalities = frozenset({"text"})
    sampling = Sampling(Centres(1))

    def score(self, query, candidates):
        if len(candidates) > self.budget:
            raise ModelError("too many")
        words = set(query.text.split())
        return np.array([len(words & set(c.text.split())) for c in candidates], np.float32)


class Softmax(Overlap):
    def score(self, query, candidates):
        scores = np.exp(super().score(query, candidates))
        return scores / scores.sum() if len(scores) else scores


class Spendthrift(Overlap):
    def score(self, query, candidates):
        self.budget = max(self.budget, len(candidates))
        return super().score(query, candidates)


def test_an_honest_scorer_has_no_violations():
    assert isinstance(Overlap(), PairScorer)
    assert violations(Overlap(), Item("a dog"), CANDIDATES) == []


def test_each_fault_is_named():
    assert "depend on the other candidates" in violations(Softmax(), Item("a dog"), CANDIDATES)[0]
    assert "are not refused" in violations(Spendthrift(), Item("a dog"), CANDIDATES)[0]
