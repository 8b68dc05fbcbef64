import json
from pathlib import Path

import jsonschema
import pytest

from reelspace.index.lock import sharding

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def test_shards_wait_are_shown_and_are_merged(reelspace, footage, tmp_path):
    (tmp_path / "videos").symlink_to(footage)
    for shard in ("1/2", "2/2"):
        result = reelspace("index", "videos", "--shard", shard)
        assert result.exit_code == 0, result.output
        assert f"Shard {shard} is done; `reelspace merge` makes it searchable." in result.stderr
    with sharding(tmp_path / "library" / "shards" / "2-of-2"):
        result = reelspace("merge", "--json")
        assert result.exit_code == 0, result.output
        report = json.loads(result.stdout)
        jsonschema.validate(report, json.loads((SCHEMAS / "merge.json").read_text("utf-8")))
        assert "Still at work: 2/2. Merge again when they are done." in result.stderr
        assert (report["left"] > 0) == ("Left to do" in result.stderr)
        shown = reelspace("status").stdout
        assert "Shard    2/2: at work; what it does is not in the counts above" in shown
    assert "not searchable before `reelspace merge`" in reelspace("status").stdout
    waiting = json.loads(reelspace("status", "--json").stdout)
    jsonschema.validate(waiting, json.loads((SCHEMAS / "status.json").read_text("utf-8")))
    assert waiting["indexed"] + waiting["shards"][0]["indexed"] == 2
    assert reelspace("merge").exit_code == 0
    assert reelspace("merge").stderr == "Nothing new.\n"
    status = json.loads(reelspace("status", "--json").stdout)
    assert (status["indexed"], status["shards"]) == (2, [])
    assert "Nothing new, 2 unchanged." in reelspace("index", "--jobs", "2").stderr
    best = json.loads(reelspace("search", "red", "--json").stdout)["hits"][0]
    assert Path(best["path"]).name == "red.mp4"


def test_a_part_that_cannot_be_used_is_a_failure(reelspace, footage, tmp_path):
    part = tmp_path / "library" / "shards" / "1-of-1"
    part.mkdir(parents=True)
    (part / "catalogue.sqlite").write_bytes(b"no database " * 1000)
    result = reelspace("merge")
    assert result.exit_code == 1
    assert f"Note: {part}/catalogue.sqlite is damaged" in result.stderr
    assert "Shard    1/1: cannot be read; `reelspace merge` says why" in reelspace("status").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "3/2"], "counted from 1"),
        (["--shard", "1/2", "--jobs", "2"], "--shard does one share"),
        (["--shard", "1/2", "--prune"], "--shard does one share"),
        (["--shard", "1/2", "--exact"], "--shard does one share"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_usage(reelspace, footage, tmp_path, options, said):
    result = reelspace("index", footage, *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "library" / "catalogue.sqlite").exists()
