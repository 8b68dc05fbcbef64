import json
import re
from xml.etree import ElementTree

import pytest

from reelspace.errors import ReelspaceError
from reelspace.uvrb.models import open_model
from reelspace.uvrb.protocol import Protocol
from reelspace.uvrb.results import read
from reelspace.uvrb.run import Suite
from reelspace.uvrb.sweep import Sweep, plot, settings, sweep


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


def test_a_task_stands_alone_where_its_ability_is_not_whole():
    made = Sweep("frames", "worlds", "m", {2: {"CRB-S": 0.2, "VDC-O": 0.4, "MSRVTT": 0.5}})
    assert made.lines == {"S": {2: pytest.approx(0.3)}, "MSRVTT": {2: 0.5}}


def test_a_small_difference_is_drawn_small():
    picture = plot({"A": {8: 0.3, 16: 0.302}, "B": {8: 0.3, 16: 0.3}}, "frames", "m")
    heights = [float(y) for line in re.findall(r'points="([^"]+)"', picture) for _, y in [line.split()[-1].split(",")]]
    assert 0 < heights[1] - heights[0] < 10  # of 340
    assert ">0.30</text>" in picture
    assert ">0.40</text>" in picture
    whole = plot({"A": {8: 0.0, 16: 1.0}}, "frames", "m")
    assert re.findall(r'end">([\d.]+)<', whole) == ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00"]


def test_settings_vary_one_thing():
    assert settings("frames", [8, 48], Protocol()) == {8: Protocol("uniform(8)"), 48: Protocol("uniform(48)")}
    assert settings("tokens", [200], Protocol()) == {200: Protocol("uniform(8)", 200)}


def test_a_picture_of_one_setting_and_equal_scores_is_no_error():
    ElementTree.fromstring(plot({"A & B": {8: 0.5}, "C": {8: 0.5}}, "frames", "m <1>"))
