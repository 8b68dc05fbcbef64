"""Second looks and fused rankings, on a library of colour clips."""

from pathlib import Path

import pytest

import sketch
from conftest import colour_clip
from reelspace import Item, Library, Span
from reelspace.errors import ItemError, LibraryError, ModelError
from reelspace.rank import scorers
from reelspace.rank.conformance import violations


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Clips of two shots; the name tells them."""
    folder = tmp_path_factory.mktemp("pairs")
    for name in ("red-blue", "red-grey", "red-red", "green-blue", "yellow-cyan", "white-red"):
        colour_clip(folder / f"{name}.mp4", *name.split("-"), seconds=1.0)
    return folder


@pytest.fixture(scope="module")
def made(folder, tmp_path_factory):
    """The library's folder, of both models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(sketch.install(tmp_path_factory.mktemp("plugin"))))
        where = tmp_path_factory.mktemp("made") / "library"
        with Library.open(where, model="sketch") as library:
            library.index(folder)
            library.index(model="sketch2")
        yield where


@pytest.fixture
def library(made):
    with Library.open(made) as opened:
        yield opened


def names(report):
    return [Path(hit.path).stem for hit in report.hits]


def test_the_magnifier_keeps_the_contract(library, folder):
    clips = [Span(folder / f"{name}.mp4") for name in ("red-blue", "red-red", "yellow-cyan")]
    read = [Item(video=library._reader.sample(clip, sketch.Magnifier.sampling)) for clip in clips]
    assert violations(scorers.load("magnifier"), Item("red"), read) == []


def test_a_second_look_orders_the_best_anew_and_says_what_it_cost(library):
    plain = library.search("red", k=6)
    scorer, told = sketch.Magnifier(), []
    report = library.search("red", k=6, rerank=scorer, rerank_k=5, progress=told.append)
    assert names(report)[0] == "red-red"
    judged = [hit.judged for hit in report.hits]
    assert judged[:4] == sorted(judged[:4], reverse=True) and judged[5] is None
    cost = report.rerank
    assert (cost.model, cost.k, cost.pairs) == ("magnifier", 5, 5) and cost.seconds > 0
    assert sorted(names(report)[:5]) == sorted(names(plain)[:5]) and names(report)[5] == names(plain)[5]
    assert [(state.done, state.total) for state in told] == [(0, 5), (2, 5), (5, 5)]
    assert told[0].remaining is None and told[1].remaining > 0 and told[2].remaining == 0
    assert scorer.calls == [2, 3]
    # Scores stay what they were, and so does what is said of a match.
    assert {(hit.path, hit.start): hit.score for hit in report.hits} == {
        (hit.path, hit.start): hit.score for hit in plain.hits
    }
    assert report.match is plain.match and plain.rerank is None
    assert [hit.judged for hit in plain.hits] == [None] * 6


def test_equals_keep_their_order(library):
    plain = library.search("magenta", k=6)
    report = library.search("magenta", k=6, rerank="magnifier", rerank_k=4)
    assert [hit.judged for hit in report.hits[:4]] == [0.0] * 4
    assert names(report) == names(plain)


def test_what_cannot_be_judged_is_named_and_follows(library, folder, monkeypatch):
    gone = folder / "red-red.mp4"
    content = gone.read_bytes()
    gone.write_bytes(b"\0" * len(content))  # as long as before, but no video any more
    try:
        report = library.search("red", k=6, rerank="magnifier", rerank_k=6)
    finally:
        gone.write_bytes(content)
    assert len(report.rerank.failed) == 1 and "red-red.mp4" in report.rerank.failed[0]
    assert names(report)[-1] == "red-red" and report.hits[-1].judged is None
    assert report.rerank.pairs == 6


def test_a_scorer_that_fails_at_some_names_them(library):
    class Picky(sketch.Magnifier):
        def score(self, query, candidates):
            dark = [Item(video=type(c.video)(c.video.pixels * 0, c.video.times)) for c in candidates[:1]]
            return super().score(query, dark + list(candidates[1:]))

    report = library.search("red", k=6, rerank=Picky(), rerank_k=3)
    assert len(report.rerank.failed) == 1 and "nothing to judge" in report.rerank.failed[0]
    assert [hit.judged is None for hit in report.hits[:3]] == [False, False, True]


def test_pages_are_of_one_ranking(library):
    whole = library.search("red", k=6, rerank="magnifier", rerank_k=3)
    pages = [library.search("red", k=2, page=page, rerank="magnifier", rerank_k=3) for page in (1, 2, 3)]
    assert [hit for page in pages for hit in page.hits] == whole.hits
    assert [page.rerank is None for page in pages] == [False, False, True]


@pytest.mark.parametrize(
    ("query", "options", "why"),
    [
        ("red", {"rerank_k": 21}, "1 to 20"),
        ("red", {"rerank_k": 0}, "1 to 20"),
        ("red", {"without": "blue"}, "not what is unwanted"),
        (["red", "blue"], {}, "text and text"),
        (Item(video="gone.mp4"), {}, "not of video"),
    ],
)
def test_a_second_look_that_cannot_be_meant(library, query, options, why):
    with pytest.raises(ItemError, match=why):
        library.search(query, rerank="magnifier", **options)


def test_an_unknown_scorer(library):
    with pytest.raises(ModelError, match="no-such"):
        library.search("red", rerank="no-such")


def test_a_scorer_that_breaks_its_contract_is_an_error(library):
    class Short(sketch.Magnifier):
        def score(self, query, candidates):
            return super().score(query, candidates)[:-1]

    with pytest.raises(ModelError, match="breaks its contract"):
        library.search("red", rerank=Short())


class TestFusion:
    def test_both_models_are_asked(self, library):
        report = library.search("red", k=6, fuse_with="sketch2")
        assert report.model == "sketch + sketch2"
        first, second = library.search("red", k=6), None
        with Library.open(library.path, model="sketch2") as other:
            second = other.search("red", k=6)
        places = [{(hit.path, hit.start): 1 / (60 + hit.rank) for hit in found.hits} for found in (first, second)]
        for hit in report.hits:
            key = hit.path, hit.start
            assert hit.score == pytest.approx(sum(place[key] for place in places))
            assert set(hit.matched) == {"text by sketch", "text by sketch2"}
        scores = [hit.score for hit in report.hits]
        assert scores == sorted(scores, reverse=True) and report.match is first.match

    def test_pages_filters_and_second_looks_hold(self, library):
        whole = library.search("red", k=6, fuse_with=["sketch2"])
        halves = [library.search("red", k=3, page=page, fuse_with="sketch2").hits for page in (1, 2)]
        assert halves[0] + halves[1] == whole.hits
        assert library.search("red", k=6, page=2, fuse_with="sketch2").hits == []
        assert set(names(library.search("red", within=["green*"], fuse_with="sketch2"))) == {"green-blue"}
        once = names(library.search("red", k=20, per_video=1, fuse_with="sketch2"))
        assert len(set(once)) == len(once)
        assert names(library.search("red", fuse_with="sketch2", rerank="magnifier", rerank_k=6))[0] == "red-red"

    def test_what_cannot_be_fused(self, library):
        with pytest.raises(ItemError, match="asked already"):
            library.search("red", fuse_with="sketch")
        with pytest.raises(LibraryError, match="lite"):
            library.search("red", fuse_with="lite")
