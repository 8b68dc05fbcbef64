import pytest

from reelspace.errors import ReelspaceError
from reelspace.item import Item
from reelspace.uvrb.data import MSRVTT, MSRVTTI2V, Worlds, dataset, find
from reelspace.uvrb.tasks import suite
from reelspace.worlds.tasks import task as drawn
from uvrb_rows import rewrite

UVRB = suite("uvrb")


def load(data, name, **options):
    return dataset(UVRB[name], data, **options).load()


def test_a_task_is_a_corpus_queries_and_what_is_right(data):
    loaded = load(data, "MSRVTT")
    assert loaded.queries["q-red"].text == "red"
    assert loaded.corpus["v-red"].video.path == data / "MSRVTT" / "videos" / "red.mp4"
    assert loaded.right["q-red"] == {"v-red"}
    assert loaded.pools is None
    assert loaded.chance == pytest.approx(1 / 6)


def test_an_image_task_is_the_text_task_with_one_method_overridden(data):
    assert {name for name in vars(MSRVTTI2V) if not name.startswith("_")} == {"folders", "query"}
    assert issubclass(MSRVTTI2V, MSRVTT)
    loaded = load(data, "MSRVTT-I2V")
    assert loaded.queries["q-red"].parts == ("image",)
    assert loaded.corpus["v-red"].video.path == data / "MSRVTT" / "videos" / "red.mp4"  # it has none of its own


def test_videos_may_lie_a_folder_deeper(data):
    assert load(data, "VDC-O").corpus["v-red"].video.path == data / "VDC-O" / "videos" / "part" / "red.mp4"


def test_a_composed_task_is_asked_among_pools(data):
    loaded = load(data, "MS-TI")
    assert loaded.queries["q-red"].parts == ("image", "text")
    assert loaded.pools["q-red"] == ("v-red", "v-green", "v-blue")
    assert loaded.chance == pytest.approx(1 / 3)


def test_a_composed_task_without_pools_is_refused(data):
    rewrite(data / "MS-TI" / "jsonl" / "instances.jsonl", lambda row: {key: row[key] for key in ("qid", "pos")})
    with pytest.raises(ReelspaceError, match="names no candidates"):
        load(data, "MS-TI")


def test_an_archive_unpacked_into_a_folder_of_its_name_is_found(data, tmp_path):
    deep = tmp_path / "other" / "VDC-O" / "UVRB"
    deep.mkdir(parents=True)
    (data / "VDC-O").rename(deep / "VDC-O")
    assert find(tmp_path / "other", "VDC-O") == deep / "VDC-O"
    with pytest.raises(ReelspaceError, match="fetch CRB-G"):
        find(data, "CRB-G")


def test_a_name_that_leads_out_of_the_folder_is_no_item(data):
    path = data / "MSRVTT" / "jsonl" / "corpus.jsonl"
    rewrite(path, lambda row: row | ({"video": "../../secret.mp4"} if row["id"] == "v-blue" else {}))
    loaded = load(data, "MSRVTT")
    assert [(fault.side, fault.id) for fault in loaded.faults] == [("candidate", "v-blue")]
    assert "leads out" in loaded.faults[0].reason
    assert "v-blue" not in loaded.corpus
    assert loaded.right["q-blue"] == {"v-blue"}  # still asked, and cannot be found


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("instances", lambda row: row | {"qid": "q-none"}, "unknown queries"),
        ("instances", lambda row: row | {"pos": []}, "no query with an answer"),
        ("instances", lambda row: row | {"pos": ["v-none"]}, "no right answer"),
        ("corpus", lambda row: row | {"id": "v-red"}, "twice"),
    ],
)
def test_what_does_not_fit_together_is_refused(data, kind, change, message):
    rewrite(data / "MSRVTT" / "jsonl" / f"{kind}.jsonl", change)
    with pytest.raises(ReelspaceError, match=message):
        load(data, "MSRVTT")


def test_a_blank_text_is_a_fault_and_broken_json_names_its_line(data):
    path = data / "MSRVTT" / "jsonl" / "queries.jsonl"
    rewrite(path, lambda row: row | ({"text": " "} if row["id"] == "q-red" else {}))
    assert [fault.id for fault in load(data, "MSRVTT").faults] == ["q-red"]
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(ReelspaceError, match="line 7, is no JSON"):
        load(data, "MSRVTT")


def test_a_partial_download_is_used_as_far_as_it_goes(data):
    (data / "MSRVTT" / "videos" / "red.mp4").unlink()
    assert "v-red" in load(data, "MSRVTT").corpus  # the whole task: the file will be a failure
    partial = load(data, "MSRVTT", present=True)
    assert "v-red" not in partial.corpus
    assert "q-red" not in partial.right
    assert len(partial.right) == 5


def test_a_limit_keeps_the_first_queries_and_their_answers(data):
    limited = load(data, "MSRVTT").limited(2)
    assert (list(limited.queries), list(limited.corpus)) == (["q-red", "q-green"], ["v-red", "v-green"])
    pooled = load(data, "MS-TI").limited(1)
    assert (list(pooled.queries), sorted(pooled.corpus)) == (["q-red"], ["v-blue", "v-green", "v-red"])


def test_worlds_are_drawn_when_they_are_looked_at(tmp_path):
    loaded = Worlds(suite("worlds")["CRB-T"], tmp_path, "mini").load()
    assert not list(tmp_path.iterdir())
    assert loaded.chance == pytest.approx(drawn("CRB-T", "mini").chance)
    limited = loaded.limited(1)
    assert len(limited.corpus) == 24  # the orders it is asked among
    first = next(iter(limited.corpus.values()))
    assert isinstance(first, Item)
    assert len(list(tmp_path.rglob("*.mp4"))) == 1
