"""Sampling: the same everywhere, and held-out combinations that training never shows."""

from collections import Counter
from itertools import islice, permutations, product

from reelspace.worlds.edits import vary
from reelspace.worlds.sample import EASY, combinations, generator, held_out, scene, scenes, split_of
from reelspace.worlds.scene import COLOURS, RETURNS, SHAPES, VERBS


def test_the_nth_scene_of_a_seed_is_always_the_same():
    assert list(islice(scenes(5), 20)) == list(islice(scenes(5), 20))
    assert list(islice(scenes(5), 20)) != list(islice(scenes(6), 20))


def test_draws_are_pinned():
    """Fixed bytes of the generator: another platform or NumPy must draw the same."""
    assert generator("pinned", 1).integers(1000, size=5).tolist() == [68, 838, 551, 368, 302]
    assert scene(generator("pinned", 2), EASY).shots[0].things[0].name == "red triangle"


def test_thousands_of_distinct_scenes():
    assert len({scene.key for scene in islice(scenes(0), 2000)}) == 2000


def test_splits_share_no_combination():
    train, other = set(), set()
    for one in islice(scenes(1, split="train"), 300):
        assert split_of(one) == "train"
        train |= combinations(one)
    for one in islice(scenes(1, split="held-out"), 300):
        assert split_of(one) == "held-out"
        other |= set(filter(held_out, combinations(one)))
    assert train and other and not train & other


def test_one_triple_in_four_is_held_out_and_every_pair_is_trained_on():
    triples = list(product(SHAPES, COLOURS, VERBS))
    kept = [triple for triple in triples if not held_out(triple)]
    assert len(kept) == 0.75 * len(triples)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert {(t[first], t[second]) for t in kept} == {(t[first], t[second]) for t in triples}
    share = Counter(triple[2] for triple in triples if held_out(triple))
    assert len(set(share.values())) == 1, "the held-out triples lean to some act"


def test_of_the_orders_of_four_acts_six_are_held_out():
    orders = list(permutations(RETURNS[:4]))
    assert sum(map(held_out, orders)) == 6
    assert {order[0] for order in orders if not held_out(order)} == set(RETURNS[:4])


def test_varying_changes_one_thing():
    one = next(scenes(4))
    for attribute in ("background", "light", "colour", "size"):
        other = vary(one, attribute, generator(attribute))
        if other is not None:
            assert other != one and other.shots[0].frames == one.shots[0].frames
            assert len(other.shots[0].things) == len(one.shots[0].things)
