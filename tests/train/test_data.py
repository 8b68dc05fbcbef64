"""What a step is given: one task, and exactly its batch size."""

import torch

from reelspace.errors import ReelspaceError
from reelspace.train.data import Seat, Steps
from reelspace.train.draws import plan
from reelspace.train.rows import content
from reelspace.train.schedule import Epoch, Uniform

WORDS = ("dog", "cat", "cow", "hen", "fox", "owl", "bee")


def steps(tasks, read=lambda item: item, seat=Seat()):  # noqa: B008
    def prepare(items, prompt, task):
        return {"said": [item.text for item in items], "asked": [prompt, task]}

    epoch = Epoch(0, 1, tuple(task.name for task in tasks), tuple(task.batches for task in tasks))
    data = Steps(tasks, prepare, read, seed=0, steps=epoch.steps, seat=seat)
    data.plan = plan(Uniform(), epoch, (0,) * len(tasks), seed=0)
    return data


def test_a_batch_is_of_one_task_and_has_exactly_its_size_whatever_cannot_be_read(written):
    def read(item):
        if item.text in ("a dog", "cow!"):
            raise ReelspaceError("it is gone")
        return item

    tasks = [written([(f"{by} {word}", f"{word}{by[-1]}!") for word in WORDS], by) for by in ("the", "some")]
    odd = written([(f"a {word}", f"{word}!", {"instruction": "Find."}) for word in WORDS], "a")
    data = steps([*tasks, odd], read)
    failed = 0
    for step in range(len(data)):
        batch = data[step]
        task = data.tasks[batch["task"]]
        size = task.config.batch_size
        assert len(batch["query_said"]) == len(batch["positive_said"]) == len(batch["label"]) == size
        assert len(set(batch["query_said"])) == size and not {"a dog", "a cow"} & set(batch["query_said"])
        assert {asked.split()[0] for asked in batch["query_said"]} == {task.name}
        assert batch["query_asked"] == ["Find." if task is odd else None, "query"]
        assert batch["positive_asked"] == [None, "document"]
        failed += len(batch["failed"])
    assert failed and len(data) == 10  # 3 · 7 / 2


def test_processes_share_a_step_and_no_row(written):
    task = written([(word, f"{word}!") for word in WORDS], "a")
    one, other = (steps([task], seat=Seat(rank, 2))[0]["query_said"] for rank in (0, 1))
    assert len({*one, *other}) == 4


def test_keys_say_what_each_part_is_and_what_it_shows(written):
    film = {"candidate": {"text": "said", "video": "v"}, "negatives": [{"part": {"text": "other", "video": "w"}}]}
    again = {"candidate": {"text": "said", "video": "u"}}
    task = written([("a", "", film), ("b", "", again)], "a", hard_negatives=1)
    batch = steps([task])[0]
    keys = dict(zip(batch["query_said"], batch["label"], strict=True))
    first, second = keys["a"], keys["b"]
    assert first.shape == (3, 2) and first.dtype == torch.int64
    said = {row.query.text: content(row.query) for row in task.rows.read([0, 1])}
    assert first[0].tolist() == [said["a"]] * 2
    assert first[1, 0] == second[1, 0] and first[1, 1] != second[1, 1]  # one text of two videos
    # Where a hard negative is missing, the candidate stands in, and is seen to be right.
    assert second[2].tolist() == second[1].tolist() and first[2].tolist() != first[1].tolist()
