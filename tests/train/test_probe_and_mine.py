import json
from dataclasses import replace

import numpy as np
import pytest

from letters import Letters, letters
from reelspace.errors import ReelspaceError
from reelspace.shard import Shard
from reelspace.train.mine import Mining, WaitingError, claim, declared, embed, filled, search, write
from reelspace.train.mixture import TaskConfig, _opened
from reelspace.train.probe import Cost, alignment, measured, probe

PAIRS = [("abc", "abcd"), ("xyz", "xyzw"), ("mno", "mnop"), ("abd", "abde"), ("xyw", "wxyv"), ("abcx", "bcxa")]


def test_alignment_is_the_mean_cosine_of_the_pairs(written):
    task = written(PAIRS)
    found = alignment(probe(Letters(), task, pairs=100, seed=0))
    matched = [letters(query) @ letters(answer) for query, answer in PAIRS]
    others = [letters(q) @ letters(a) for i, (q, _) in enumerate(PAIRS) for j, (_, a) in enumerate(PAIRS) if i != j]
    assert found.matched == pytest.approx(np.mean(matched), abs=1e-6)
    assert found.mismatched == pytest.approx(np.mean(others), abs=1e-6)
    assert found.spread == pytest.approx(np.std(others), abs=1e-6)


def test_shares_add_up_to_the_whole(written):
    task = written(PAIRS)
    whole = probe(Letters(), task, pairs=6, seed=1)
    halves = [probe(Letters(), task, 6, 1, 0, (rank, 2)) for rank in (0, 1)]
    assert sum(halves)[:3] == pytest.approx(whole[:3])


def test_a_probe_asks_with_the_tasks_instruction_and_draws_its_pairs_by_seed(written):
    prober = Letters()
    task = written(PAIRS, instruction="Find the rest.")
    one, same, other = (probe(prober, task, 3, seed).tolist() for seed in (0, 0, 1))
    assert one == same != other
    assert set(prober.asked) == {"Find the rest."}


def test_pairs_that_cannot_be_read_are_left_out_of_a_probe(written, tmp_path):
    class Lenient(Letters):
        def encode_candidate(self, items):
            assert all(item.text for item in items)
            return super().encode_candidate(items)

    frame = {"candidate": {"text": "abcd", "image": {"path": "gone.mp4", "time": 1.0}}}
    task = written([*PAIRS[1:], ("abc", "", frame)])
    found = alignment(probe(Lenient(), task, pairs=100, seed=0))
    assert found.matched == pytest.approx(np.mean([letters(q) @ letters(a) for q, a in PAIRS[1:]]), abs=1e-6)


def test_cost_counts_what_pytorch_computes():
    import torch

    cost = Cost()
    with measured(cost):
        torch.ones(3, 4) @ torch.ones(4, 5)
    assert cost.flops == 2 * 3 * 4 * 5 and cost.seconds > 0


ONE, WHOLE = Mining(), Shard()


def mined(task, folder, mining=ONE, share=WHOLE):
    prober = Letters()
    embed(prober, task, folder, share)
    return search(prober, task, mining, folder, share)


def test_hard_negatives_are_the_nearest_that_are_not_right(written, tmp_path):
    task = written(PAIRS)
    found = mined(task, tmp_path / "m", Mining(count=2))
    for place, (query, _) in enumerate(PAIRS):
        order = sorted((-float(letters(query) @ letters(answer)), other) for other, (_, answer) in enumerate(PAIRS))
        assert found[place].tolist() == [other for _, other in order if other != place][:2]


def test_what_is_right_by_content_or_video_is_never_mined(written, tmp_path):
    same = {"candidate": {"text": "abcd", "video": "v"}}
    view = {"candidate": {"text": "abcde", "video": "v"}}
    task = written([("abc", "", same), ("abcq", "", same), ("abcr", "", view), ("zzz", "abz")])
    assert mined(task, tmp_path / "m")[:3].tolist() == [[3]] * 3


def test_what_answers_the_same_query_in_another_row_is_never_mined(written, tmp_path):
    task = written([("abc", "abcd"), ("abc", "abce"), ("xyz", "abcf")])
    assert mined(task, tmp_path / "m", Mining(count=3)).tolist() == [[2, -1, -1], [2, -1, -1], [0, 1, -1]]


def test_copies_of_what_is_right_are_never_mined(written, tmp_path):
    # The same words in another dress; and, for this prober, the same vector.
    task = written([("abc", "a bcd"), ("xyz", "A BCD!"), ("mno", "dcba"), ("qrs", "abz")])
    assert mined(task, tmp_path / "m", Mining(count=3))[0].tolist() == [3, -1, -1]


def test_a_corpus_of_the_tasks_form_is_mined_too(written, tmp_path):
    (tmp_path / "more").mkdir()
    more = [
        {"text": "abcz"},  # a candidate alone
        {"query": {"text": "q"}, "candidate": {"text": "abcd"}},  # a row; and the first row's own answer
        {"clip": {"path": "film.mp4"}},  # of another form
    ]
    (tmp_path / "more" / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more))
    task = written(PAIRS[:3], corpus="more/corpus.jsonl")
    prober = Letters()
    embed(prober, task, tmp_path / "m")
    assert prober.embedded == 4
    found = search(prober, task, Mining(), tmp_path / "m")
    assert found[0].tolist() == [3]
    write(task, found, tmp_path / "mined.jsonl")
    (first, *_) = (json.loads(line) for line in (tmp_path / "mined.jsonl").read_text().splitlines())
    assert [one["part"]["text"] for one in first["negatives"]] == ["abcz"]
    inside = replace(task, negatives=found, config=task.config.model_copy(update={"hard_negatives": 1}))
    assert [part.text for part in inside.row(0).negatives] == ["abcz"]


def test_media_of_a_corpus_are_found_from_anywhere(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "corpus.jsonl").write_text('{"clip": {"path": "films/z.mp4"}}\n')
    rows = [{"query": {"text": name}, "candidate": {"clip": {"path": f"{name}.mp4"}}} for name in "ab"]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = TaskConfig(name="clips", source="rows.jsonl", corpus="more/corpus.jsonl", batch_size=2)
    task = _opened(config, tmp_path, seed=0)
    assert task.rows.item(task.candidate(2)).video.path == tmp_path / "more" / "films" / "z.mp4"


def test_skip_and_margin_pass_over_the_likeliest_to_be_right(written, tmp_path):
    task = written(PAIRS)
    nearest = mined(task, tmp_path / "a", Mining(count=3))
    assert mined(task, tmp_path / "b", Mining(count=2, skip=1)).tolist() == nearest[:, 1:].tolist()
    far = mined(task, tmp_path / "c", Mining(count=1, margin=0.5))
    for place, (query, answer) in enumerate(PAIRS):
        right = letters(query) @ letters(answer)
        assert all(
            letters(query) @ letters(PAIRS[other][1]) <= right - 0.5 + 1e-6 for other in far[place] if other >= 0
        )


def test_shares_wait_for_one_another_and_find_what_one_would(written, tmp_path):
    task = written(PAIRS)
    shares = Shard(1, 2).all()
    embed(Letters(), task, tmp_path / "m", shares[0])
    with pytest.raises(WaitingError, match="1 of 2 shares have not embedded"):
        search(Letters(), task, Mining(), tmp_path / "m", shares[0])
    embed(Letters(), task, tmp_path / "m", shares[1])
    parts = [search(Letters(), task, Mining(), tmp_path / "m", share) for share in shares]
    assert filled(parts).tolist() == mined(task, tmp_path / "one").tolist()


def test_nothing_is_embedded_twice(written, tmp_path):
    task, prober = written(PAIRS), Letters()
    for _ in range(2):
        embed(prober, task, tmp_path / "m")
    assert prober.embedded == len(PAIRS)


def test_what_was_mined_is_a_source_like_any_other(written, tmp_path):
    task = written(PAIRS)
    found = mined(task, tmp_path / "m")
    write(task, found, tmp_path / "mined.jsonl")
    again = _opened(TaskConfig(name="m", source=tmp_path / "mined.jsonl", batch_size=2, hard_negatives=1), tmp_path, 0)
    for place in range(len(PAIRS)):
        assert [part.text for part in again.row(place).negatives] == [PAIRS[found[place, 0]][1]]
    assert len((tmp_path / "mined.jsonl").read_text().splitlines()) == len(PAIRS)
    assert json.loads((tmp_path / "mined.jsonl").read_text().splitlines()[0])["query"]["text"] == "abc"


def test_paths_of_what_was_mined_begin_at_its_own_folder(tmp_path):
    parts = [{"text": "a", "clip": {"path": f"media/{name}.mp4"}} for name in "xyz"]
    rows = [{"query": {"image": {"path": "q.png"}}, "candidate": part} for part in parts]
    source = tmp_path / "there" / "rows.jsonl"
    source.parent.mkdir()
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = _opened(TaskConfig(name="clips", source=source, batch_size=2), tmp_path, seed=0)
    path = tmp_path / "here" / "deep" / "clips.jsonl"
    write(task, np.array([[1], [2], [-1]]), path)
    again = _opened(TaskConfig(name="clips", source=path, batch_size=2, hard_negatives=1), tmp_path, seed=0)
    first = again.row(0)
    found = [again.rows.root / part.clip.path for part in (first.candidate, *first.negatives)]
    assert [file.resolve() for file in found] == [source.parent / "media" / name for name in ("x.mp4", "y.mp4")]
    assert (again.rows.root / first.query.image.path).resolve() == source.parent / "q.png"
    assert first.candidate.id == task.rows[0].candidate.id


def test_a_folder_of_other_work_is_refused(written, tmp_path):
    task = written(PAIRS)
    claim(tmp_path / "m", declared(Mining(), task, "letters"))
    claim(tmp_path / "m", declared(Mining(), task, "letters"))
    with pytest.raises(ReelspaceError, match="another model, source or setting"):
        claim(tmp_path / "m", declared(Mining(count=2), task, "letters"))
