import json
from xml.etree import ElementTree

import pytest

from reelspace.errors import ReelspaceError
from reelspace.uvrb.models import open_model
from reelspace.uvrb.protocol import Protocol
from reelspace.uvrb.results import read
from reelspace.uvrb.run import Suite
from reelspace.uvrb.sweep import plot, settings, sweep


def test_more_frames_of_the_same_model(data, tmp_path):
    suite = Suite("uvrb", "MSRVTT,MSRVTT-I2V", data)
    opened = []

    def open_it(protocol):
        opened.append(open_model("lite", protocol))
        return opened[-1]

    made = sweep(open_it, suite, "frames", [4, 2], tmp_path / "out", tmp_path / "cache")
    assert [str(one.sampling) for one in opened] == ["uniform(2) @ 224 px", "uniform(4) @ 224 px"]
    assert len({one.fingerprint for one in opened}) == 2
    assert list(made.scores) == [2, 4]
    told = json.loads((tmp_path / "out" / "sweep.json").read_text())
    for value in (2, 4):
        results = read(tmp_path / "out" / f"frames-{value}")
        assert results.scores == made.scores[value] == told["tasks"][str(value)]
        assert results.manifest["protocol"]["frames"] == f"uniform({value})"
    picture = ElementTree.parse(tmp_path / "out" / "sweep.svg").getroot()
    assert len(picture.findall("{*}polyline")) == len(made.lines)


def test_a_model_without_a_budget_cannot_be_swept_over_it(data, tmp_path):
    with pytest.raises(ReelspaceError, match="no budget"):
        sweep(lambda p: open_model("lite", p), Suite("uvrb", "MSRVTT", data), "tokens", [200], tmp_path, tmp_path)


def test_settings_vary_one_thing():
    assert settings("frames", [8, 48], Protocol()) == {8: Protocol("uniform(8)"), 48: Protocol("uniform(48)")}
    assert settings("tokens", [200], Protocol()) == {200: Protocol("uniform(8)", 200)}


def test_a_picture_of_one_setting_and_equal_scores_is_no_error():
    ElementTree.fromstring(plot({"A & B": {8: 0.5}, "C": {8: 0.5}}, "frames", "m <1>"))
