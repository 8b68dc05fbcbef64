import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sketch
from reelspace.errors import ReelspaceError
from reelspace.media.policy import Uniform
from reelspace.shard import Shard
from reelspace.uvrb.models import open_model
from reelspace.uvrb.protocol import Protocol
from reelspace.uvrb.results import Failure, read
from reelspace.uvrb.run import Runner, Suite
from reelspace.uvrb.tasks import SUITES, suite
from uvrb.conftest import write_rows, write_task
from uvrb_rows import rewrite


class Watched(sketch.Sketch):
    """`sketch`, that remembers what it was asked."""

    def __init__(self, *more):
        super().__init__()
        self.modalities = sketch.Sketch.modalities | set(more)
        self.instructions, self.seen = set(), 0

    def encode_query(self, items, instruction=None):
        self.instructions.add(instruction)
        self.seen += len(items)
        return super().encode_query(items)

    def encode_candidate(self, items):
        self.seen += len(items)
        return super().encode_query(items)


def runner(data, tmp_path, tasks="all", embedder=None, **options):
    chosen = {key: options.pop(key) for key in ("limit", "present") if key in options}
    embedder = embedder or sketch.load()
    return Runner(embedder, Suite("uvrb", tasks, data, **chosen), tmp_path / "cache", workers=2, **options)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_writes_scores_that_can_be_read(data, tmp_path):
    outcome = runner(data, tmp_path, "MSRVTT,VDC-O,MS-TI,MSRVTT-I2V").run(tmp_path / "out")
    results = read(tmp_path / "out")
    assert results.manifest == outcome.results.manifest
    assert results.scores == {"MSRVTT": 1.0, "VDC-O": 1.0, "MS-TI": 1.0, "MSRVTT-I2V": 1.0}
    assert (outcome.failures, outcome.absent) == ([], {})
    told = results.manifest["tasks"]["MS-TI"]
    assert (told["queries"], told["corpus"], told["chance"]) == (6, 6, pytest.approx(1 / 3))
    assert results.manifest["protocol"]["seen"] == "uniform(8) @ 32 px"
    assert {line.rank for line in results.queries("MS-TI")} == {1}
    result = json.loads((tmp_path / "out" / "tasks" / "MSRVTT.json").read_text())
    assert result["scores"]["test"][0]["main_score"] == result["scores"]["test"][0]["recall_at_1"] == 1.0


def test_tasks_without_data_are_named(data, tmp_path):
    outcome = runner(data, tmp_path, "MSRVTT,CRB-G").run(tmp_path / "out")
    assert list(outcome.absent) == ["CRB-G"]
    with pytest.raises(ReelspaceError, match="CRB-G"):
        runner(data, tmp_path, "CRB-G").run(tmp_path / "other")


def told(chosen, cache, out, *more):
    """Task → the instructions that reached the model during it."""
    embedder, heard = Watched(*more), {}

    def watch(state):
        heard.setdefault(state.task, set()).update(embedder.instructions)
        if state.done == 0:
            embedder.instructions.clear()
            heard[state.task] = set()

    outcome = Runner(embedder, chosen, cache, workers=2).run(out, watch)
    assert outcome.failures == []
    return heard, outcome.results


def test_every_tasks_instruction_arrives_in_the_encoder(clips, tmp_path):
    for name in suite("uvrb"):
        write_task(tmp_path / "data", clips, name, ("red", "blue", "green"))
    heard, results = told(Suite("uvrb", "all", tmp_path / "data"), tmp_path / "cache", tmp_path / "out", "video+text")
    assert heard == {name: {task.instruction} for name, task in suite("uvrb").items()}
    assert {name: task["instruction"] for name, task in results.manifest["tasks"].items()} == {
        name: task.instruction for name, task in suite("uvrb").items()
    }


@pytest.mark.parametrize("name", ["classification", "text-video"])
def test_so_it_does_in_the_other_suites(name, clips, tmp_path):
    for number, task in enumerate(SUITES[name].values()):
        folder = tmp_path / "data" / task.name
        folder.mkdir(parents=True)
        (folder / "videos").symlink_to(clips)
        texts = [{"id": f"t-{c}", "text": c} for c in ("red", "blue")]
        # A stretch of its own for every task: what is known already is not asked again.
        (folder / "own").mkdir()
        videos = []
        for colour in ("red", "blue"):
            content = (clips / f"{colour}.mp4").read_bytes() + bytes(number + 1)
            (folder / "own" / f"{colour}.mp4").write_bytes(content)
            videos.append({"id": f"v-{colour}", "video": f"own/{colour}.mp4"})
        asked, among = (texts, videos) if task.query == "text" else (videos, texts)
        write_rows(folder / "jsonl" / "queries.jsonl", asked)
        write_rows(folder / "jsonl" / "corpus.jsonl", among)
        pairs = [{"qid": q["id"], "pos": [a["id"]]} for q, a in zip(asked, among, strict=True)]
        write_rows(folder / "jsonl" / "instances.jsonl", pairs)
    heard, results = told(Suite(name, "all", tmp_path / "data"), tmp_path / "cache", tmp_path / "out")
    assert heard == {one: {task.instruction} for one, task in SUITES[name].items()}
    assert set(results.scores.values()) == {1.0}


def test_without_instructions_none_is_given(data, tmp_path):
    embedder = Watched()
    runner(data, tmp_path, "MSRVTT", embedder, protocol=Protocol(instructions=False)).run(tmp_path / "out")
    assert embedder.instructions == {None}


def test_the_same_run_again_embeds_nothing_and_writes_the_same_bytes(data, tmp_path):
    first = runner(data, tmp_path, "MSRVTT,MS-TI").run(tmp_path / "one")
    # The pictures and words are new to MS-TI, its videos are those of MSRVTT.
    assert first.made == 12 + 6
    embedder = Watched()
    again = runner(data, tmp_path, "MSRVTT,MS-TI", embedder).run(tmp_path / "two")
    assert (again.made, embedder.seen) == (0, 0)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert sorted(path.name for path in tmp_path.glob("*.log")) == ["one.log", "two.log"]
    runner(data, tmp_path, "MSRVTT,MS-TI").run(tmp_path / "one")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_what_changes_is_embedded_again(data, clips, tmp_path):
    runner(data, tmp_path, "MSRVTT").run(tmp_path / "one")
    shutil.copy(clips / "red.mp4", data / "MSRVTT" / "videos" / "blue.mp4")
    changed = runner(data, tmp_path, "MSRVTT").run(tmp_path / "two")
    assert changed.made == 0  # it is red.mp4 now, which is known
    assert changed.results.scores["MSRVTT"] == pytest.approx(5 / 6)
    assert (
        changed.results.manifest["tasks"]["MSRVTT"]["data"]
        != read(tmp_path / "one").manifest["tasks"]["MSRVTT"]["data"]
    )
    rewrite(data / "MSRVTT" / "jsonl" / "queries.jsonl", lambda row: row | {"text": row["text"] + " please"})
    assert runner(data, tmp_path, "MSRVTT").run(tmp_path / "three").made == 6
    other = runner(data, tmp_path, "MSRVTT", sketch.load2()).run(tmp_path / "four")
    assert other.made == 11
    frames = runner(data, tmp_path, "MSRVTT", protocol=Protocol(str(Uniform(4)))).run(tmp_path / "five")
    assert frames.made == 11


def test_results_of_another_run_are_not_mixed_in(data, tmp_path):
    runner(data, tmp_path, "MSRVTT").run(tmp_path / "out")
    other = runner(data, tmp_path, "MSRVTT", sketch.load2())
    with pytest.raises(ReelspaceError, match="its model differs"):
        other.run(tmp_path / "out")
    with pytest.raises(ReelspaceError, match="its limit differs"):
        runner(data, tmp_path, "MSRVTT", limit=2).run(tmp_path / "out")
    other.check(tmp_path / "out", overwrite=True)
    assert other.run(tmp_path / "out").results.model == "sketch2"
    runner(data, tmp_path, "VDC-O", sketch.load2()).run(tmp_path / "out")
    assert read(tmp_path / "out").tasks == ["MSRVTT", "VDC-O"]  # tasks are added to those there are


def test_every_failure_is_listed_and_costs_its_own_query_only(data, clips, tmp_path):
    videos = data / "MSRVTT" / "videos"
    (videos / "red.mp4").write_bytes(b"no video")
    (videos / "green.mp4").unlink()
    shutil.copy(clips / "black.mp4", videos / "blue.mp4")  # sketch refuses what is black
    rewrite(
        data / "MSRVTT" / "jsonl" / "queries.jsonl",
        lambda row: row | ({"text": ""} if row["id"] == "q-cyan" else {}),
    )
    outcome = runner(data, tmp_path, "MSRVTT").run(tmp_path / "out")
    results = read(tmp_path / "out")
    assert results.failures() == outcome.failures
    assert {(one.side, one.id) for one in outcome.failures} == {
        ("candidate", "v-red"),
        ("candidate", "v-green"),
        ("candidate", "v-blue"),
        ("query", "q-cyan"),
    }
    assert all(isinstance(one, Failure) and one.reason for one in outcome.failures)
    lines = {line.qid: line for line in results.queries("MSRVTT")}
    assert lines["q-cyan"].failed and lines["q-cyan"].score == 0
    assert (lines["q-red"].score, lines["q-red"].rank) == (0, None)
    assert results.scores["MSRVTT"] == pytest.approx(2 / 6)
    assert results.manifest["tasks"]["MSRVTT"]["failures"] == 4
    shutil.copy(clips / "red.mp4", videos / "red.mp4")  # mended, it is not a failure any more
    again = runner(data, tmp_path, "MSRVTT").run(tmp_path / "out")
    assert {one.id for one in again.failures} == {"v-green", "v-blue", "q-cyan"}


def test_a_kind_of_item_that_a_model_does_not_take_fails_and_is_not_decoded(data, clips, tmp_path):
    write_task(data, clips, "MS-TV")
    outcome = runner(data, tmp_path, "MS-TV").run(tmp_path / "out")  # sketch takes no video+text
    assert len(outcome.failures) == 6
    assert "the model takes" in outcome.failures[0].reason
    assert outcome.results.scores == {"MS-TV": 0.0}


@pytest.mark.parametrize("of", [2, 5, 8])
def test_shards_of_any_number_together_do_all_of_it(data, tmp_path, of):
    whole = runner(data, tmp_path / "other", "MSRVTT,MS-TI").run(tmp_path / "whole")
    made = [runner(data, tmp_path, "MSRVTT,MS-TI").shard(share).made for share in Shard(1, of).all()]
    assert sum(made) == whole.made
    embedder = Watched()
    outcome = runner(data, tmp_path, "MSRVTT,MS-TI", embedder).run(tmp_path / "out")
    assert embedder.seen == 0
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert outcome.failures == []


def test_what_a_shard_did_not_do_is_done_by_the_run(data, tmp_path):
    runner(data, tmp_path, "MSRVTT").shard(Shard(1, 3))
    assert runner(data, tmp_path, "MSRVTT").run(tmp_path / "out").made == 8


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in its background ignores it
sys.path[:0] = {paths!r}
import sketch
from pathlib import Path
from reelspace.uvrb.run import Runner, Suite
class Slow(sketch.Sketch):
    def encode_query(self, items, instruction=None):
        time.sleep(0.2)
        print(len(items), flush=True)
        return super().encode_query(items)
Runner(Slow(), Suite("uvrb", "MSRVTT,MS-TI,VDC-O", Path({data!r})), Path({cache!r}), batch=1).run(Path({out!r}))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_goes_on_where_it_was(data, tmp_path, end):
    whole = runner(data, tmp_path / "other", "MSRVTT,MS-TI,VDC-O").run(tmp_path / "whole")
    paths = [str(Path(sketch.__file__).parent)]
    code = SLOW.format(paths=paths, data=str(data), cache=str(tmp_path / "cache"), out=str(tmp_path / "out"))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(9):  # it is in the second task
        process.stdout.readline()
    process.send_signal(end)
    process.communicate()
    assert process.returncode != 0
    embedder = Watched()
    outcome = runner(data, tmp_path, "MSRVTT,MS-TI,VDC-O", embedder).run(tmp_path / "out")
    assert 0 < embedder.seen <= whole.made - 8
    assert outcome.results.scores == whole.results.scores
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_cheap_tasks_come_first():
    order = [task.name for task in Suite("uvrb").facts()]
    assert order.index("MSRVTT") < order.index("LoVR-V") < order.index("LoVR-C2V")
    assert order.index("CMRB") < order.index("PEV-K")
    worlds = [task.name for task in Suite("worlds").facts()]
    assert worlds[-1] in ("MS-TI", "MS-TV")


def test_lite_takes_the_papers_frames_and_its_own():
    paper = open_model("lite", Protocol("uniform(8)"))
    assert str(paper.sampling) == "uniform(8) @ 224 px"
    own = open_model("lite")
    assert str(own.sampling) == "centres(4) @ 224 px"
    assert paper.fingerprint != own.fingerprint
    assert open_model("lite", Protocol("centres(4)")).fingerprint == own.fingerprint
    with pytest.raises(ReelspaceError, match="no budget"):
        open_model("lite", Protocol(tokens=200))


def test_ties_are_told(data, clips, tmp_path):
    for name in ("green", "blue"):  # three times red
        shutil.copy(clips / "red.mp4", data / "MSRVTT" / "videos" / f"{name}.mp4")
    told = runner(data, tmp_path, "MSRVTT").run(tmp_path / "out").results.manifest["tasks"]["MSRVTT"]
    assert told["score"] == pytest.approx(4 / 6)  # v-red stands first: ties are broken by id, descending
    assert (told["low"], told["high"]) == (pytest.approx(3 / 6), pytest.approx(4 / 6))
