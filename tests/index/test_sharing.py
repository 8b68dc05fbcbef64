"""Two back ends and one index: a served model in a library, and a space that another back end may use."""

import json

import pytest
from typer.testing import CliRunner

import sketch
from endpoint import Endpoint
from reelspace import Library
from reelspace.cli import app
from reelspace.embed.served import client
from reelspace.errors import LibraryError, ModelError


@pytest.fixture
def endpoint(monkeypatch, plugin):
    monkeypatch.setattr(client, "WAITS", (0.01,))
    monkeypatch.delenv("REELSPACE_ENDPOINT", raising=False)
    double = Endpoint(sketch.load())
    yield double
    double.close()


@pytest.fixture
def clips(colour_clips, tmp_path):
    """Three of the colour clips."""
    target = tmp_path / "clips"
    target.mkdir()
    for name in ("red", "green", "blue"):
        (target / f"{name}.mp4").symlink_to(colour_clips / f"{name}.mp4")
    return target


def best(library, query):
    return library.search(query, k=1).hits[0].path.rpartition("/")[2]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_library_of_a_served_model_keeps_no_address(endpoint, clips, tmp_path, monkeypatch):
    where = tmp_path / "library"
    with Library.open(where, model=endpoint.url("?frames=centres(2)")) as library:
        assert library.index(clips).embedded == 3
        assert best(library, "green") == "green.mp4"
        assert library.models()[0].model == "served:sketch?frames=centres(2)"
    assert b"127.0.0.1" not in (where / "catalogue.sqlite").read_bytes()
    with Library.open(where) as library, pytest.raises(ModelError, match="REELSPACE_ENDPOINT"):
        library.search("green")
    monkeypatch.setenv("REELSPACE_ENDPOINT", endpoint.base)
    with Library.open(where) as library:
        assert best(library, "green") == "green.mp4"
        before = len(endpoint.log)
        assert best(library, "blue") == "blue.mp4"
        assert len(endpoint.log) == before + 1  # the query is its only part; the canary was heard before


def test_another_model_behind_the_same_name_is_noticed(endpoint, clips, tmp_path):
    where = tmp_path / "library"
    with Library.open(where, model=endpoint.url()) as library:
        library.index(clips)
    endpoint.embedder = sketch.load2()
    with Library.open(where, model=endpoint.url()) as library, pytest.raises(LibraryError, match="gives other vectors"):
        library.search("green")


def test_a_back_end_that_agrees_may_use_the_space(endpoint, clips, tmp_path):
    where, address = tmp_path / "library", endpoint.url("?frames=centres(2)")
    with Library.open(where, model="sketch") as library:
        library.index(clips)
    with Library.open(where, model=address) as other, pytest.raises(LibraryError, match="nothing here is indexed"):
        other.search("green")
    strict = run("models", "parity", "sketch", address, "--tolerance", "1e-9", "--share", "--library", where)
    assert strict.exit_code == 1 and "Nothing is shared" in strict.stderr  # clips are JPEG
    done = run("models", "parity", "sketch", address, "--tolerance", "0.01", "--share", "--library", where)
    assert done.exit_code == 0, done.output
    assert "from now on" in done.stderr
    with Library.open(where, model=address) as other:
        assert best(other, "green") == "green.mp4"
        (clips / "red.mp4").rename(clips / "moved.mp4")
        other.index()
        assert best(other, "red") == "moved.mp4"
        assert [space.model for space in other.models()] == ["sketch"]
    with Library.open(where) as library:
        assert library.verify(sample=2).findings == []


def test_a_back_end_that_disagrees_may_not(endpoint, clips, tmp_path):
    where = tmp_path / "library"
    endpoint.embedder = sketch.load2()
    with Library.open(where, model="sketch") as library:
        library.index(clips)
        assert not library.share("sketch", endpoint.url(), tolerance=0.05).holds(0.05)
    with Library.open(where, model=endpoint.url()) as other, pytest.raises(LibraryError, match="nothing here"):
        other.search("green")


def test_parity_reports(endpoint):
    done = run("models", "parity", "sketch", endpoint.url("?frames=centres(2)"), "--tolerance", "0.01", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["agree"] and 0 < report["distance"] < 0.01 and report["worst"]["item"].startswith("a clip")
    assert report["neighbours"] == 1.0 and report["reasons"] == [] and not report["shared"]
    apart = run("models", "parity", "sketch", "sketch2")
    assert apart.exit_code == 1
    assert "worst item" in apart.stdout and "do not give one space" in apart.stderr
    assert run("models", "parity", "sketch", "no-such").exit_code == 2
