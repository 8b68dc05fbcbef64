import json

import pytest
from typer.testing import CliRunner

from reelspace.cli import app

ROWS = {
    "colours": [
        ("a red ball", "the ball is red"),
        ("a blue cube", "the cube is blue"),
        ("a green star", "it is green"),
    ],
    "beasts": [("a dog", "it barks"), ("a cat", "it purrs"), ("a cow", "it moos"), ("a cat", "it has whiskers")],
}


def reelspace(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


@pytest.fixture
def config(tmp_path):
    """A run of two tasks of texts."""
    for name, pairs in ROWS.items():
        lines = [json.dumps({"query": {"text": one}, "candidate": {"text": other}}) for one, other in pairs]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    tasks = "".join(f"    - {{name: {name}, source: {name}.jsonl, batch_size: 2}}\n" for name in ROWS)
    (tmp_path / "run.yaml").write_text(f"model: tiny\noutput: out\nepochs: 2\nmixture:\n  tasks:\n{tasks}")
    return tmp_path / "run.yaml"


def test_probe_shows_alignment_and_what_would_be_drawn(config):
    told = reelspace("probe", "--config", config, "--model", "lite", "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["cost"]["seconds"] > 0
    names, shares = zip(*((row["task"], row["shares"]) for row in found["tasks"]), strict=True)
    assert names == tuple(ROWS)
    assert [sum(epoch) for epoch in zip(*shares, strict=True)] == pytest.approx([1, 1])
    best = max(found["tasks"], key=lambda row: row["matched"])
    assert best["shares"][0] > best["shares"][1] > 0.5
    plain = reelspace("probe", "--config", config, "--model", "lite")
    assert "epoch 2" in plain.stdout and "It took" in plain.stderr


def test_shares_of_all_tasks_are_mined_in_two_rounds(config, tmp_path):
    def mine(shard, folder):
        shares = ["--shard", shard] if shard else []
        return reelspace("mine", "--config", config, "--model", "lite", "--output", tmp_path / folder, *shares)

    first = [mine(shard, "shared") for shard in ("1/2", "2/2")]
    assert first[0].exit_code == 1 and first[0].stderr.count("shares have not embedded") == 2
    again = mine("1/2", "shared")
    assert [first[1].exit_code, again.exit_code] == [0, 0]
    assert mine(None, "whole").exit_code == 0
    for name in ROWS:
        one, other = ((tmp_path / folder / f"{name}.jsonl").read_text() for folder in ("shared", "whole"))
        assert one == other
    rows = [json.loads(line) for line in (tmp_path / "whole" / "beasts.jsonl").read_text().splitlines()]
    for row in rows:
        (negative,) = row["negatives"]
        right = {other for one, other in ROWS["beasts"] if one == row["query"]["text"]}
        assert negative["part"]["text"] not in right
    assert mine("3/2", "other").exit_code == 2


def test_a_table_of_captions_becomes_rows(tmp_path):
    table = tmp_path / "VideoUFO.csv"
    table.write_text("ID,Brief Caption,Detailed Caption\n1,a dog,a dog runs over a wide meadow\n")
    told = reelspace("data", table, "--output", tmp_path / "rows")
    assert told.exit_code == 0, told.output
    (row,) = (tmp_path / "rows" / "VideoUFO.jsonl").read_text().splitlines()
    assert json.loads(row)["candidate"]["text"] == "a dog runs over a wide meadow"
    assert reelspace("data", "nothing", "--output", tmp_path / "rows").exit_code == 2


def test_runs_are_drawn_by_their_folders_or_configuration(config, tmp_path):
    steps = [{"event": "step", "step": n, "loss": 1 / n} for n in (1, 2, 3)]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps))
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    assert reelspace("plot", tmp_path / "out", "--output", one).exit_code == 0
    assert reelspace("plot", "--config", config, "--output", other).exit_code == 0
    assert one.read_bytes() == other.read_bytes()
    assert reelspace("plot", "--output", one).exit_code == 2


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "deepspeed", "cpu"])
def test_accelerates_configurations_are_its_own(kind, tmp_path):
    from accelerate.commands.config.config_args import load_config_from_file

    (tmp_path / "launch.yaml").write_text(reelspace("launch", kind).stdout)
    found = load_config_from_file(str(tmp_path / "launch.yaml"))
    assert found.num_processes in (2, 8)
    assert {"ddp": "MULTI_GPU", "fsdp": "FSDP", "deepspeed": "DEEPSPEED", "cpu": "MULTI_GPU"}[kind] == str(
        found.distributed_type.value
    )
    assert reelspace("launch", "abacus").exit_code == 2


def test_the_papers_run_is_printed(tmp_path):
    from reelspace.train.config import read

    (tmp_path / "run.yaml").write_text(reelspace("preset", "gve-7b").stdout)
    assert read(tmp_path / "run.yaml").mixture.preset == "gve-7b"
    assert reelspace("preset", "gve-1b").exit_code == 2
