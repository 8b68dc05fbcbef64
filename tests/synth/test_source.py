import csv
import json
from collections import Counter

import pytest

from reelspace.errors import ReelspaceError
from reelspace.synth.config import Config, TableSource, WorldsSource, read
from reelspace.synth.source import Drawn, Source, at_rest, drawn
from reelspace.worlds.facts import facts


def test_faults_are_put_in_as_often_as_asked_for_and_are_faults():
    source = WorldsSource(kind="worlds", count=200, wrong=0.3, still=0.1, junk=0.1, copies=0.05)
    made = list(drawn(source, 5))
    assert made == list(drawn(source, 5)) and isinstance(made[0], Drawn)
    count = Counter(pair.fault for pair in made)
    for fault, share in (("wrong", 0.3), ("still", 0.1), ("junk", 0.1), ("copy", 0.05)):
        assert abs(count[fault] / 200 - share) < 0.07
    for pair in made:
        true = pair.said is not None and pair.stated <= facts(pair.scene)
        assert true == (pair.said is pair.scene)
        assert pair.fault != "still" or at_rest(pair.scene)
        assert (pair.fault == "junk") == (pair.said is None)
    assert sum(pair.fault == "wrong" and pair.said is pair.scene for pair in made) < 5


class Work:
    def __init__(self, source, out):
        self.config = Config.model_validate({"source": source.model_dump(), "mllm": {"kind": "oracle"}})
        self.out = out


LINES = [
    {"video": "a.mp4", "text": "a dog, runs", "licence": "CC-BY"},
    {"video": "b.mp4@1-2.5", "text": "", "language": "en"},
]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_lists_of_every_kind_are_read(tmp_path, kind):
    path = tmp_path / f"pairs.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, LINES)) + "\n\n")
    elif kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["video", "text", "licence", "language"])
            writer.writeheader()
            writer.writerows(LINES)
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist([{"licence": None, "language": None} | line for line in LINES]), path)
    (tmp_path / "flow.toml").write_text(
        f'[source]\nkind = "table"\npath = "pairs.{kind}"\n[mllm]\nkind = "oracle"\n[filter]\n'
    )
    source = read(tmp_path / "flow.toml").source
    assert isinstance(source, TableSource)
    one, other = (asset.raw for asset in Source().run([], Work(source, tmp_path / "set")))
    assert (one.video, one.start, one.end) == (str(tmp_path / "a.mp4"), 0.0, None)
    assert (other.video, other.start, other.end) == (str(tmp_path / "b.mp4"), 1.0, 2.5)
    assert (one.text, one.licence, other.text, other.language) == ("a dog, runs", "CC-BY", "", "en")
    assert one.id != other.id


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ('{"text": "no video"}', "row 1 has no “video”"),
        ('{"id": "x", "video": "a"}\n{"id": "x", "video": "b"}', "“x” twice"),
        ("{", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(tmp_path, lines, error):
    (tmp_path / "pairs.jsonl").write_text(lines)
    source = TableSource(kind="table", path=tmp_path / "pairs.jsonl", root=tmp_path)
    with pytest.raises(ReelspaceError, match=error):
        list(Source().run([], Work(source, tmp_path / "set")))


def test_paths_inside_the_dataset_are_kept_relative(tmp_path):
    (tmp_path / "pairs.jsonl").write_text('{"video": "set/videos/a.mp4", "text": "x"}')
    source = TableSource(kind="table", path=tmp_path / "pairs.jsonl", root=tmp_path)
    (asset,) = Source().run([], Work(source, tmp_path / "set"))
    assert asset.raw.video == "videos/a.mp4"
