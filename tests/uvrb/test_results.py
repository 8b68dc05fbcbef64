import pytest

from reelspace.errors import ReelspaceError
from reelspace.uvrb.results import Failure, QueryScore, read, write_manifest, write_task

QUERIES = [QueryScore("é1", 1.0, 0.0, 1.0, 1), QueryScore("q2", 0.0, 0.0, 0.0, None, "no such file")]


def write(folder):
    manifest = {"suite": "uvrb", "model": {"name": "m"}, "tasks": {"CMRB": {"score": 0.5}, "MSRVTT": {"score": 0.25}}}
    write_task(folder, "CMRB", QUERIES, {"task_name": "CMRB"})
    return write_manifest(folder, manifest, [Failure("CMRB", "query", "q2", "no such file")])


def test_what_is_written_is_read(tmp_path):
    write(tmp_path)
    results = read(tmp_path)
    assert (results.suite, results.model, results.tasks) == ("uvrb", "m", ["MSRVTT", "CMRB"])
    assert results.scores == {"MSRVTT": 0.25, "CMRB": 0.5}
    assert results.queries("CMRB") == QUERIES
    assert results.failures() == [Failure("CMRB", "query", "q2", "no such file")]


def test_the_bytes_are_the_same_again(tmp_path):
    write(tmp_path / "one")
    write(tmp_path / "two")
    files = [sorted(path.relative_to(tmp_path / n) for path in (tmp_path / n).rglob("*.json*")) for n in ("one", "two")]
    assert files[0] == files[1]
    assert all((tmp_path / "one" / f).read_bytes() == (tmp_path / "two" / f).read_bytes() for f in files[0])


def test_failures_of_an_earlier_run_do_not_stay(tmp_path):
    results = write(tmp_path)
    write_manifest(tmp_path, results.manifest)
    assert read(tmp_path).failures() == []


def test_what_is_not_there_or_damaged_is_said(tmp_path):
    with pytest.raises(ReelspaceError, match="no results here"):
        read(tmp_path)
    results = write(tmp_path)
    with pytest.raises(ReelspaceError, match="it has MSRVTT, CMRB"):
        results.queries("MSRVTT")
    (tmp_path / "queries" / "CMRB.jsonl").write_text('{"qid": "q1"}\n')
    with pytest.raises(ReelspaceError, match="damaged"):
        results.queries("CMRB")
    (tmp_path / "manifest.json").write_text('{"format": 0}')
    with pytest.raises(ReelspaceError, match="version"):
        read(tmp_path)
