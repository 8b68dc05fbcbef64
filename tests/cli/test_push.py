import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from servers import Qdrant

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture
def qdrant():
    server = Qdrant()
    yield server
    server.close()


def test_push_and_search_from_elsewhere(reelspace, made, qdrant, tmp_path):
    shutil.copytree(made, tmp_path / "library")
    local = json.loads(reelspace("search", "red", "--json").stdout)
    result = reelspace("push", qdrant.url(), "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    jsonschema.validate(report, json.loads((SCHEMAS / "push.json").read_text("utf-8")))
    assert report["added"] == report["windows"] == 2
    assert "holds 2 windows of lite: nothing new." in reelspace("push", qdrant.url()).stderr
    (tmp_path / "library").rename(tmp_path / "away")
    remote = json.loads(reelspace("search", "red", "--store", qdrant.url(), "--json").stdout)
    for one, other in zip(local["hits"], remote["hits"], strict=True):
        assert one.pop("score") == pytest.approx(other.pop("score"), abs=1e-6)
        assert one.pop("matched") == pytest.approx(other.pop("matched"), abs=1e-6)
    assert local == remote


def test_what_cannot_be_is_said(reelspace, made, qdrant, tmp_path):
    shutil.copytree(made, tmp_path / "library")
    missing = reelspace("search", "red", "--store", qdrant.url())
    assert missing.exit_code == 2 and "there is no such collection; `reelspace push` makes it" in missing.stderr
    reelspace("push", qdrant.url())
    other = reelspace("search", "red", "--store", qdrant.url(), "--model", "gve")
    assert other.exit_code == 2 and "it holds vectors of lite, not of gve" in other.stderr
    both = reelspace("search", "red", "--store", qdrant.url(), "--library", "library")
    assert both.exit_code == 2 and "give one of them" in both.stderr
    nowhere = reelspace("push", "mysql://host/db")
    assert nowhere.exit_code == 2 and "“mysql” is neither" in nowhere.stderr
