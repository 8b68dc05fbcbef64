import json

import pytest

from reelspace.errors import ReelspaceError
from reelspace.train.mixture import Mixture, MixtureConfig, TaskConfig, preset
from reelspace.train.rows import Rows, content, key, letters

PAIRS = [("a red ball", "the ball is red"), ("a blue cube", "the cube is blue"), ("a dog", "it barks")]


def test_rows_are_read_as_they_were_written(written):
    task = written([*PAIRS, ("a cat", "it purrs", {"negatives": [{"part": {"text": "it barks"}, "score": 0.5}]})])
    assert [row.query.text for row in task.rows.read([3, 0])] == ["a cat", "a red ball"]
    assert [part.text for part in task.rows[3].negatives] == ["it barks"]
    assert letters(task.rows[0].query) == "T"


def test_parts_of_one_content_or_of_one_video_share_a_key(written):
    task = written([("a", "same"), ("b", "same"), ("c", "other")])
    one, same, other = (task.rows[n].candidate for n in range(3))
    assert content(one) == content(same) != content(other)
    filmed = one.model_copy(update={"video": "v"}), other.model_copy(update={"video": "v"})
    assert key(filmed[0]) == key(filmed[1]) and content(filmed[0]) != content(filmed[1])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"query": {"text": "a"}}', "row 2: candidate is missing"),
        ('{"query": {"text": "a"}, "candidate": {}}', "row 2: a part has neither text nor image nor clip"),
        ('{"query": {"text": 3}, "candidate": {"text": "b"}}', "row 2: text: input should be a valid string"),
        ('{"query": "a", "candidate": {"text": "b"}}', "row 2: a part is an object"),
        ("[1]", "row 2: a row is an object"),
        ("{", "row 2"),
    ],
)
def test_a_row_that_cannot_be_understood_is_named(tmp_path, line, reason):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"query": {"text": "a"}, "candidate": {"text": "b"}}\n' + line + "\n")
    with pytest.raises(ReelspaceError, match=reason):
        Rows(path)


def test_rows_that_changed_are_read_anew(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"query": {"text": "a"}, "candidate": {"text": "b"}}\n')
    assert len(Rows(path)) == 1
    path.write_text('{"query": {"text": "c"}, "candidate": {"text": "d"}}\n' * 2)
    assert [row.query.text for row in Rows(path)] == ["c", "c"]


def test_parquet_reads_as_jsonl_does(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [
        {"id": str(n), "query": {"text": query, "image": None}, "candidate": {"text": answer, "image": None}, "more": n}
        for n, (query, answer) in enumerate(PAIRS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    one, other = Rows(tmp_path / "rows.parquet"), Rows(tmp_path / "rows.jsonl")
    assert [one[n] for n in range(3)] == [other[n] for n in range(3)]


def test_a_task_samples_or_repeats_its_rows_and_always_the_same(written):
    few = written(PAIRS, "few", rows=2)
    many = written(PAIRS, "many", rows=7)
    assert len(set(few.chosen.tolist())) == 2
    assert sorted(many.chosen.tolist()[:6]) == [0, 0, 1, 1, 2, 2] and len(many.chosen) == 7
    assert written(PAIRS, "few", rows=2).chosen.tolist() == few.chosen.tolist()


def test_a_task_says_what_is_wrong_with_it(tmp_path, written):
    with pytest.raises(ReelspaceError, match=r"declared as T>V; row 1 .* is T>T"):
        written(PAIRS, formats="T>V")
    with pytest.raises(ReelspaceError, match="has 1 rows where a batch takes 2"):
        written(PAIRS[:1])
    with pytest.raises(ReelspaceError, match=r"no \.jsonl and no \.parquet"):
        Rows(tmp_path / "nowhere")


def test_an_instruction_of_the_task_goes_before_the_rows_own(written):
    rows = [(*pair, {"instruction": "row"}) for pair in PAIRS]
    assert written(rows, "own").row(0).instruction == "row"
    assert written(rows, "set", instruction="task").row(0).instruction == "task"


def test_presets_are_the_papers_tables():
    for name, total in (("gve-3b", 12_550_000), ("gve-7b", 13_730_000)):
        tasks = preset(name)
        assert len({task.name for task in tasks}) == len(tasks) == 38
        # Table 8 gives rounded totals.
        assert sum(task.rows for task in tasks) == pytest.approx(total, rel=0.02)
    uvrd = {task.name: task for task in preset("gve-7b")}["UVRD-T2V"]
    assert (uvrd.formats, uvrd.rows, uvrd.hard_negatives, uvrd.batch_size) == ("T>V", 879_000, 1, 64)


def test_a_preset_wants_all_its_sources_or_leave_to_go_without(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"query": {"text": f"q{n}"}, "candidate": {"text": f"c{n}"}}) + "\n" for n in range(64))
    )
    sources = {"HotpotQA": path}
    with pytest.raises(ReelspaceError, match="also needs sources for MSMARCO"):
        MixtureConfig(preset="gve-3b", sources=sources).expanded()
    with pytest.raises(ReelspaceError, match="no task Hotpot;"):
        MixtureConfig(preset="gve-3b", sources={"Hotpot": path}).expanded()
    (task,) = Mixture(MixtureConfig(preset="gve-3b", sources=sources, partial=True)).tasks
    assert (task.name, len(task.chosen), task.config.batch_size) == ("HotpotQA", 69_000, 64)


def test_two_tasks_of_one_name_are_refused(tmp_path):
    task = TaskConfig(name="a", source=tmp_path / "rows.jsonl")
    with pytest.raises(ReelspaceError, match="Two tasks are called a"):
        _ = Mixture(MixtureConfig(tasks=(task, task))).tasks
