import json
from pathlib import Path

import pytest

from reelspace.answers import CheckReport, Hit, MergeReport, PushReport, Query, SearchReport, StatusReport

SCHEMAS = Path(__file__).parent.parent / "docs" / "schemas"


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("search", SearchReport),
        ("status", StatusReport),
        ("merge", MergeReport),
        ("push", PushReport),
        ("check", CheckReport),
    ],
)
def test_the_committed_schemas_are_those_of_the_code(name, report):
    committed = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    assert committed == report.model_json_schema()


def test_a_search_report_has_the_documented_keys():
    hit = Hit(rank=1, path="/a.mp4", start=1.5, end=4, score=0.5, video="ab")
    report = SearchReport(query=Query(text=["a dog"]), model="lite", match=True, page=1, hits=[hit])
    shown = json.loads(report.model_dump_json())
    assert list(shown) == ["query", "model", "by", "match", "page", "hits", "rerank"]
    assert list(shown["hits"][0])[:6] == ["rank", "path", "start", "end", "score", "video"]
    assert str(hit) == "/a.mp4@1.5-4"
