import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from reelspace.embed.base import normalise
from reelspace.errors import ItemError
from reelspace.item import Span
from reelspace.rank.layers import Pair, measured, plotted, read_pairs

TAPS = [(layer, norm) for layer in range(5) for norm in (True, False)]


def pairs(count):
    return [Pair(f"text {number}", Span(Path(f"{number}.mp4"))) for number in range(count)]


def rows(noise, count=80, dim=16, seed=0):
    """Texts and videos `[taps, n, d]` whose pairs are apart by `noise` of each tap."""
    random = np.random.default_rng(seed)
    meaning = random.standard_normal((count, dim))
    sides = [
        np.stack([normalise(meaning + much * random.standard_normal((count, dim))) for much in noise]) for _ in range(2)
    ]
    return sides[0].astype(np.float32), sides[1].astype(np.float32)


def test_the_best_layer_is_picked_and_it_is_beyond_the_last():
    found = measured(*rows([9, 9, 3, 3, 1, 0.5, 0.2, 0.9, 2, 2]), pairs(80), TAPS)
    assert (found.picked.layer, found.picked.norm) == (3, True)
    assert found.over_last.low > 0.1 and found.held_out > 0.9
    for layer in found.layers:
        for value in (layer.recall, layer.text_to_video, layer.video_to_text, layer.alignment, layer.uniformity):
            assert value.low <= value.value <= value.high
        assert layer.recall.value == pytest.approx((layer.text_to_video.value + layer.video_to_text.value) / 2)
    by_layer = {(layer.layer, layer.norm): layer for layer in found.layers}
    assert by_layer[3, True].alignment.high < by_layer[0, True].alignment.low


def test_the_interval_is_that_of_the_sample():
    """As wide as the binomial one, and it holds the truth about as often as it says."""
    one = [(0, True)]
    drawn = [rows([1.3], count=60, dim=6, seed=seed) for seed in range(300)]
    right = [float(np.mean((texts[0] @ videos[0].T).argmax(axis=1) == np.arange(60))) for texts, videos in drawn]
    truth, found = np.mean(right), [measured(*both, pairs(60), one).layers[0].text_to_video for both in drawn[:40]]
    assert sum(one.low <= truth <= one.high for one in found) >= 34
    widths = [one.high - one.low for one in found]
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.sqrt(truth * (1 - truth) / 60), rel=0.15)


def test_alignment_and_uniformity_are_wang_and_isolas():
    texts, videos = rows([0.7], count=20)
    layer = measured(texts, videos, pairs(20), [(0, True)]).layers[0]
    apart = [np.sum((one - other) ** 2) for one, other in zip(texts[0], videos[0], strict=True)]
    assert layer.alignment.value == pytest.approx(np.mean(apart), rel=1e-5)
    means = []
    for side in (texts[0], videos[0]):
        kernel = [np.exp(-2 * np.sum((a - b) ** 2)) for i, a in enumerate(side) for j, b in enumerate(side) if i != j]
        means.append(np.log(np.mean(kernel)))
    assert layer.uniformity.value == pytest.approx(np.mean(means), rel=1e-4)


def test_a_layer_that_says_nothing_is_at_chance():
    same = np.ones((1, 20, 4), np.float32) / 2
    assert measured(same, same, pairs(20), [(0, True)]).layers[0].recall.value == pytest.approx(1 / 20)


def test_any_video_of_a_text_is_right():
    texts, videos = rows([0.0], count=4)
    named = [
        Pair("a", Span(Path("1"))),
        Pair("a", Span(Path("2"))),
        Pair("b", Span(Path("3"))),
        Pair("c", Span(Path("3"))),
    ]
    videos[:, [0, 1]] = videos[:, [1, 0]]
    videos[:, [2, 3]] = videos[:, [3, 2]]
    found = measured(texts, videos, named, [(0, True)])
    assert found.layers[0].recall.value == 1.0 and found.dual == {}


def test_dual_softmax_is_reported_apart():
    texts, videos = rows([0.8], count=120, dim=24)
    videos[:, ::7] = normalise(videos[:, ::7] + 2 * texts.mean(axis=1, keepdims=True))
    plain = measured(texts, videos, pairs(120), [(0, True)])
    assert plain.dual["pairs"] == 60
    assert plain.dual["text_to_video_dual"] >= plain.dual["text_to_video"]
    assert plain.layers[0].recall.value == measured(texts, videos, pairs(120), [(0, True)]).picked.recall.value


def test_the_plot_is_an_svg_of_every_layer():
    found = measured(*rows([1] * len(TAPS)), pairs(80), TAPS)
    root = ElementTree.fromstring(plotted(found, "a <model> & more"))
    lines = [one for one in root if one.tag.endswith("polyline")]
    assert [len(line.get("points").split()) for line in lines] == [5, 5]
    assert any(one.text == "a <model> & more" for one in root)


def test_pairs_are_read_from_csv_and_json_lines(tmp_path):
    table = tmp_path / "pairs.csv"
    table.write_text('\ufefftext,path,start,end\n"a dog, barking",a.mp4,,\ntwo,sub/b.mp4,1:02.5,70\n', "utf-8")
    lines = tmp_path / "pairs.jsonl"
    lines.write_text(
        json.dumps({"text": "a dog, barking", "path": "a.mp4"})
        + "\n\n"
        + json.dumps({"text": "two", "path": "sub/b.mp4", "start": 62.5, "end": 70})
    )
    expected = [
        Pair("a dog, barking", Span(tmp_path / "a.mp4")),
        Pair("two", Span(tmp_path / "sub" / "b.mp4", 62.5, 70.0)),
    ]
    assert read_pairs(table) == read_pairs(lines) == expected


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("text,file\na,b\n", ":2: there is no 'path'"),
        ("text,path\n ,b.mp4\nc,d.mp4\n", ":2: .*blank"),
        ("text,path,start,end\na,b.mp4,soon,\n", ":2: .*no.* a time|:2: .*is not a time"),
        ("text,path,start,end\na,b.mp4,5,4\n", ":2: .*span"),
        ("text,path\na,b.mp4\n", "1 pairs"),
        ('{"text": "a"\n', ":1: is no JSON"),
        ('{"text": "a", "path": "b"}\n[]\n', ":2: .*object"),
    ],
)
def test_pairs_that_cannot_be_read(tmp_path, content, why):
    path = tmp_path / "pairs"
    path.write_text(content)
    with pytest.raises(ItemError, match=why):
        read_pairs(path)


def test_a_real_model_is_probed_from_the_command_line(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    import tinies
    from clips import Scene, write_clip
    from reelspace.cli import app

    monkeypatch.chdir(tmp_path)
    tinies.write(tmp_path / "model")
    for number in range(4):
        write_clip(f"{number}.mp4", scenes=[Scene(1, seed=number)], size=(96, 64), fps=8, barcode=False, gop=8)
    Path("broken.mp4").write_bytes(b"junk" * 99)
    lines = [
        "text,path,start,end",
        "one,0.mp4,,",
        "two,1.mp4,0,0.5",
        "three,2.mp4,,",
        "four,3.mp4,,",
        "five,broken.mp4,,",
    ]
    Path("pairs.csv").write_text("\n".join(lines))
    arguments = ["models", "probe-layers", "model", "--pairs", "pairs.csv"]
    done = CliRunner().invoke(app, [*arguments, "--plot", "curve.svg", "--json"])
    assert done.exit_code == 1, done.output
    report = json.loads(done.stdout)
    assert (report["pairs"], len(report["layers"]), len(report["failed"])) == (4, 8, 1)
    assert "broken.mp4" in done.stderr and 0 <= report["picked"]["layer"] <= 3
    assert set(report["layers"][0]["recall"]) == {"value", "low", "high"}
    assert Path("curve.svg").read_text().startswith("<svg")
    shown = CliRunner().invoke(app, arguments)
    assert "Chosen on one half" in shown.stdout and len(shown.stdout.splitlines()) >= 12
    assert CliRunner().invoke(app, ["models", "probe-layers", "lite", "--pairs", "pairs.csv"]).exit_code == 2
