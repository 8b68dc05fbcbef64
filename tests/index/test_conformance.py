import numpy as np
import pytest

from reelspace.index.base import Store
from reelspace.index.conformance import expected, violations


class Plain:
    """A dictionary and a sort: the reference."""

    def __init__(self, dim):
        self.dim, self.rows = dim, {}

    def add(self, ids, vectors):
        self.rows.update(zip(map(int, ids), vectors, strict=True))

    def remove(self, ids):
        for row in ids:
            self.rows.pop(int(row), None)

    def search(self, queries, k, among=None):
        ids = np.array([i for i in self.rows if among is None or i in among], np.int64)
        vectors = np.array([self.rows[i] for i in ids], np.float32).reshape(-1, self.dim)
        return [expected(ids, vectors, query, k) for query in queries]

    def __len__(self):
        return len(self.rows)


class Underfilled(Plain):
    def search(self, queries, k, among=None):
        found = super().search(queries, k)
        keep = [np.isin(f.ids, among) if among is not None else slice(None) for f in found]
        return [type(f)(f.ids[m], f.scores[m]) for f, m in zip(found, keep, strict=True)]


class UnstableTies(Plain):
    def search(self, queries, k, among=None):
        return [type(f)(f.ids[np.lexsort((-f.ids, -f.scores))], f.scores) for f in super().search(queries, k, among)]


class Forgetful(Plain):
    def add(self, ids, vectors):
        self.rows = {} if len(self.rows) == 250 else self.rows
        super().add(ids, vectors)


def test_a_right_store_has_no_violations():
    assert isinstance(Plain(3), Store)
    assert violations(Plain) == []
    assert violations(Plain, exact=False) == []


@pytest.mark.parametrize(
    ("faulty", "named"),
    [(Underfilled, "with a filter"), (UnstableTies, "where a sort gives"), (Forgetful, "says it holds")],
)
def test_each_fault_is_named(faulty, named):
    assert any(named in problem for problem in violations(faulty))
