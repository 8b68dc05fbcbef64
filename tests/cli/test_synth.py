import json

import pytest
from typer.testing import CliRunner

from reelspace.cli import app

CONFIG = """
shards = 2
embedder = "lite"
[source]
kind = "worlds"
count = 6
profile = "easy"
[filter]
consistency = -1.0
[mllm]
kind = "oracle"
[enrich]
consistency = -1.0
long = 20
[extend]
tasks = ["T2V", "T2T", "I2V"]
"""


def reelspace(*arguments):
    return CliRunner().invoke(app, ["synth", *map(str, arguments)])


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "flow.toml"
    path.write_text(CONFIG)
    return path


def test_a_set_is_made_in_parts_and_shown(tmp_path, config):
    out = tmp_path / "set"
    first = reelspace("run", "--config", config, "--output", out, "--shard", "1/2")
    assert first.exit_code == 1 and "other shards" in first.output
    done = reelspace("run", "--config", config, "--output", out)
    assert done.exit_code == 0, done.output
    assert "18 rows (T2T 6, T2V 6, I2V 6)" in done.output and "requests" in done.output

    shown = reelspace("stats", out, "--json")
    assert json.loads(shown.stdout)["tasks"]["T2V"]["rows"] == 6
    told = reelspace("stats", out).stdout
    assert "T2V" in told and "rectify" in told
    page = tmp_path / "audit.html"
    assert reelspace("audit", out, "--output", page).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("shard", ["0/2", "3/2", "x", "1", "-1/2", "1/0"])
def test_a_wrong_shard_is_2(tmp_path, config, shard):
    assert reelspace("run", "--config", config, "--output", tmp_path / "set", f"--shard={shard}").exit_code == 2


def test_shard_and_processes_do_not_go_together(tmp_path, config):
    done = reelspace("run", "--config", config, "--output", tmp_path / "x", "--shard", "1/2", "--processes", "2")
    assert done.exit_code == 2


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ("shards = 0\n" + CONFIG.replace("shards = 2\n", ""), "shards"),
        (CONFIG.replace('kind = "oracle"', 'kind = "oracel"'), "mllm"),
        (CONFIG + "colour = 1\n", "extend.colour"),
        (CONFIG.replace("consistency = -1.0", 'consistency = "null:2"', 1), "threshold"),
        ("shards =", "cannot be read"),
    ],
)
def test_a_wrong_configuration_is_told_where(tmp_path, wrong, where):
    path = tmp_path / "flow.toml"
    path.write_text(wrong)
    done = reelspace("run", "--config", path, "--output", tmp_path / "set")
    assert done.exit_code == 2 and where in str(done.exception) + done.output
    assert not (tmp_path / "set").exists()


def test_of_what_is_no_set_nothing_is_told(tmp_path):
    for command in ("stats", "audit"):
        done = reelspace(command, tmp_path)
        assert done.exit_code == 2 and "no finished set" in str(done.exception) + done.output
