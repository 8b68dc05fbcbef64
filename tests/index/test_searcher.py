"""Pages and filters in a library that is searched approximately, and badly at that, so that what it misses shows."""

from collections import Counter
from itertools import count

import numpy as np
import pytest

from reelspace.index.ann import AnnStore
from reelspace.index.catalogue import Catalogue, FileRow
from reelspace.index.exact import MatrixStore, follow
from reelspace.index.identity import Stamp
from reelspace.index.query import Asked, Question
from reelspace.index.searcher import Filters, LocalCorpus, Searcher, Selections
from reelspace.item import Item
from reelspace.media.probe import VideoInfo
from reelspace.moments import Scored, moments, rank

DIM, VIDEOS, WINDOWS = 24, 24, 20
K = 24


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    """Vectors without any clusters; windows of five seconds that overlap by two."""
    folder, random = tmp_path_factory.mktemp("library"), np.random.default_rng(0)
    catalogue = Catalogue(folder / "catalogue.sqlite")
    with catalogue.transaction():
        space = catalogue.put_space("some", "0" * 16, DIM, [])
        catalogue.activate(space)
        for number in range(VIDEOS):
            path = folder / ("even" if number % 2 == 0 else "odd") / f"{number}.mp4"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"a video")
            video = catalogue.put_video(f"{number:040x}", VideoInfo(62.0, 64, 48, 500, "h264"), None, "fixed(5, 3)")
            windows = catalogue.put_windows(video, [(3.0 * part, 3.0 * part + 5) for part in range(WINDOWS)])
            vectors = random.standard_normal((WINDOWS, DIM)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            catalogue.put_vectors(space, video, windows, vectors, None)
            catalogue.put_file(FileRow(str(path), "indexed", None, video, Stamp.of(path.stat())))
    yield catalogue
    catalogue.close()


@pytest.fixture
def exact(catalogue, tmp_path):
    return opened(catalogue, tmp_path / "exact")


@pytest.fixture
def near(catalogue, tmp_path, monkeypatch):
    monkeypatch.setattr("reelspace.index.ann._ENOUGH", 150)
    monkeypatch.setattr("reelspace.index.ann._FEW", 100)
    monkeypatch.setattr("reelspace.index.ann._DEPTH", 100)
    monkeypatch.setattr("reelspace.index.ann._AIM", 0.3)
    monkeypatch.setattr("reelspace.index.searcher.FEWEST", 20)
    store = opened(catalogue, tmp_path / "near")
    store.build(store.sample(50))
    assert store.recall(queries(20)) < 0.9
    return store


def opened(catalogue, folder):
    (space,) = catalogue.spaces()
    store = AnnStore(MatrixStore(folder, DIM))
    follow(store.exact, catalogue.vectors(space))
    return store


def queries(n):
    vectors = np.random.default_rng(1).standard_normal((n, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def pages(catalogue, store, query, per_video=None, filters=None):
    """Every hit, page by page, each by a search of its own."""
    asked = Asked(query, {}, np.empty((0, DIM), np.float32), None)
    question = Question([Item("a query")], [], None)
    found = []
    for page in count(1):
        corpus = LocalCorpus(catalogue, store, filters and Selections(catalogue).of(filters))
        hits = Searcher(corpus, "some", asked, None).search(question, K, page, per_video).hits
        assert [hit.rank for hit in hits] == list(range(len(found) + 1, len(found) + 1 + len(hits)))
        found += hits
        if len(hits) < K:
            break
    return found


def shared(first, second):
    """The part of the shorter hit that both have."""
    if first.video != second.video:
        return 0.0
    both = min(first.end, second.end) - max(first.start, second.start)
    return both / min(first.end - first.start, second.end - second.start)


FILTERED = {
    "all": {},
    "one a video": {"per_video": 1},
    "two a video": {"per_video": 2},
    "in a folder": {"filters": Filters(within=("even",))},
    "two a video in a folder": {"per_video": 2, "filters": Filters(within=("odd",))},
}


@pytest.mark.parametrize("options", FILTERED.values(), ids=FILTERED)
def test_however_far_somebody_pages_nothing_comes_twice_and_nothing_is_left_out(catalogue, near, exact, options):
    for query in queries(2):
        found, truth = (pages(catalogue, store, query, **options) for store in (near, exact))
        if not options:
            assert [str(hit) for hit in found] != [str(hit) for hit in truth]
        for place, hit in enumerate(found):
            assert max((shared(hit, other) for other in found[:place]), default=0) < 0.7
        if "per_video" in options:
            assert Counter(hit.video for hit in found) == Counter(hit.video for hit in truth)
        else:
            assert min(max(shared(hit, other) for other in found) for hit in truth) > 0.4


@pytest.mark.parametrize("fewest", [1, 5, 20])
def test_however_many_are_wanted_fewer_begin_more(catalogue, near, monkeypatch, fewest):
    monkeypatch.setattr("reelspace.index.searcher.FEWEST", fewest)
    for query in queries(4):
        asked = Asked(query, {}, np.empty((0, DIM), np.float32), None)

        def found(wanted, asked=asked):
            answers = Searcher(LocalCorpus(catalogue, near, None), "some", asked, None).found(wanted, None).answers
            return [answer.moment for answer in answers]

        many = found(40)
        assert [found(wanted) for wanted in range(1, 40)] == [many[:wanted] for wanted in range(1, 40)]


def test_a_page_shows_what_it_shows_whichever_was_asked_for_before(catalogue, near):
    query = queries(1)[0]
    first = [str(hit) for hit in pages(catalogue, near, query)]
    assert [str(hit) for hit in pages(catalogue, near, query)] == first


@pytest.mark.parametrize("fewest", [1, 7, 96])
@pytest.mark.parametrize("options", [{}, {"per_video": 2}, {"filters": Filters(within=("even",))}])
def test_pages_are_the_moments_of_all_windows_and_the_vectors_are_looked_at_once(
    catalogue, exact, monkeypatch, fewest, options
):
    monkeypatch.setattr("reelspace.index.searcher.FEWEST", fewest)
    passes = []
    scan = MatrixStore.scan
    monkeypatch.setattr(MatrixStore, "scan", lambda *args: passes.append(1) or scan(*args))
    (space,) = catalogue.spaces()
    stored = catalogue.vectors(space)
    windows, vectors = catalogue.windows(stored.ids()), stored.vectors(stored.ids())
    spread = vectors @ queries(1)[0]
    scored = [Scored(w.hash, w.start, w.end, float(s)) for w, s in zip(windows, spread, strict=True)]
    if "filters" in options:
        scored = [one for one in scored if int(one.video, 16) % 2 == 0]
    taken, expected = Counter(), []
    for moment in moments(rank(scored), float(spread.std())):
        if taken[moment.video] != options.get("per_video"):
            taken[moment.video] += 1
            expected.append((moment.video, moment.start, moment.end))
    found = pages(catalogue, exact, queries(1)[0], **options)
    assert [(hit.video, hit.start, hit.end) for hit in found] == expected
    assert len(passes) == len(found) // K + 1


def test_filters_are_looked_up_once_until_the_catalogue_changes(catalogue, monkeypatch):
    looked = []
    look = Catalogue.dated_files
    monkeypatch.setattr(Catalogue, "dated_files", lambda self: looked.append(1) or look(self))
    selections, even = Selections(catalogue), Filters(within=("even",))
    assert len(selections.of(even)) == len(selections.of(even)) == VIDEOS // 2
    assert len(looked) == 1
    assert len(selections.of(Filters(duration=(None, 10)))) == 0
    assert len(looked) == 2
    other = Catalogue(catalogue.path)
    with other.transaction():
        other.set("something", "else")
    other.close()
    selections.of(even)
    assert len(looked) == 3
