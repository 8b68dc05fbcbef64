import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from reelspace.errors import ReelspaceError
from reelspace.shard import Shard
from reelspace.synth import schema
from reelspace.synth.blocks import BudgetError
from reelspace.synth.card import stats
from reelspace.synth.config import Config
from reelspace.synth.run import Job, Worker, again, on_ray, run


def content(folder):
    """Names and bytes of all files."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return tmp_path_factory.mktemp("whole") / "set"


@pytest.fixture
def made(whole, mixed, flow):
    """The dataset of `flow`, made once by one process, and what is in its folder."""
    if not whole.exists():
        run(Config.model_validate(flow), whole)
    return whole


def test_the_rows_are_of_seven_tasks_and_can_be_embedded(made):
    from reelspace.embed import load

    figures = stats(made)
    assert set(figures["tasks"]) == set(schema.TASKS) == set(schema.tasks(made))
    embedder = load("mixed")
    for task in schema.TASKS:
        rows = list(schema.rows(made, task))
        assert len(rows) == figures["tasks"][task]["rows"] > 0
        for row in rows[:1]:
            query, candidate = row.query.item(made), row.candidate.item(made)
            parts = {"T": "text", "I": "image", "V": "video"}
            source, target = task.split("2")
            assert set(query.parts) == {parts[letter] for letter in source}
            assert set(candidate.parts) == {parts[target]}
            assert row.instruction and row.query.video and row.candidate.video
        negatives = [negative for row in rows for negative in row.negatives]
        assert bool(negatives) == (schema.TASKS[task].negatives > 0)
        for row in rows:
            for negative in row.negatives:
                assert negative.part.video not in (row.candidate.video, row.query.video)
    assert embedder.encode_query([rows[0].query.item(made)][:0]).shape == (0, embedder.dim)


def test_every_generated_text_can_be_made_again(made):
    for task in ("T2T", "T2I", "T2V", "TI2V", "TV2V"):
        for row in schema.rows(made, task):
            told = row.provenance
            assert told.model == "oracle" and told.revision and told.seed and told.frame_times and told.profile
            assert told.prompt.partition("#")[0].endswith("/1")
            assert told.readability and told.education and told.licence == "Apache-2.0" and told.language == "en"
    assert {row.provenance.relation for row in schema.rows(made, "TV2V")} == {"temporal continuation"}


def test_the_training_mixture_reads_the_rows_as_they_are(made, tmp_path):
    from reelspace.train.mixture import Mixture, MixtureConfig

    tasks = [
        {"name": task, "source": f"set/data/{task}", "root": "set", "formats": task.replace("2", ">"), "batch_size": 2}
        | {"hard_negatives": schema.TASKS[task].negatives}
        for task in schema.TASKS
    ]
    (tmp_path / "set").symlink_to(made)
    for task in Mixture(MixtureConfig.model_validate({"tasks": tasks}), tmp_path).tasks:
        rows = list(schema.rows(made, task.name))
        assert [task.row(place).id for place in range(len(rows))] == [row.id for row in rows]
        first = task.row(0)
        assert (first.query, first.instruction) == (rows[0].query, rows[0].instruction)
        assert first.negatives == tuple(negative.part for negative in rows[0].negatives)
        for part in (first.query, first.candidate, *first.negatives):
            item = task.rows.item(part)
            assert item.video is None or item.video.path.exists()


def test_t2v_and_t2t_share_no_caption(made):
    said = {row.provenance.source: row.query.text for row in schema.rows(made, "T2V")}
    for row in schema.rows(made, "T2T"):
        assert len({said[row.provenance.source], row.query.text, row.candidate.text}) == 3


def test_the_card_is_what_the_hub_and_datasets_read(made, tmp_path):
    import yaml
    from datasets import load_dataset

    head = yaml.safe_load((made / "README.md").read_text().split("---\n")[1])
    assert [config["config_name"] for config in head["configs"]] == list(schema.TASKS)
    assert head["language"] == ["en"]
    files = str(made / head["configs"][2]["data_files"])
    rows = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path), split="train")
    assert rows.num_rows == stats(made)["tasks"]["T2V"]["rows"]
    assert rows[0]["query"]["text"] and rows[0]["candidate"]["clip"]["path"].startswith("videos/")


def test_nothing_that_cannot_be_made_again_is_in_the_dataset(made):
    names = {name.split("/")[0] for name in content(made)}
    assert names == {"README.md", "stats.json", "data", "rejected", "videos"} - ({"rejected"} - names)
    beside = made.with_name(f"{made.name}.run")
    assert all("seconds" in json.loads(line) for line in (beside / "log.jsonl").read_text().splitlines())


def test_two_processes_make_the_same(made, tmp_path, flow):
    run(Config.model_validate(flow), tmp_path / "set", processes=2)
    assert content(tmp_path / "set") == content(made)


def test_tasks_of_an_array_make_the_same(made, tmp_path, flow):
    job = Job(Config.model_validate(flow), tmp_path / "set")
    job.prepare()
    workers = [Worker(job, share, patience=0.0) for share in Shard(1, 2).all()]
    done, rounds = [False, False], 0
    while not all(done):
        done = [worker.work() for worker in workers]
        rounds += 1
        assert rounds < 10
    assert rounds > 1
    assert content(tmp_path / "set") == content(made)


def test_a_second_run_does_nothing(made, flow):
    before = {name: path.stat().st_mtime_ns for name, path in _files(made)}
    run(Config.model_validate(flow), made)
    assert before == {name: path.stat().st_mtime_ns for name, path in _files(made)}


def _files(folder):
    return [(str(path), path) for path in sorted(folder.rglob("*")) if path.is_file()]


def test_killed_at_any_point_it_is_finished_with_the_same_bytes(made, tmp_path, flow):
    out = tmp_path / "set"
    job = Job(Config.model_validate(flow), out)
    job.prepare()
    command = [sys.executable, "-m", "reelspace.synth.worker", str(out)]
    beside = out.with_name("set.run")
    moments = [
        lambda: len(list(out.glob("videos/*.mp4"))) >= 4,
        (beside / "filter" / "00000.done.json").exists,
        lambda: any(path.stat().st_size for path in beside.glob("answers/enrich-00000-mllm.jsonl")),
        lambda: any(path.stat().st_size for path in beside.glob("answers/extend-00001-mllm.jsonl")),
    ]
    killed = 0
    for reached in moments:
        process = subprocess.Popen(command, env=os.environ)
        while process.poll() is None and not reached():
            time.sleep(0.005)
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert killed >= 3
    assert not job.finished
    run(Config.model_validate(flow), out)
    assert content(out) == content(made)


def test_every_answer_is_kept_once_and_paid_for_once(made):
    answers = made.with_name(f"{made.name}.run") / "answers"
    lines = [line for path in answers.glob("*.jsonl") for line in path.read_text().splitlines()]
    keys = Counter(json.loads(line)["key"] for line in lines)
    assert max(keys.values()) == 1
    assert sum(spent.requests for spent in Job.of(made).spent().values()) == len(keys)


def test_another_configuration_is_refused_and_one_that_changes_nothing_taken(made, flow):
    with pytest.raises(ReelspaceError, match="another configuration"):
        run(Config.model_validate(flow | {"seed": 4}), made)
    assert run(Config.model_validate(flow | {"budget": {"requests": 1}}), made).finished


def test_a_folder_of_something_else_is_refused(tmp_path, flow):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "thesis.tex").write_text("mine")
    with pytest.raises(ReelspaceError, match="not empty"):
        run(Config.model_validate(flow), tmp_path / "set")


def test_a_budget_ends_the_run_and_a_larger_one_finishes_it_to_the_same_bytes(made, tmp_path, flow):
    out = tmp_path / "set"
    with pytest.raises(BudgetError, match=r"budget\.requests"):
        run(Config.model_validate(flow | {"budget": {"requests": 7}}), out)
    run(Config.model_validate(flow), out)
    assert content(out) == content(made)


@pytest.mark.slow
def test_ray_makes_the_same(made, tmp_path, flow, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    on_ray(Config.model_validate(flow), tmp_path / "set", num_cpus=1)
    assert content(tmp_path / "set") == content(made)


# Files and models that fail.


@pytest.fixture
def table(made, tmp_path, flow):
    """A list of the drawn videos, as any list of pairs; and the configuration for it."""
    shutil.copytree(made / "videos", tmp_path / "videos")
    lines = [
        {"id": f"v{number}", "video": f"videos/{number:06d}.mp4", "text": f"a shape number {number} moves about"}
        for number in range(6)
    ]
    flow["source"] = {"kind": "table", "path": str(tmp_path / "pairs.jsonl"), "root": str(tmp_path)}
    flow |= {
        "shards": 1,
        "mllm": {"kind": "server", "model": "eyes-1", "retries": 1, "longest_wait": 0.01, "attempts": 2},
    }
    flow["filter"]["near_text"] = 1.01
    return flow, lines


def write(flow, lines):
    with open(flow["source"]["path"], "w") as file:  # noqa: PTH123
        file.writelines(json.dumps(line) + "\n" for line in lines)


def canned(body):
    """Answers every kind of request, differently for every seed."""
    n = body["seed"]
    if "logprobs" in body:
        return "Yes"
    name = body["response_format"]["json_schema"]["name"]
    if name == "captions":
        long = "A red shape " + " ".join(f"moves{n}x{k}" for k in range(40))
        texts = (f"A shape {n}.", long, f"Motion {n}.", f"shape, wall, {n}", f"A wall {n}.")
        styles = ("concise", "spatio-temporal", "abstract", "keywords", "partial")
        return json.dumps({"captions": [{"style": s, "text": t} for s, t in zip(styles, texts, strict=True)]})
    if name == "frame":
        return json.dumps({"caption": f"A red shape before a wall {n}"})
    query = {"query": f"The red one FROM REFERENCE IMAGE drifts away {n}", "attribute": "red"}
    return json.dumps(query | ({"relation": "temporal continuation"} if name == "from_clip" else {}))


def test_a_whole_run_by_a_server_that_misbehaves(table, tmp_path):
    from chat_server import ChatServer

    flow, lines = table
    write(flow, lines)
    with ChatServer(canned) as double:
        flow["mllm"]["url"] = double.url
        run(Config.model_validate(flow), tmp_path / "calm")
        count = len(double.log)
        flow["mllm"] |= {"retries": 30}
        double.faults.extend([500, "late cut", 429, "garbage", "cut"] * 4)
        run(Config.model_validate(flow), tmp_path / "rough")
        assert double.refused == []
        assert len(double.log) >= 2 * count
    assert content(tmp_path / "calm") == content(tmp_path / "rough")
    (row, *_) = schema.rows(tmp_path / "calm", "T2V")
    assert row.provenance.model == "eyes-1" and row.provenance.revision == "fp_1"
    assert 0 < row.provenance.scores["yes"] < 1
    assert row.candidate.clip.path == str(tmp_path / "videos" / f"00000{row.provenance.source[1:]}.mp4")


def test_bad_answers_and_bad_files_are_kept_with_their_reasons(table, tmp_path):
    from chat_server import ChatServer

    flow, lines = table
    lines.append({"id": "gone", "video": "videos/none.mp4", "text": "a video that is not there"})
    (tmp_path / "videos" / "torn.mp4").write_bytes(b"\0" * 1000)
    lines.append({"id": "torn", "video": "videos/torn.mp4", "text": "a video that is damaged"})
    write(flow, lines)
    flow["budget"] = {"dead": 1.0}
    flow["mllm"]["concurrency"] = 1
    with ChatServer(canned) as double:
        flow["mllm"]["url"] = double.url
        double.faults.extend(["broken JSON", 0.0, "wrong schema", "wrong schema", 400])
        job = run(Config.model_validate(flow), tmp_path / "set")
        found = list(schema.rejections(tmp_path / "set"))
        dead = {(r.id, r.block) for r in found if r.reason == "given up"}
        assert {("gone", "look"), ("torn", "look")} <= dead
        # Two bad answers about one frame, and a request that was refused.
        assert sorted(block for id_, block in dead if id_ not in ("gone", "torn")) == ["caption", "frame"]
        reasons = Counter(r.reason for r in found)
        assert reasons["broken JSON"] == 1 and reasons["schema"] == 2
        assert len({row.provenance.source for row in schema.rows(tmp_path / "set", "T2V")}) == 5

        asked = len(double.log)
        (tmp_path / "videos" / "none.mp4").symlink_to(tmp_path / "videos" / "000007.mp4")
        assert again(job) == 1
        run(Config.model_validate(flow), tmp_path / "set")
        # The missing file is there now, and the bad answers have been asked for again; the damaged file is not mended.
        assert len({row.provenance.source for row in schema.rows(tmp_path / "set", "T2V")}) == 7
        assert len(double.log) > asked
        assert {r.id for r in schema.rejections(tmp_path / "set") if r.reason == "given up"} == {"torn"}


def test_many_failures_end_the_run_and_bury_nothing(table, tmp_path):
    from chat_server import ChatServer

    flow, lines = table
    lines += [line | {"id": f"w{k}", "text": f"{line['text']} w{k}"} for k, line in enumerate(lines * 4)]
    write(flow, lines)
    flow["filter"]["skip"] = ["near_videos", "near_texts"]
    with ChatServer(lambda body: "no JSON") as double:
        flow["mllm"]["url"] = double.url
        with pytest.raises(BudgetError, match=r"budget\.dead"):
            run(Config.model_validate(flow), tmp_path / "set")
        assert not (tmp_path / "set.run" / "enrich" / "00000.done.json").exists()
        double.answer = canned
        # The bad answers are remembered; the others are asked for now.
        flow["budget"] = {"dead": 1.0}
        assert run(Config.model_validate(flow), tmp_path / "set").finished


def test_a_server_that_is_gone_ends_the_run(table, tmp_path):
    from reelspace.synth.mllm import MllmError

    flow, lines = table
    write(flow, lines)
    flow["mllm"]["url"] = "http://127.0.0.1:9/v1"
    with pytest.raises(MllmError, match=r"127\.0\.0\.1:9"):
        run(Config.model_validate(flow), tmp_path / "set")


def test_a_failure_in_a_child_process_is_told(table, tmp_path):
    flow, lines = table
    write(flow, lines)
    flow["mllm"]["url"] = "http://127.0.0.1:9/v1"
    with pytest.raises(ReelspaceError, match=r"127\.0\.0\.1:9"):
        run(Config.model_validate(flow), tmp_path / "set", processes=2)
