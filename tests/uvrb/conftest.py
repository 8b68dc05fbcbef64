"""Tasks in the released layout, of a few colours; `sketch` (tests/sketch.py) tells colours apart."""

import json
import shutil

import pytest
from PIL import Image

import sketch
from conftest import colour_clip
from reelspace.uvrb.tasks import suite

COLOURS = ("red", "green", "blue", "yellow", "cyan", "magenta")


@pytest.fixture(scope="session")
def clips(tmp_path_factory):
    """A clip of half a second a colour, and one that is black."""
    folder = tmp_path_factory.mktemp("colours")
    for name in (*COLOURS, "black"):
        colour_clip(folder / f"{name}.mp4", name, seconds=0.4)
    return folder


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def write_task(root, clips, name, colours=COLOURS, deep=False, files=True):
    """A task whose queries ask for colours, by whatever its queries are made of."""
    task = suite("uvrb")[name]
    folder = root / name
    (folder / "images").mkdir(parents=True)
    (folder / "videos" / ("part" if deep else "")).mkdir(parents=True)
    for colour in colours:
        if files:
            shutil.copy(clips / f"{colour}.mp4", folder / "videos" / ("part" if deep else "") / f"{colour}.mp4")
        Image.new("RGB", (40, 30), sketch.COLOURS.get(colour, (0, 0, 0))).save(folder / "images" / f"{colour}.png")
    given = {
        "text": lambda colour: colour,
        "image": lambda colour: f"{colour}.png",
        "video": lambda colour: f"{colour}.mp4",
    }
    queries = [
        {"id": f"q-{colour}", **{part: given[part](colour) for part in task.query.split("+")}} for colour in colours
    ]
    write_rows(folder / "jsonl" / "queries.jsonl", queries)
    write_rows(folder / "jsonl" / "corpus.jsonl", [{"id": f"v-{c}", "video": f"{c}.mp4"} for c in colours])
    instances = []
    for at, colour in enumerate(colours):
        others = [f"v-{colours[(at + step) % len(colours)]}" for step in (1, 2)]
        instances.append({"qid": f"q-{colour}", "pos": [f"v-{colour}"], **({"neg": others} if task.pooled else {})})
    write_rows(folder / "jsonl" / "instances.jsonl", instances)
    return folder


@pytest.fixture
def data(tmp_path, clips):
    """A folder with MSRVTT, MSRVTT-I2V (whose videos are MSRVTT's), VDC-O (one folder deeper) and MS-TI (pools)."""
    root = tmp_path / "data"
    write_task(root, clips, "MSRVTT")
    write_task(root, clips, "MSRVTT-I2V", files=False)
    write_task(root, clips, "VDC-O", deep=True)
    write_task(root, clips, "MS-TI")
    return root
