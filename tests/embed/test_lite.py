"""The built-in model: its contract, its files, and that words do meet pictures."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reelspace import embed
from reelspace.embed.base import Embedder
from reelspace.embed.conformance import violations
from reelspace.embed.lite import attributes, space, vision, weights
from reelspace.errors import EncodeError, ModelError
from reelspace.item import Frames, Item
from reelspace.rank.calibration import calibration_of

PICTURES = Path(__file__).parent / "pictures"
SAMPLES = Path(__file__).parents[2] / "samples"
GOLDEN = [0.0683, 0.5689, 0.0944, 0.0728, 0.0793, 0.1059, 0.1045, 0.4293, 0.347, 0.3692]
NAMES = [path.stem for path in sorted(PICTURES.glob("*.jpg"))]


@pytest.fixture(scope="module")
def lite():
    return embed.load("lite")


@pytest.fixture(scope="module")
def candidates(lite):
    return lite.encode_candidate([Item(image=PICTURES / f"{name}.jpg") for name in NAMES])


def pixels(name):
    return np.asarray(Image.open(PICTURES / f"{name}.jpg").convert("RGB"))


def pan(name, frames=12, step=12):
    """A clip whose camera moves over the picture."""
    wide = np.asarray(Image.fromarray(pixels(name)).resize((224 + frames * step, 224)))
    return Frames(np.stack([wide[:, i * step : i * step + 224] for i in range(frames)]), np.arange(frames) / 4)


def test_it_keeps_the_contract(lite):
    assert isinstance(lite, Embedder)
    assert violations(lite) == []


def test_rows_are_the_same_whatever_the_batch(lite):
    items = [Item(text=text) for text in ("a cat", "a dog on a beach at night", "a cat", "one more cat")]
    items += [Item(image=pixels(name)) for name in NAMES[:2]]
    together = lite.encode_query(items)
    alone = np.concatenate([lite.encode_query([item]) for item in items])
    assert abs(together - alone).max() <= 1e-6
    assert (together[0] == together[2]).all()


def test_what_looks_the_same_is_the_same_to_the_bit(lite):
    """Else chance, and another chance on every machine, would say which of two equal videos comes first."""
    clip = pan("coffee", 4)
    backwards = Frames(clip.pixels[::-1], clip.times)
    others = [Item(image=pixels(name)) for name in NAMES[:3]]
    rows = lite.encode_candidate([Item(video=clip), *others[:1], Item(video=clip), *others])
    alone = [lite.encode_candidate([item])[0] for item in (Item(video=clip), others[2])]
    assert (rows[0] == rows[2]).all()
    assert (rows[0] == alone[0]).all()
    assert (rows[-1] == alone[1]).all()
    assert (rows[0] == lite.encode_candidate([Item(video=backwards)])[0]).all()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a cat", "chelsea"),
        ("a kitten looking at the camera", "chelsea"),
        ("a cup of coffee on a table", "coffee"),
        ("an espresso", "coffee"),
        ("a rocket on its launch pad", "rocket"),
        ("a photographer with a tripod", "camera"),
        ("green lawn", "grass"),
        ("a wall of stones", "brick"),
    ],
)
def test_words_find_pictures(lite, candidates, text, name):
    scores = candidates @ lite.encode_query([Item(text=text)])[0]
    assert NAMES[scores.argmax()] == name


def test_broad_words_find_narrow_classes(lite):
    clips = [path for path in sorted(SAMPLES.iterdir()) if path.suffix in (".mp4", ".mov", ".mkv", ".webm")]
    rows = lite.encode_candidate([Item(video=clip) for clip in clips])
    for text, name in [("a dog", "samoyed"), ("a bird", "cockatoo"), ("a plant", "potted-plant")]:
        assert clips[(rows @ lite.encode_query([Item(text=text)])[0]).argmax()].stem == name


@pytest.mark.parametrize("name", NAMES)
def test_pictures_and_clips_find_each_other(lite, candidates, name):
    darker = (pixels(name)[20:200, 10:190] * 0.7).astype(np.uint8)
    for query in (Item(image=darker), Item(video=pan(name))):
        scores = candidates @ lite.encode_query([query])[0]
        assert NAMES[scores.argmax()] == name


def test_a_mix_lies_between_its_parts(lite, candidates):
    text, image = Item(text="a cup of coffee"), Item(image=pixels("chelsea"))
    scores = candidates @ lite.encode_query([Item(text=text.text, image=image.image)])[0]
    assert {NAMES[row] for row in np.argsort(-scores)[:2]} == {"chelsea", "coffee"}


def test_still_and_moving_clips_are_told_apart(lite):
    moving, still = pan("chelsea"), pan("chelsea", step=0)
    rows = lite.encode_candidate([Item(video=moving), Item(video=still)])
    wants_motion, wants_rest = lite.encode_query([Item(text="a moving cat"), Item(text="a motionless cat")])
    assert np.subtract(*(rows @ wants_motion)) > np.subtract(*(rows @ wants_rest))


def test_colours_and_light_are_named():
    def strongest(colour):
        row = attributes.of_frames([np.full((vision.SIDE, vision.SIDE, 3), colour, np.uint8)], outdoors=0, faces=0)
        return attributes.NAMES[int(row[:11].argmax())], row

    for colour, name in [((220, 20, 30), "red"), ((20, 120, 40), "green"), ((130, 190, 240), "blue"),
                         ((240, 220, 40), "yellow"), ((128, 128, 128), "grey"), ((100, 60, 30), "brown")]:  # fmt: skip
        assert strongest(colour)[0] == name
    night, day = attributes.of_text("a street at night"), attributes.of_text("a sunny street")
    dark, bright = strongest((10, 10, 20))[1], strongest((230, 230, 240))[1]
    assert dark @ night > bright @ night
    assert bright @ day > dark @ day
    assert not attributes.of_text("a redundant nightingale").any()


@pytest.mark.parametrize(
    "item",
    [
        Item(image=np.zeros((1, 1, 3), np.uint8)),
        Item(image=np.full((3, 900, 3), 255, np.uint8)),
        Item(image=Image.new("RGBA", (20, 10))),
        Item(image=Image.new("1", (20, 10))),
        Item(video=Frames(np.zeros((1, 4, 4, 3), np.uint8), np.zeros(1))),
        Item(video=Frames(np.zeros((300, 8, 8, 3), np.uint8), np.arange(300) / 25)),
        Item(text="word " * 5000),
        Item(text="🐈"),
        Item(text="кошка сидит на окне"),
        Item(text="窓辺の猫"),
        Item(text="\x00 \udc80."),
        Item(text="red", image=np.zeros((2, 2, 3), np.uint8), video=pan("grass")),
    ],
    ids=ascii,
)
def test_odd_items_have_vectors(lite, item):
    for encode in (lite.encode_query, lite.encode_candidate):
        row = encode([item])[0]
        assert np.isfinite(row).all()
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


def test_unreadable_pictures_are_named(lite, tmp_path):
    (tmp_path / "notes.jpg").write_text("not a picture")
    (tmp_path / "cut.jpg").write_bytes((PICTURES / "grass.jpg").read_bytes()[:3000])
    items = [Item(image=tmp_path / "notes.jpg"), Item(text="a cat"), Item(image=tmp_path / "cut.jpg")]
    with pytest.raises(EncodeError) as caught:
        lite.encode_candidate(items)
    assert list(caught.value.failures) == [0, 2]
    assert caught.value.positions == [1]
    assert "notes.jpg" in caught.value.failures[0]


def test_a_turned_photograph_is_set_upright(lite, tmp_path):
    upright = Image.open(PICTURES / "rocket.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned a quarter clockwise
    upright.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    rows = lite.encode_query([Item(image=upright), Item(image=tmp_path / "turned.png")])
    assert rows[0] @ rows[1] > 1 - 1e-6


def test_damaged_files_are_refused(tmp_path, monkeypatch):
    shutil.copytree(weights.DATA, tmp_path / "data")
    monkeypatch.setattr(weights, "DATA", tmp_path / "data")
    assert weights.read("space.json")
    (tmp_path / "data/space.json").write_text("{}")
    with pytest.raises(ModelError, match="damaged"):
        weights.read("space.json")
    (tmp_path / "data/space.json").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        weights.read("space.json")


def test_its_files_are_those_declared_and_small():
    names = weights.declared()
    for name in names:
        weights.read(name)
    assert sum(path.stat().st_size for path in weights.DATA.iterdir()) < 40e6


def test_naming_the_model_opens_nothing():
    code = (
        "import sys; from reelspace import embed; embed.load('lite').fingerprint; print('onnxruntime' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "False"


def test_nothing_fits_is_said(lite, candidates):
    calibration = calibration_of(lite)
    verdicts = {}
    for text in ("a cat", "a cup of coffee", "a zebra", "a wedding"):
        query = lite.encode_query([Item(text=text)])[0]
        verdicts[text] = calibration.match("text", query, float((candidates @ query).max()))
    assert verdicts == {"a cat": True, "a cup of coffee": True, "a zebra": False, "a wedding": False}


def test_vectors_are_those_of_the_release(lite):
    """Dot products of fixed inputs: a change here is a new space, and wants a new preparation version or weights."""
    items = [
        Item(text="a cat"),
        Item(text="a red car at night"),
        *(Item(image=pixels(n)) for n in ("chelsea", "rocket")),
    ]
    rows = lite.encode_candidate([*items, Item(video=pan("coffee"))])
    assert (rows @ rows.T)[np.triu_indices(5, 1)] == pytest.approx(GOLDEN, abs=2e-3)


def test_the_example_of_its_page_runs(monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    (example,) = re.findall(r"```python\n(.*?)```", (root / "docs/lite.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, "docs/lite.md", "exec"), {})


def test_a_picture_that_was_there_before_is_not_looked_at_again(monkeypatch):
    monkeypatch.setattr(vision, "REMEMBERED", 2)
    encoder, looked = vision.VisionEncoder(), []
    look = encoder._look
    monkeypatch.setattr(encoder, "_look", lambda picture: looked.append(picture) or look(picture))
    one, two, three = (vision.prepare(np.full((8, 8, 3), shade, np.uint8)) for shade in (0, 90, 180))
    again = vision.prepare(np.full((8, 8, 3), 0, np.uint8))
    first = encoder([one, two, again])
    assert len(looked) == 2
    assert np.array_equal(first.features[0], first.features[2])
    fresh = vision.VisionEncoder()([again])
    assert all(np.array_equal(part[2], own[0]) for part, own in zip(first, fresh, strict=True))
    encoder([three, one])  # three puts out the one that was needed longest ago: two
    encoder([one])
    assert len(looked) == 3
    encoder([two])
    assert len(looked) == 4


def test_what_can_be_seen_is_had_without_the_rest():
    assert (space.things() == space.load().class_texts).all()
