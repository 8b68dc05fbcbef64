import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelspace.errors import ReelspaceError
from reelspace.train.draws import Deck, counts, plan
from reelspace.train.schedule import Epoch, Uniform


@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 5))
def test_rows_are_used_up_before_they_repeat_and_none_stands_twice_in_a_batch(batch, more, seed):
    rows = batch + more
    deck = Deck(rows, batch, seed)
    batches = [deck.batch(number) for number in range(12)]
    assert all(len(set(dealt.tolist())) == batch for dealt in batches)
    for taken in range(1, 13):
        times = np.bincount(np.concatenate(batches[:taken]), minlength=rows)
        whole = taken * batch // rows
        # Within the batch in which one pass ends and the next begins, a row may wait: never more than one pass ahead.
        assert times.min() >= whole - 1 and times.max() <= whole + 1
    if 12 * batch >= rows:
        flat = np.concatenate(batches)
        assert sorted(flat[:rows].tolist()) == list(range(rows))


def test_a_batch_does_not_depend_on_those_asked_for_before():
    one, other = Deck(23, 7, "seed", "task"), Deck(23, 7, "seed", "task")
    for number in range(10):
        one.batch(number)
    assert other.batch(9).tolist() == one.batch(9).tolist()
    assert Deck(23, 7, "another", "task").batch(9).tolist() != one.batch(9).tolist()


def test_a_batch_larger_than_its_task_is_refused():
    with pytest.raises(ReelspaceError, match="batch of 8 needs as many rows; there are 7"):
        Deck(7, 8)


def test_a_plan_goes_on_where_the_one_before_ended():
    tasks = ("a", "b")
    first = plan(Uniform(), Epoch(0, 2, tasks, (6.0, 6.0)), (0, 0), seed=3)
    second = plan(Uniform(), Epoch(1, 2, tasks, (6.0, 6.0)), first.after(), seed=3)
    places = [first.place(step) for step in range(12)] + [second.place(step) for step in range(12)]
    for task in (0, 1):
        numbers = [number for which, number in places if which == task]
        assert numbers == list(range(len(numbers)))
    assert counts(first, tasks) == {"a": first.after()[0], "b": first.after()[1]}
