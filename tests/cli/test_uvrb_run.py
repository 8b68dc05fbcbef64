"""`reelspace uvrb run`."""

import json

import pytest

from uvrb.conftest import clips, data, write_task  # noqa: F401

pytestmark = pytest.mark.usefixtures("plugin")


@pytest.fixture
def run(reelspace, monkeypatch, tmp_path):
    monkeypatch.setenv("REELSPACE_CACHE", str(tmp_path / "cache"))

    def call(*more, processes=1, model="sketch"):
        return reelspace("uvrb", "run", "--model", model, "--processes", processes, *more)

    return call


def test_a_table_of_scores(run, data, tmp_path):  # noqa: F811
    done = run("--data", data, "--tasks", "MSRVTT,MS-TI")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert ["MSRVTT", "CG", "recall@1", "6", "6", "0.167", "1.000"] in lines
    assert ["MS-TI", "CMP", "precision@1", "6", "3", "0.333", "1.000"] in lines
    assert (tmp_path / "results" / "uvrb" / "sketch" / "manifest.json").exists()


def test_json_is_the_manifest(run, data, tmp_path):  # noqa: F811
    done = run("--data", data, "--tasks", "MSRVTT", "--json", "-o", "out")
    answer = json.loads(done.stdout)
    written = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert answer == {"results": "out", **written, "absent": {}}


def test_failures_and_missing_data_are_exit_code_1(run, data):  # noqa: F811
    done = run("--data", data, "--tasks", "MSRVTT,CRB-G")
    assert done.exit_code == 1
    assert "CRB-G was not run" in done.output
    (data / "MSRVTT" / "videos" / "red.mp4").write_bytes(b"no video")
    done = run("--data", data, "--tasks", "MSRVTT")
    assert done.exit_code == 1
    assert "candidate v-red" in done.output


def test_shards_in_processes_of_their_own(run, data, tmp_path):  # noqa: F811
    done = run("--data", data, "--tasks", "MSRVTT", "-o", "alone", model="lite")
    assert done.exit_code == 0, done.output
    (tmp_path / "cache").rename(tmp_path / "old")
    done = run("--data", data, "--tasks", "MSRVTT", "-o", "spread", processes=2, model="lite")
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "cache").rglob("*.vectors"))) == 2  # a shard each; the run itself embedded nothing
    for name in ("manifest.json", "queries/MSRVTT.jsonl"):
        assert (tmp_path / "spread" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_a_shard_says_what_it_did(run, data):  # noqa: F811
    done = run("--data", data, "--tasks", "MSRVTT", "--shard", "2/2")
    assert done.stdout == "Shard 2/2: embedded 6 now.\n"
    done = run("--data", data, "--tasks", "MSRVTT", "--shard", "1/2", "--json")
    assert json.loads(done.stdout) == {"shard": "1/2", "embedded": 6, "failures": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks", "MSRVTT"], "Name their folder"),
        (["--data", ".", "--tasks", "MSR-VTT"], "no task or ability"),
        (["--data", ".", "--tasks", "MSRVTT"], "fetch MSRVTT"),
        (["--data", ".", "--shard", "0/4"], "is no shard"),
        (["--data", ".", "--frames", "eight"], "is no frame policy"),
        (["--data", ".", "--tokens", "100"], "no budget"),
    ],
)
def test_wrong_usage(run, options, message):
    done = run(*options)
    assert done.exit_code == 2
    assert message in done.output
