import numpy as np
import pytest

import sketch
from reelspace import Item
from reelspace.embed.base import normalise
from reelspace.embed.parity import compare, fixed_items
from reelspace.errors import ModelError


class Off(sketch.Sketch):
    """The sketch served by other means: each vector is a little off, clips more than texts."""

    def __init__(self, much):
        super().__init__()
        self.much = much

    def encode_query(self, items, instruction=None):
        rows = super().encode_query(items)
        clips = np.array([1.0 if item.video is not None else 0.1 for item in items], np.float32)
        return normalise(rows + clips[:, None] * self.much * np.roll(rows, 1, axis=1))


def test_a_model_agrees_with_itself():
    found = compare(sketch.load(), sketch.load())
    assert found.holds(1e-6) and found.neighbours == 1.0 and not found.reasons
    kinds = {one.item for one in found.compared}
    assert len(found.compared) == 2 * len(fixed_items(sketch.Sketch.modalities))
    assert any("clip" in kind for kind in kinds) and any("picture" in kind for kind in kinds)


def test_the_worst_item_decides():
    found = compare(sketch.load(), Off(0.2))
    assert not found.holds() and found.holds(0.1)
    assert "clip" in found.compared[0].item and found.distance == pytest.approx(1 - found.compared[0].cosine)
    assert [one.cosine for one in found.compared] == sorted(one.cosine for one in found.compared)


def test_other_spaces_do_not_agree():
    mirrored = compare(sketch.load(), sketch.load2())
    assert not mirrored.holds(0.1) and mirrored.neighbours is not None

    class Short(sketch.Sketch):
        dim = sketch.Sketch.dim - 1

        def _run(self, rows):
            return normalise(super()._run(rows)[:, :-1])

    short = compare(sketch.load(), Short())
    assert not short.holds(2.0) and "numbers" in short.reasons[0] and short.distance == float("inf")


def test_an_item_that_fails_is_a_reason():
    class Blind(sketch.Sketch):
        def _prepare(self, item):
            if item.video is not None and len(item.video) == 16:
                raise ModelError("too many frames")
            return super()._prepare(item)

    found = compare(sketch.load(), Blind())
    assert not found.holds(2.0)
    assert any("16 frames" in reason and "too many frames" in reason for reason in found.reasons)
    assert found.distance < 1e-6


def test_nothing_in_common_is_an_error():
    class Reader(sketch.Sketch):
        modalities = frozenset({"text"})

    class Viewer(sketch.Sketch):
        modalities = frozenset({"video"})

    with pytest.raises(ModelError, match="nothing can be compared"):
        compare(Reader(), Viewer())


def test_the_inputs_are_fixed_and_unlike():
    first, again = (fixed_items(sketch.Sketch.modalities) for _ in range(2))
    rows, same = (sketch.load().encode_query(items) for items in (first, again))
    assert (rows == same).all()
    likeness = rows @ rows.T - 2 * np.eye(len(rows))
    assert likeness.max() < 1 - 1e-4
    assert all(isinstance(item, Item) for item in first)
