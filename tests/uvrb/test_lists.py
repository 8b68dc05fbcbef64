import pytest

import sketch
from reelspace.errors import ReelspaceError
from reelspace.uvrb.lists import labels, pairs, read, readable
from reelspace.uvrb.run import Runner, Suite
from uvrb.conftest import COLOURS


def test_labels_answer_videos(clips, tmp_path):
    listing = tmp_path / "test.csv"
    rows = [f"{colour}.mp4,{colour.capitalize()}" for colour in COLOURS]
    listing.write_text("\n".join(["video,label", *rows, "red.mp4,Red"]), "utf-8")
    labels(listing, tmp_path / "data" / "UCF101", clips)
    labels(listing, tmp_path / "data" / "UCF101", clips)  # again changes nothing
    suite = Suite("classification", "UCF101", tmp_path / "data")
    results = Runner(sketch.load(), suite, tmp_path / "cache").run(tmp_path / "out").results
    told = results.manifest["tasks"]["UCF101"]
    assert (told["queries"], told["corpus"], told["score"]) == (6, 6, 1.0)


def test_texts_and_videos_both_ways(clips, tmp_path):
    listing = tmp_path / "texts.jsonl"
    lines = [f'{{"video": "{colour}.mp4", "text": "{text}"}}' for colour in COLOURS for text in (colour, "a clip")]
    listing.write_text("\n".join(lines), "utf-8")
    pairs(listing, tmp_path / "data", "MSVD", clips)
    suite = Suite("text-video", "MSVD-T2V,MSVD-V2T", tmp_path / "data")
    results = Runner(sketch.load(), suite, tmp_path / "cache").run(tmp_path / "out").results
    told = results.manifest["tasks"]
    assert (told["MSVD-T2V"]["queries"], told["MSVD-T2V"]["corpus"]) == (12, 6)
    assert (told["MSVD-V2T"]["queries"], told["MSVD-V2T"]["corpus"]) == (6, 12)
    assert told["MSVD-V2T"]["score"] == 0.5  # recall: one of two texts is first


@pytest.mark.parametrize(
    ("label", "words"),
    [("BrushHair", "brush hair"), ("brush_hair", "brush hair"), ("Holding [something]", "holding [something]")],
)
def test_labels_as_words(label, words):
    assert readable(label) == words


def test_rows_that_lack_something_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("video,text\na.mp4,\n", "utf-8")
    with pytest.raises(ReelspaceError, match="row 1, has no text"):
        read(path, ("video", "text"))
    path.write_text("video,text\n", "utf-8")
    with pytest.raises(ReelspaceError, match="no rows"):
        read(path, ("video", "text"))
    with pytest.raises(ReelspaceError, match="No such file"):
        read(tmp_path / "none.json", ("video",))
