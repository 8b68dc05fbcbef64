import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from reelspace.synth.answers import FrameCaption
from reelspace.synth.blocks import BudgetError
from reelspace.synth.config import Budget, Prices
from reelspace.synth.mllm import Reply, Request, Show
from reelspace.synth.mllm.desk import Desk, Journal, Ledger, UnansweredError, extracted, key_of
from reelspace.synth.schema import Clip

SHOW = Show("VIDEO", np.zeros((1, 4, 4, 3), np.uint8), np.zeros(1), Clip(path="a.mp4"))


class Client:
    """Gives what it is told, in order."""

    fingerprint, together = "client", 1

    def __init__(self, *texts, **more):
        self.texts, self.asked, self.more = list(texts), [], more

    def ask(self, request):
        self.asked.append(request)
        return Reply(self.texts.pop(0), "m", "r", 10, 5, **self.more)

    def close(self):
        pass


def request(seed=1, prompt="say", **more):
    return Request("frame", "frame/1", "system", prompt, (SHOW,), seed=seed, **more)


@pytest.fixture
def open_desk(tmp_path):
    """Opens desks over one journal and one ledger, and closes them in the end."""
    opened = []

    def desk(client, attempts=3, name="", **budget):
        journal, ledger = Journal(tmp_path / f"j{name}.jsonl"), Ledger(tmp_path / f"l{name}")
        opened.append(Desk(client, journal, ledger, Budget(**budget), Prices(input=1e6, output=2e6), attempts))
        return opened[-1]

    yield desk
    for each in opened:
        each.close()


def test_nothing_is_asked_twice(open_desk):
    client = Client("one", "two")
    asked = open_desk(client)
    assert asked.reply(request()).text == asked.reply(request()).text == "one"
    assert asked.reply(request(seed=2)).text == "two"
    assert open_desk(Client()).reply(request()).text == "one"


@pytest.mark.parametrize(
    "other",
    [
        request(seed=2),
        request(prompt="tell"),
        request(slots={"a": 1}),
        request(choices=("Yes",)),
        request(schema=FrameCaption),
        Request("frame", "frame/2", "system", "say", (SHOW,), seed=1),
        Request(
            "frame", "frame/1", "system", "say", (Show("VIDEO", SHOW.frames + 1, SHOW.times, SHOW.source),), seed=1
        ),
    ],
)
def test_whatever_changes_the_answer_changes_the_key(other):
    assert key_of(request(), "f") != key_of(other, "f")
    assert key_of(request(), "f") == key_of(request(), "f") != key_of(request(), "g")


def test_a_bad_answer_is_asked_for_again_with_another_seed(open_desk):
    good = json.dumps({"caption": "a ball"})
    client = Client('{"caption": "a b', '{"text": 1}', json.dumps({"caption": "bad"}), good)
    asked = open_desk(client, attempts=4)
    answer, _, used, faults = asked.answer(
        request(), FrameCaption, lambda found: ("rule", "why") if found.caption == "bad" else None
    )
    assert answer.caption == "a ball"
    assert [fault.reason for fault in faults] == ["broken JSON", "schema", "rule"]
    assert len({asked.seed for asked in client.asked}) == 4 and used.seed == client.asked[-1].seed


def test_an_answer_that_was_cut_off_is_told_from_one_that_is_broken(open_desk):
    with pytest.raises(UnansweredError, match=r"cut off.*mllm\.max_tokens"):
        open_desk(Client('{"caption": "a red b', cut=True), attempts=1).answer(request(), FrameCaption)
    whole = open_desk(Client('{"caption": "a red ball"}', cut=True), name="2")
    assert whole.answer(request(), FrameCaption)[0].caption == "a red ball"


def test_tries_are_bounded_and_kept(open_desk):
    client = Client("no", "still no")
    with pytest.raises(UnansweredError, match="none of 2") as caught:
        open_desk(client, attempts=2).answer(request(), FrameCaption)
    assert [fault.text for fault in caught.value.faults] == ["no", "still no"]


def test_likelihoods_are_believed_and_words_read(open_desk):
    asked = request(choices=("Yes", "No"))
    for text, likelihoods, expected in [
        ("No", {"Yes": 0.7, "No": 0.3}, 0.7),
        ("yes.", {}, 1.0),
        (" No, it is blue", {}, 0.0),
    ]:
        got, _ = open_desk(Client(text, likelihoods=likelihoods), name=text).likely(asked)
        assert got == expected
    with pytest.raises(UnansweredError, match="choice"):
        open_desk(Client("perhaps"), name="x").likely(asked)


@pytest.mark.parametrize(
    "text", ['{"a": 1}', 'Here:\n```json\n{"a": 1}\n```\nDone.', 'Sure! {"a": 1} Ok?', '<think>{}</think>{"a": 1}']
)
def test_json_is_found_where_models_put_it(text):
    assert json.loads(extracted(text)) == {"a": 1}


@pytest.mark.parametrize("budget", [{"requests": 2}, {"tokens": 30}, {"cost": 40.0}])
def test_a_budget_stops_the_run_and_a_larger_one_goes_on(open_desk, budget):
    asked = open_desk(Client("1", "2", "3"), **budget)  # an answer takes 15 tokens and costs 20
    asked.reply(request(1))
    asked.reply(request(2))
    with pytest.raises(BudgetError, match=rf"budget\.{next(iter(budget))}"):
        asked.reply(request(3))
    assert asked.reply(request(1)).text == "1"  # what is known costs nothing
    more = {name: 2 * value for name, value in budget.items()}
    assert open_desk(Client("3"), **more).reply(request(3)).text == "3"


def test_ledgers_of_several_processes_add_up(tmp_path):
    one, other = Ledger(tmp_path / "l"), Ledger(tmp_path / "l")
    one.add(Reply("", input_tokens=1_000_000), Prices(input=3))
    other.add(Reply("", output_tokens=500_000), Prices(output=4))
    for ledger in (one, other):
        spent = ledger.spent()
        assert (spent.requests, spent.input_tokens, spent.output_tokens, spent.cost) == (2, 10**6, 500_000, 5.0)
        ledger.close()


def test_a_journal_outlives_kill_9_and_a_torn_line(tmp_path):
    code = f"""
    import os, signal
    from pathlib import Path
    from reelspace.synth.mllm import Reply
    from reelspace.synth.mllm.desk import Journal
    journal = Journal(Path({str(tmp_path / "j.jsonl")!r}))
    journal.put("a", Reply("one"))
    journal.put("b", Reply("zwei ü"))
    os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    with (tmp_path / "j.jsonl").open("ab") as file:
        file.write(b'{"key": "c", "te')
    journal = Journal(tmp_path / "j.jsonl")
    assert journal.get("a").text == "one" and journal.get("b").text == "zwei ü" and journal.get("c") is None
    journal.put("c", Reply("three"))
    journal.close()
    journal = Journal(tmp_path / "j.jsonl")
    assert journal.get("c").text == "three"
    journal.close()
