import sqlite3

import numpy as np
import pytest

from reelspace.errors import LibraryError
from reelspace.index import catalogue as module
from reelspace.index.catalogue import VERSION, Catalogue, FileRow
from reelspace.index.identity import Stamp
from reelspace.index.texts import DIM, folded, spaced, terms
from reelspace.index.wording import holds, quotes
from reelspace.media.probe import VideoInfo
from reelspace.signals.base import Found, Line, Part, Passage

INFO = VideoInfo(20.0, 640, 360, 500, "h264", created=1e9)
STAMP = Stamp(1, 2, 3)


def first_version(path):
    """A library as the first version made it, with a file in it."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    for statement in module._SCHEMA.split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {module._APPLICATION}")
    db.execute("PRAGMA user_version = 1")
    db.execute("INSERT INTO videos VALUES (1, 'a', 20, 640, 360, 'h264', NULL, NULL, 'shots(2, 10)')")
    db.execute("INSERT INTO files VALUES (1, '/videos/a.mp4', 'indexed', NULL, 1, 1, 2, 3)")
    db.close()


@pytest.fixture
def catalogue(tmp_path):
    opened = Catalogue(tmp_path / "catalogue.sqlite")
    with opened.transaction():
        video = opened.put_video("a", INFO, None, "shots(2, 10)")
        opened.put_file(FileRow("/videos/a.mp4", "indexed", None, video, STAMP))
    yield opened
    opened.close()


def found(*texts, **more):
    lines = [Line(n, n + 1.0, text, "talk.srt", **more) for n, text in enumerate(texts)]
    return Found(lines, [Passage(line.start, line.end, line.text, line.source) for line in lines], "en")


def meanings(count, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def put(catalogue, *texts, signal="speech", version="1"):
    with catalogue.transaction():
        catalogue.texts.put(1, signal, version, found(*texts), meanings(len(texts)))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Große Käse", "grosse kase"),
        ("GROSSE KÄSE", "Große Käse"),
        ("ο δρόμος", "ΔΡΌΜΟΣ"),
        ("\ufb01sh and chips", "FISH AND"),
        ("İstanbul'da", "istanbul"),
        ("cafe\u0301 noir", "Café Noir"),
    ],
)
def test_quoted_words_are_found_in_whatever_case_they_are_written(catalogue, text, asked):
    put(catalogue, text, "something else")
    (phrase,) = quotes(f'"{asked}"')[1]
    (id,) = catalogue.texts.holding(" ".join(phrase), "speech")
    assert holds(catalogue.texts.passages([id])[id].text, phrase)


def test_a_library_of_the_first_version_is_read_as_it_is_and_brought_up_to_date_by_writing(tmp_path):
    path = tmp_path / "catalogue.sqlite"
    first_version(path)
    reading = Catalogue(path, create=False)
    assert (reading.texts, list(reading.files())) == (None, ["/videos/a.mp4"])
    writing = Catalogue(path)
    put(writing, "hello")
    assert list(writing.files()) == ["/videos/a.mp4"]
    assert reading.texts.signals() == ["speech"]  # who had it open sees it too
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert writing.damage() == []
    reading.close()
    writing.close()


def test_bringing_it_up_to_date_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "catalogue.sqlite"
    first_version(path)
    whole = module.texts.SCHEMA
    monkeypatch.setattr(module.texts, "SCHEMA", whole.replace("CREATE TABLE passages", "CREATE TABLE oops passages"))
    with pytest.raises(LibraryError, match="intact"):
        Catalogue(path)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'signals'").fetchone() == (0,)
    db.close()
    monkeypatch.setattr(module.texts, "SCHEMA", whole)
    opened = Catalogue(path)
    assert opened.texts.signals() == []
    opened.close()


def test_lines_come_back_as_they_were(catalogue):
    heard = Line(1.0, 2.5, "pay\0 now", "whisper", "en", 0.5, "unsure", (Part("pay", 1.0, 1.5, None, 0.9),))
    read = Line(3.0, 4.0, "SALE", "rapidocr", None, 0.9, None, (Part("SALE", None, None, (0.1, 0.2, 0.3, 0.4), 0.9),))
    with catalogue.transaction():
        catalogue.texts.put(1, "speech", "1", Found([heard, read], []), meanings(0))
    assert catalogue.texts.lines(1, "speech") == [
        Line(1.0, 2.5, "pay  now", "whisper", "en", 0.5, "unsure", (Part("pay", 1.0, 1.5, None, 0.9),)),
        read,
    ]


def test_a_signal_replaces_what_it_found_and_touches_no_other(catalogue):
    put(catalogue, "old words")
    put(catalogue, "a sign", signal="ocr")
    before = catalogue.texts.of_signal("ocr").tolist()
    put(catalogue, "new words", "more", version="2")
    texts = catalogue.texts
    assert [line.text for line in texts.lines(1, "speech")] == ["new words", "more"]
    assert (texts.holding("old", "speech"), len(texts.holding("new", "speech"))) == ([], 1)
    assert texts.of_signal("ocr").tolist() == before
    assert texts.summary() == {"speech": (1, 0, 2), "ocr": (1, 0, 1)}


def test_a_failure_takes_what_was_found_and_says_why(catalogue):
    put(catalogue, "words")
    with catalogue.transaction():
        catalogue.texts.fail(1, "speech", "1", "no sound")
    assert catalogue.texts.lines(1, "speech") == []
    assert catalogue.texts.notes() == [("/videos/a.mp4", "speech", 1, "no sound")]


def test_text_goes_with_its_content_and_a_name_with_its_file(catalogue):
    put(catalogue, "words of the content")
    with catalogue.transaction():
        catalogue.put_file(FileRow("/videos/copy.mp4", "indexed", None, 1, STAMP))
        for file, video, _path, _duration in catalogue.texts.nameless():
            catalogue.texts.put_name(video, file, found(f"name {file}"), meanings(1))
    assert catalogue.texts.nameless() == []
    with catalogue.transaction():
        catalogue.forget_file("/videos/copy.mp4")
    assert len(catalogue.texts.of_signal("names")) == 1
    assert catalogue.texts.holding("2", "names") == []
    with catalogue.transaction():
        catalogue.forget_file("/videos/a.mp4")
        catalogue.prune_contents()
    assert catalogue.texts.signals() == []
    assert catalogue._db.execute("SELECT count(*) FROM words").fetchone() == (0,)
    assert catalogue.damage() == []


def test_ids_of_passages_are_never_used_twice_and_new_meanings_get_new_ones(catalogue):
    put(catalogue, "one", "two")
    before = catalogue.texts.ids()
    with catalogue.transaction():
        catalogue.texts.renew_meanings(lambda texts: meanings(len(texts), seed=1))
    after = catalogue.texts.ids()
    assert after.min() > before.max()
    assert np.array_equal(catalogue.texts.vectors(after), meanings(2, seed=1))
    assert len(catalogue.texts.holding("two", "speech")) == 1


def test_words_are_found_in_any_form_and_accent(catalogue):
    put(catalogue, "The café raised its prices", "她在讨论价格问题")
    holding = catalogue.texts.holding
    assert holding("cafe", "speech") == holding("pricing", "speech") == holding("raise", "speech") != []
    assert len(holding(" ".join(terms("价格")), "speech")) == 1  # a word in a script without spaces
    assert holding("格价", "speech") == []
    assert spaced("价格 ok") == " 价  格  ok"
    assert terms("PLATFORM9, 3rd") == ["platform", "9", "3", "rd"] == terms("platform 9 3 rd")


def test_what_is_quoted_holds_exactly_or_not_at_all():
    assert quotes('the "Final Price", please') == ("the  Final Price , please", [["final", "price"]])
    assert quotes("plain") == ("plain", [])
    assert quotes('a “b c” "" d')[1] == [["b", "c"]]
    assert holds("The final price is", ["final", "price"])
    assert not holds("The final prices are", ["final", "price"])
    assert not holds("final. A price", ["final", "price"])
    assert holds("Le Café, fermé", terms(folded("café fermé")))
