"""`search --rerank` and `--fuse-with`, from the command line."""

import json
from pathlib import Path

import jsonschema
import pytest

from conftest import colour_clip
from reelspace.answers import SearchReport

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "search.json").read_text("utf-8"))


@pytest.fixture
def asked(reelspace, plugin, tmp_path):
    (tmp_path / "clips").mkdir()
    for name in ("red-blue", "red-grey", "red-red", "red-green", "red-cyan"):
        colour_clip(tmp_path / "clips" / f"{name}.mp4", *name.split("-"), seconds=1.0)
    assert reelspace("index", "clips", "--model", "sketch").exit_code == 0
    return reelspace


def test_a_second_look_states_its_cost_before_and_after(asked, tmp_path):
    done = asked("search", "red", "--rerank", "magnifier", "-k", "3")
    assert done.exit_code == 0, done.output
    before, pace, after = done.stderr.splitlines()[:3]
    assert before == "A second look by magnifier: 5 pairs."
    assert pace.startswith("3 pairs to go, about ")
    assert after.startswith("Looked at 5 pairs in ")
    header, first, *_ = done.stdout.splitlines()
    assert header.split() == ["time", "judged", "score", "video"]
    assert first.endswith("red-red.mp4") and float(first.split()[2]) > 0.9

    report = json.loads(asked("search", "red", "--rerank", "magnifier", "--rerank-k", "2", "--json").stdout)
    jsonschema.validate(report, SCHEMA)
    assert (report["rerank"]["pairs"], report["rerank"]["k"], report["rerank"]["failed"]) == (2, 2, [])
    assert [hit["judged"] is None for hit in report["hits"]] == [False, False, True, True, True]

    (tmp_path / "clips" / "red-red.mp4").write_bytes(bytes((tmp_path / "clips" / "red-red.mp4").stat().st_size))
    done = asked("search", "red", "--rerank", "magnifier", "--json")
    assert done.exit_code == 1
    assert "not judged: " in done.stderr and "red-red.mp4" in done.stderr
    assert len(SearchReport.model_validate_json(done.stdout).hits) == 5


def test_rankings_are_fused(asked):
    assert asked("index", "--model", "sketch2").exit_code == 0
    report = json.loads(asked("search", "red", "--fuse-with", "sketch2", "--json").stdout)
    jsonschema.validate(report, SCHEMA)
    assert report["model"] == "sketch + sketch2" and len(report["hits"]) == 5


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--rerank", "no-such"], "no-such"),
        (["--rerank", "magnifier", "--rerank-k", "99"], "1 to 20"),
        (["--rerank", "magnifier", "--not", "blue"], "--not"),
        (["--fuse-with", "lite"], "reelspace index --model lite"),
    ],
)
def test_what_cannot_be_meant(asked, options, why):
    done = asked("search", "red", *options)
    assert done.exit_code == 2, done.output
    assert why in done.stderr
