"""Signals through the library: what is said, written and named beside what is seen."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import sketch
from conftest import colour_clip
from reelspace import Item, Library
from reelspace.errors import LibraryError
from reelspace.index.catalogue import Catalogue
from reelspace.index.query import Question, as_items
from reelspace.index.searcher import Filters
from reelspace.signals.base import SignalError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The model `sketch` is installed for all tests of this module."""
    path = sketch.install(tmp_path_factory.mktemp("plugin"))
    sys.path.insert(0, str(path))
    yield
    sys.path.remove(str(path))


def films(folder):
    """Four clips with names and tags."""
    (folder / "2023 Italy").mkdir(parents=True)
    colour_clip(folder / "2023 Italy" / "colosseum_walk.mp4", "red", "green", metadata={"title": "Ancient Rome"})
    colour_clip(folder / "2023 Italy" / "gelato-tasting.mp4", "blue")
    colour_clip(folder / "IMG_2034.mp4", "yellow", metadata={"comment": "The quarterly pricing meeting"})
    colour_clip(folder / "birthday.mp4", "grey")
    return folder


@pytest.fixture(scope="module")
def named(tmp_path_factory, model):
    """A library of those clips whose names are known. Tests search it and leave it as it is."""
    folder = films(tmp_path_factory.mktemp("named") / "Films")
    with Library.open(folder.parent / "library", model="sketch") as library:
        library.index(folder, signals="names")
        yield library


@pytest.fixture
def own(tmp_path, named):
    """A copy of it, and of its folder, to change."""
    shutil.copytree(named.path.parent / "Films", tmp_path / "Films")
    with Library.open(tmp_path / "library", model="sketch") as library:
        library.index(tmp_path / "Films", signals="names")
        yield library, tmp_path / "Films"


def names(report):
    return [hit.path.rpartition("/")[2] for hit in report.hits]


def test_what_is_named_is_found_by_words_and_by_meaning(named):
    library = named
    assert names(library.search("colosseum", by="named"))[0] == "colosseum_walk.mp4"
    assert names(library.search("the Roman empire", by="named"))[0] == "colosseum_walk.mp4"
    report = library.search("the meeting about prices", by="named")
    evidence = report.hits[0].found[0]
    assert (evidence.by, evidence.source, evidence.text) == ("named", "comment", "The quarterly pricing meeting")
    assert (report.by, report.match) == (["named"], True)
    assert library.search("submarine volcano", by="named").match is False


def test_quoted_words_are_matched_exactly(named):
    library = named
    assert names(library.search('"pricing meeting"', by="named")) == ["IMG_2034.mp4"]
    assert names(library.search('"meeting pricing"', by="named")) == []
    assert names(library.search('"prices"', by="named")) == []
    assert library.search('"prices"').match is False
    assert names(library.search('"IMG_2034"')) == ["IMG_2034.mp4"]


def test_one_word_of_several_is_usually_about_something_else(named):
    library = named
    for whole, part, name in (
        ("gelato tasting", "tasting expensive wine", "gelato-tasting.mp4"),
        ("colosseum walk", "walk submarine volcano", "colosseum_walk.mp4"),
    ):
        reports = [library.search(text, by="named") for text in (whole, part)]
        assert [report.match for report in reports] == [True, False]
        assert {names(report)[0] for report in reports} == {name}


def test_what_asks_for_something_visible_must_be_nearer_to_be_an_answer(named):
    def least(text):
        asking = Question(as_items(text), (), None)
        searcher = named._signalled(asking, ("named",), Filters((), (None, None), (None, None)))
        return searcher._wordings["named"].least(searcher._asked)

    visible, heard = ["a bee on a flower", "a sports car", "a brown dog"], ["why prices rise", "how long it takes"]
    assert min(map(least, visible)) > max(map(least, heard)) + 0.05


@pytest.mark.parametrize("signs", ["*", "(", '"', '""', "…", "🎬", "— ; --"])
def test_signs_alone_are_no_words(named, signs):
    assert names(named.search(signs, by="named")) == []
    assert {one.by for hit in named.search(signs).hits for one in hit.found} == {"seen"}


def test_a_signal_that_found_nothing_answers_that_nothing_fits(own):
    library, _ = own
    with pytest.raises(SignalError, match="--signals speech"):
        library.search("colosseum", by="said")
    library.index(signals="speech")
    report = library.search("colosseum", by="said")
    assert (report.hits, report.match) == ([], False)


def test_what_several_signals_find_rises_and_says_so(own):
    library, folder = own
    alone = library.search("red birthday", by="seen")
    assert names(alone)[0] == "colosseum_walk.mp4"
    colour_clip(folder / "red birthday.mp4", "red", "blue")
    library.index()
    report = library.search("red birthday")
    assert names(report)[0] == "red birthday.mp4"
    assert {one.by for one in report.hits[0].found} == {"seen", "named"}
    assert (report.hits[0].start, report.hits[0].end) == (0.0, 2.0)  # what is seen says when
    assert [hit.rank for hit in report.hits] == list(range(1, len(report.hits) + 1))


def test_a_library_without_signals_answers_as_ever(folder, library):
    library.index(folder)
    report = library.search("red")
    assert report.by == ["seen"]
    assert [one.by for one in report.hits[0].found] == ["seen"]
    assert report.hits[0].found[0].score == report.hits[0].score
    with pytest.raises(SignalError, match="--signals names"):
        library.search("red", by="named")


def test_a_signal_is_added_later_without_touching_what_is_there(tmp_path, folder, library):
    library.index(folder)
    before = library.search("red", k=50)
    report = library.index(signals="names")
    assert (report.embedded, report.unchanged) == (0, 6)
    assert [(one.signal, one.videos, one.passages, one.failed) for one in report.signals] == [("names", 6, 6, 0)]
    assert library.search("red", by="seen", k=50) == before
    again = library.index()
    assert [(one.videos, one.passages) for one in again.signals] == [(0, 0)]


def test_signals_stay_until_they_are_taken_back_and_what_was_found_stays(own):
    library, folder = own
    colour_clip(folder / "later.mp4", "magenta")
    assert [one.videos for one in library.index().signals] == [1]
    assert names(library.search("later", by="named"))[0] == "later.mp4"
    assert library.index(signals=()).signals == []
    colour_clip(folder / "unnamed.mp4", "cyan")
    assert library.index().signals == []
    assert [(state.signal, state.kept, state.videos) for state in library.status().signals] == [("names", False, 5)]
    assert names(library.search("later", by="named"))[0] == "later.mp4"


def test_a_renamed_file_has_its_new_name_and_a_copy_its_own(own):
    library, folder = own
    (folder / "birthday.mp4").rename(folder / "graduation.mp4")
    shutil.copy(folder / "IMG_2034.mp4", folder / "boardroom.mp4")
    library.index()
    assert names(library.search('"graduation"')) == ["graduation.mp4"]
    assert names(library.search('"birthday"')) == []
    hit = library.search("boardroom", by="named").hits[0]
    assert (hit.path, hit.copies) == (str(folder / "boardroom.mp4"), [str(folder / "IMG_2034.mp4")])


def test_subtitles_beside_any_copy_tell_what_is_said(own):
    library, folder = own
    library.index(signals="speech")
    assert names(library.search('"colosseum closes"', by="said")) == []
    shutil.copy(folder / "birthday.mp4", folder / "zoo.mp4")
    (folder / "zoo.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nThe Colosseum closes at nine.\n")
    assert [one.videos for one in library.index(signals="speech").signals if one.signal == "speech"] == [1]
    hit = library.search('"colosseum closes"', by="said").hits[0]
    assert {Path(path).name for path in (hit.path, *hit.copies)} == {"birthday.mp4", "zoo.mp4"}
    assert hit.found[0].source == "zoo.srt"
    (folder / "zoo.srt").unlink()
    library.index()
    assert names(library.search('"colosseum closes"', by="said")) == []


def test_a_text_that_says_nothing_is_near_to_nothing(own):
    library, folder = own
    (folder / "birthday.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nA\n")
    library.index(signals="speech")
    for text in ("a mushroom", "a teapot", "pencils"):
        report = library.search(text, by="said")
        assert (report.hits, report.match) == ([], False)
    assert names(library.search('"a"', by="said")) == ["birthday.mp4"]


def test_filters_pages_and_a_limit_a_video_hold(named):
    library = named
    assert names(library.search("rome", within="*gelato*")) == ["gelato-tasting.mp4"]
    assert library.search("pricing", by="named", within="*gelato*").match is False
    assert names(library.search('"pricing"', within="*gelato*")) == []
    whole = library.search("red colosseum", k=50).hits
    paged = [hit for page in (1, 2, 3) for hit in library.search("red colosseum", k=2, page=page).hits]
    assert paged == whole[:6]
    one_each = library.search("red colosseum", k=50, per_video=1)
    assert len({hit.video for hit in one_each.hits}) == len(one_each.hits) == 4


def test_what_is_not_wanted_is_left_out(named):
    library = named
    assert set(names(library.search("italy", by="named"))) >= {"colosseum_walk.mp4", "gelato-tasting.mp4"}
    assert names(library.search("italy", by="named", without="gelato tasting"))[0] == "colosseum_walk.mp4"
    left = library.search('"italy"', by="named", without='"colosseum walk"')
    assert names(left) == ["gelato-tasting.mp4"]


def test_a_picture_alone_has_no_words_to_look_for(named):
    library = named
    picture = Item(image=np.full((8, 8, 3), (255, 0, 0), np.uint8))
    assert library.search(picture).by == ["seen"]
    with pytest.raises(SignalError, match="words"):
        library.search(picture, by="named")
    assert library.search(Item(text="colosseum", image=picture.image)).by == ["seen", "named"]


def test_the_cost_is_told_before_and_progress_goes_on(tmp_path, folder, library):
    library.index(folder)
    told, states = [], []

    def announce(costs):
        assert states == []
        told.extend(costs)

    def progress(state):
        if told:
            states.append(state)

    library.index(signals=["names"], announce=announce, progress=progress)
    assert [(cost.signal, cost.videos, cost.measured) for cost in told] == [("names", 6, False)]
    assert told[0].seconds == pytest.approx(3 * 9, abs=10)
    assert states[-1].files_done == states[-1].files_total == 6


def test_an_interrupt_keeps_what_was_done_and_the_next_run_goes_on(folder, library, monkeypatch):
    library.index(folder)
    from reelspace.signals.finders import Names

    find, calls = Names.find, []

    def failing(self, *rest):
        calls.append(rest[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return find(self, *rest)

    monkeypatch.setattr(Names, "find", failing)
    with pytest.raises(KeyboardInterrupt):
        library.index(signals="names")
    report = library.index()
    assert report.signals[0].videos == 4
    assert library.status().signals[0].videos == 6


def test_texts_of_another_text_model_are_made_anew(own):
    library, _ = own
    writer = Catalogue(library.path / "catalogue.sqlite")
    with writer.transaction():
        writer.set("text-model", "another")
    before = writer.texts.ids()
    with pytest.raises(LibraryError, match="bring them up to date"):
        library.search("colosseum")
    library.index()
    assert writer.texts.ids().min() > before.max()
    assert names(library.search("colosseum", by="named"))[0] == "colosseum_walk.mp4"
    writer.close()


def test_the_cache_of_texts_may_be_deleted_at_any_time(named):
    library = named
    before = library.search("ancient city", by="named")
    (caches,) = (library.path / "cache").glob("texts-*")
    shutil.rmtree(caches)
    assert library.search("ancient city", by="named") == before
    with Library.open(library.path, create=False) as other:
        assert other.search("ancient city", by="named") == before


def test_unknown_signals_are_refused_before_anything_begins(folder, library):
    with pytest.raises(SignalError, match="smell"):
        library.index(folder, signals="smell")
    assert library.status().indexed == 0
