"""The conformance suites themselves: they pass what is right and name what is wrong."""

import hashlib

import numpy as np
import pytest

from reelspace.embed.base import Embedder, checked, encode, fingerprint, normalise
from reelspace.embed.conformance import violations
from reelspace.errors import EncodeError, MediaError, ModelError
from reelspace.item import Frames, Item
from reelspace.media.policy import Sampling, Uniform


class Hashing:
    """The smallest honest embedder: a fixed random vector for every content."""

    name = "hashing"
    dim = 32
    modalities = frozenset({"text", "image", "video", "image+text"})
    fingerprint = fingerprint(model="hashing", version=1)
    sampling = Sampling(Uniform(4))

    def encode_query(self, items, instruction=None):
        return encode(items, self.modalities, self._prepare, self._run, self.dim)

    def encode_candidate(self, items):
        return self.encode_query(items)

    def _prepare(self, item):
        if isinstance(item.video, Frames):
            return item.video.pixels.tobytes()
        if item.video is not None or hasattr(item.image, "parent"):
            raise MediaError("no such file")
        return (b"" if item.image is None else item.image.tobytes()) + (item.text or "").encode()

    def _run(self, contents):
        seeds = [int.from_bytes(hashlib.sha256(content).digest()[:8], "big") for content in contents]
        rows = [np.random.default_rng(seed).standard_normal(self.dim) for seed in seeds]
        return normalise(np.array(rows, np.float32).reshape(-1, self.dim))


def test_an_honest_embedder_has_no_violations():
    assert isinstance(Hashing(), Embedder)
    assert violations(Hashing()) == []


class PaddingLeak(Hashing):
    def _run(self, contents):
        longest = max(map(len, contents), default=0)
        return super()._run([content.ljust(longest) for content in contents])


class Constant(Hashing):
    def _run(self, contents):
        return super()._run([b"the same" for _ in contents])


class Unnormalised(Hashing):
    def encode_query(self, items, instruction=None):
        return 2 * super().encode_query(items)


class Silent(Hashing):
    def encode_query(self, items, instruction=None):
        try:
            return super().encode_query(items)
        except EncodeError as error:
            return error.vectors


class Backwards(Hashing):
    def _run(self, contents):
        return super()._run(contents)[::-1]


@pytest.mark.parametrize(
    ("faulty", "named"),
    [
        (PaddingLeak, "depend on batch size"),
        (Constant, "different inputs have one vector"),
        (Unnormalised, "not unit vectors"),
        (Silent, "raises no EncodeError"),
        (Backwards, "depend on batch size"),
    ],
)
def test_each_fault_is_named(faulty, named):
    assert any(named in problem for problem in violations(faulty()))


def test_failures_keep_the_good_rows_and_say_why():
    good, wrong = Item("a dog"), Item("a dog", video="x.mp4")
    with pytest.raises(EncodeError, match="2 of 4 items could not be embedded: item 1: the model takes") as caught:
        Hashing().encode_query([good, wrong, good, Item(video="gone.mp4")])
    assert list(caught.value.failures) == [1, 3]
    assert caught.value.failures[3] == "no such file"
    assert caught.value.positions == [0, 2]
    assert np.array_equal(caught.value.vectors, Hashing().encode_query([good, good]))


def test_a_zero_or_broken_row_is_a_failure_never_an_answer():
    rows = np.array([[1, 0], [0, 0], [np.nan, 1]], np.float32)
    with pytest.raises(EncodeError) as caught:
        encode([Item("a"), Item("b"), Item("c")], frozenset({"text"}), lambda item: item, lambda items: rows, 2)
    assert list(caught.value.failures) == [1, 2]
    assert caught.value.positions == [0]


def test_a_fingerprint_is_equal_exactly_when_what_is_declared_is():
    assert fingerprint(a=1, b="x") == fingerprint(b="x", a=1)
    assert fingerprint(a=1) != fingerprint(a=2)
    assert len(fingerprint()) == 16


def test_whatever_an_embedder_raises_is_named(monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    embedder = Hashing()
    monkeypatch.setattr(embedder, "_run", fail)
    with pytest.raises(ModelError, match="hashing failed: RuntimeError: out of memory"):
        checked(embedder, embedder.encode_candidate, [Item("a dog")])
