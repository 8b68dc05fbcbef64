import json

import pytest

from reelspace.errors import ReelspaceError
from reelspace.media.decode import sample
from reelspace.media.policy import Sampling, Uniform
from reelspace.train.captions import pairs
from reelspace.train.mixture import TaskConfig, _opened
from reelspace.train.rows import letters
from reelspace.train.worlds import BASE, INFORMED, SUMMARIES, TASKS, UVRD, Drawer, write
from reelspace.worlds.sample import FULL

FORMATS = {
    **{"texts": "T>T", "text to picture": "T>I", "picture to text": "I>T", "composed picture": "TI>I"},
    **{"text to video": "T>V", "UVRD-T2T": "T>T", "UVRD-T2I": "T>I", "UVRD-T2V": "T>V", "UVRD-TI2V": "TI>V"},
    **{"UVRD-TV2V": "TV>V", "UVRD-I2V": "I>V", "UVRD-V2V": "V>V", SUMMARIES: "T>T"},
    **dict.fromkeys(INFORMED, "T>V"),
}


def test_there_are_all_seven_tasks_of_uvrd_and_a_base_of_texts_pictures_and_videos():
    assert set(FORMATS) == set(TASKS) and len(UVRD) == 7 and len(BASE) == 5


@pytest.mark.parametrize("name", TASKS)
def test_rows_are_of_their_format_can_be_read_and_are_always_the_same(name, tmp_path):
    one = write(tmp_path / "one", name, 3, seed=1).read_bytes()
    assert one == write(tmp_path / "other", name, 3, seed=1).read_bytes()
    assert one != write(tmp_path / "third", name, 3, seed=2).read_bytes()
    path = tmp_path / "one" / f"{name.replace(' ', '-')}.jsonl"
    task = _opened(TaskConfig(name=name, source=path, formats=FORMATS[name], batch_size=2), tmp_path, 0)
    for row in task.rows.read([0, 1, 2]):
        for part in (row.query, row.candidate):
            item = task.rows.item(part)
            assert letters(part) in FORMATS[name].split(">")
            if item.video is not None:
                assert len(sample(item.video, Sampling(Uniform(2)))) == 2
            if item.image is not None:
                assert item.image.exists()


def test_captions_are_about_what_the_profile_says(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Drawer, "text", lambda row, drawn, *kinds: asked.append(kinds) or {})
    monkeypatch.setattr(Drawer, "video", lambda row, drawn: {})
    for number in range(300):
        INFORMED["UVRD-T2V 60-30-10"](Drawer(tmp_path, FULL, "train", number))
    assert 0.52 < asked.count(("temporal",)) / 300 < 0.68
    assert 0.22 < asked.count(("spatial", "object")) / 300 < 0.38
    asked.clear()
    INFORMED["UVRD-T2V spatial"](Drawer(tmp_path, FULL, "train", 0))
    assert asked == [("spatial", "object")]


def test_captions_of_a_table_become_rows(tmp_path):
    table = tmp_path / "ufo.csv"
    lines = [
        "ID,Brief Caption,Detailed Caption",
        *(f'{n},"a {n}","a long, long {n}"' for n in range(9)),
        '9,,"x"',
        '0,a 0,"a long, long 0"',
    ]
    table.write_text("\n".join(lines))
    path = pairs(table, tmp_path / "rows.jsonl", count=None)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 9 and rows[3]["query"]["text"] == "a 3" and rows[3]["candidate"]["text"] == "a long, long 3"
    few = pairs(table, tmp_path / "few.jsonl", count=4).read_bytes()
    assert few.count(b"\n") == 4 and few == pairs(table, tmp_path / "few.jsonl", count=4).read_bytes()


def test_a_table_without_captions_says_what_it_has(tmp_path):
    table = tmp_path / "ufo.csv"
    table.write_text("ID,Text\n1,a\n")
    with pytest.raises(ReelspaceError, match="“brief” in its name; its columns are ID, Text"):
        pairs(table, tmp_path / "rows.jsonl")
