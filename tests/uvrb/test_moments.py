import json
import shutil
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from reelspace.cli import app
from reelspace.errors import ReelspaceError
from reelspace.uvrb.moment_files import load, predictions, write
from reelspace.uvrb.moment_search import answer
from reelspace.uvrb.moments import (
    LENGTHS,
    THRESHOLDS,
    Asked,
    Predicted,
    average_precision,
    best_overlap,
    measure,
    of_length,
)

# The definition once more, in exact fractions and with another reading of it: the area under the interpolated
# precision is found by asking, for every step of recall, for the best precision at that recall or beyond.


def overlap(a, b):
    inside = min(a[1], b[1]) - max(a[0], b[0])
    if inside <= 0:
        return Fraction(0)
    return Fraction(inside) / (Fraction(a[1] - a[0]) + Fraction(b[1] - b[0]) - Fraction(inside))


def exact_precision(given, truths, threshold):
    ten = list(given[:10])
    ranked = [ten[place] for place in sorted(range(len(ten)), key=lambda place: (-ten[place][2], place))]
    left, right = list(range(len(truths))), []
    for one in ranked:
        reach = [(overlap(one, truths[k]), k) for k in left if overlap(one, truths[k]) >= threshold]
        right.append(bool(reach))
        if reach:
            left.remove(max(reach)[1])
    points = []
    for k in range(1, len(right) + 1):
        hits = sum(right[:k])
        points.append((Fraction(hits, len(truths)), Fraction(hits, k)))
    area = Fraction(0)
    for step in range(1, len(truths) + 1):
        recall = Fraction(step, len(truths))
        area += Fraction(1, len(truths)) * max((p for r, p in points if r >= recall), default=Fraction(0))
    return area


@st.composite
def spans(draw, scored):
    start = draw(st.integers(0, 40))
    length = draw(st.integers(1, 20))
    return (start, start + length, draw(st.integers(0, 6))) if scored else (start, start + length)


@settings(max_examples=60)
@given(st.lists(spans(True), max_size=14), st.lists(spans(False), min_size=1, max_size=5, unique=True))
def test_average_precision_is_what_the_definition_says(given_spans, truths):
    found = average_precision([Predicted(*one) for one in given_spans], truths)
    exact = [exact_precision(given_spans, truths, Fraction(50 + 5 * k, 100)) for k in range(10)]
    assert found.tolist() == pytest.approx([float(area) for area in exact], abs=1e-12)


def test_ten_predictions_count_and_no_more():
    wrong = [Predicted(50 + k, 51 + k, 1.0) for k in range(10)]
    right = Predicted(0, 10, 9.0)
    assert average_precision([*wrong[:9], right], [(0, 10)])[0] == 1.0  # sorted by score among the ten
    assert average_precision([*wrong, right], [(0, 10)])[0] == 0.0


def test_a_truth_is_found_once():
    twice = [Predicted(0, 10, 0.9), Predicted(0, 10, 0.8), Predicted(20, 30, 0.7)]
    assert average_precision(twice, [(0, 10), (20, 30)])[0] == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(twice[:2], [(0, 10), (20, 30)])[0] == 0.5


def test_a_second_prediction_takes_the_next_truth():
    """Both overlap the first truth best; the second may have the other one, where it reaches the threshold."""
    given_spans = [Predicted(0, 10, 0.9), Predicted(1, 10, 0.8)]
    precision = average_precision(given_spans, [(0, 10), (2, 10)])
    assert precision[THRESHOLDS.index(0.5)] == 1.0
    assert precision[THRESHOLDS.index(0.95)] == 0.5


def test_precision_is_made_to_never_rise():
    """Wrong, right, right: precision 0, 1/2, 2/3; interpolated it is 2/3 for both."""
    given_spans = [Predicted(90, 91, 3), Predicted(0, 10, 2), Predicted(20, 30, 1)]
    assert average_precision(given_spans, [(0, 10), (20, 30)])[0] == pytest.approx(2 / 3)


def test_thresholds_have_no_dust():
    assert THRESHOLDS == (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
    assert average_precision([Predicted(0, 11)], [(0, 20)]).tolist() == [1, 1] + [0] * 8  # IoU 0.55


def test_recall_takes_the_first_span_as_given_and_the_truth_it_overlaps_best():
    assert best_overlap([Predicted(0, 10, 0.1), Predicted(20, 30, 0.9)], [(40, 50), (0, 8), (0, 9)]) == 0.9
    assert best_overlap([], [(0, 1)]) == 0


QUERIES = [
    Asked("a", "one short", "v", ((0.0, 10.0),)),
    Asked("b", "one of each", "v", ((0.0, 8.0), (10.0, 30.0), (40.0, 100.0))),
    Asked("c", "long", "w", ((0.0, 150.0),)),
]
GIVEN = {
    "a": [Predicted(0, 10, 1)],
    "b": [Predicted(41, 100, 3), Predicted(0, 8, 2), Predicted(60, 61, 1)],
}


def test_measures():
    found = measure(QUERIES, GIVEN)
    assert found["R1@0.5"].value == pytest.approx(2 / 3)
    assert found["mIoU"].value == pytest.approx((1 + 59 / 60) / 3)
    assert found["mAP@0.5"].value == pytest.approx((1 + 2 / 3) / 3)
    assert found["mAP"].n == 3
    assert found["R1@0.5"].interval.low < 2 / 3 < found["R1@0.5"].interval.high


def test_by_length_a_query_keeps_the_truths_of_that_length():
    assert [query.qid for query in of_length(QUERIES, *LENGTHS["short"])] == ["a", "b"]
    assert of_length(QUERIES, *LENGTHS["middle"])[0].spans == ((10.0, 30.0),)
    assert [query.qid for query in of_length(QUERIES, *LENGTHS["long"])] == ["b", "c"]
    found = measure(QUERIES, GIVEN)
    # Of b the short truth is second among its predictions, which stay as they are.
    assert (found["mAP short"].value, found["mAP short"].n) == (pytest.approx((1 + 1 / 2) / 2), 2)
    assert (found["mAP middle"].value, found["mAP middle"].n) == (0, 1)
    assert found["R1 long"].value == pytest.approx((1 + 0) / 2)


def test_lengths_are_above_one_end_and_up_to_the_other():
    edges = [Asked("x", "", "v", ((0.0, 10.0), (0.0, 30.0), (0.0, 150.0), (0.0, 151.0)))]
    assert [of_length(edges, *LENGTHS[name])[0].spans for name in LENGTHS] == [
        ((0.0, 10.0),),
        ((0.0, 30.0),),
        ((0.0, 150.0),),
    ]


def test_a_query_without_predictions_is_wrong_not_left_out():
    assert measure(QUERIES, {})["mAP"] == (0.0, measure(QUERIES, {})["mAP"].interval, 3)


def test_what_cannot_be_measured():
    with pytest.raises(ReelspaceError, match="no queries"):
        measure([], {})
    with pytest.raises(ReelspaceError, match="not asked: zz"):
        measure(QUERIES, {"zz": []})


def test_many_at_once_agree_with_the_definition():
    """A whole benchmark's figures against the mean of exact ones."""
    made = np.random.default_rng(3)
    asked, given_spans = [], {}
    for k in range(24):
        starts = made.integers(0, 60, 3)
        truths = tuple((int(s), int(s + made.integers(1, 40))) for s in starts[: 1 + k % 3])
        asked.append(Asked(str(k), "", "v", truths))
        given_spans[str(k)] = [
            (int(s), int(s + made.integers(1, 40)), float(made.integers(5))) for s in made.integers(0, 60, 12)
        ]
    found = measure(asked, {qid: [Predicted(*one) for one in ones] for qid, ones in given_spans.items()})
    each = [
        sum(exact_precision(given_spans[q.qid], q.spans, Fraction(50 + 5 * k, 100)) for k in range(10)) / 10
        for q in asked
    ]
    assert found["mAP"].value == pytest.approx(float(sum(each) / len(each)), abs=1e-12)
    first = [max(overlap(given_spans[q.qid][0], span) for span in q.spans) for q in asked]
    assert found["R1@0.3"].value == sum(one >= Fraction(3, 10) for one in first) / len(first)


# Files


def test_qvhighlights(tmp_path):
    rows = [
        {"qid": 7, "query": "a dog", "vid": "x_60_210", "duration": 150, "relevant_windows": [[0, 10], [20, 24]]},
        {"qid": 8, "query": "a cat", "vid": "y", "duration": 150, "relevant_windows": [[30, 30]]},
    ]
    path = tmp_path / "val.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    loaded = load(path)
    assert loaded.asked == [Asked("7", "a dog", "x_60_210", ((0, 10), (20, 24)), 150)]
    assert loaded.skipped == ["line 2: 30 to 30 s of 150 s is no span"]
    path.write_text('{"qid": 7, "query": "x", "vid": "v", "pred_relevant_windows": [[0, 9, 0.5], [1, 2]]}\n\n', "utf-8")
    assert predictions(path) == {"7": [Predicted(0, 9, 0.5), Predicted(1, 2, 0)]}


def test_charades(tmp_path):
    path = tmp_path / "test.txt"
    path.write_text(
        "3MSZA 24.3 30.4##person turn a light on.\n3MSZA 24.3 30.4##person flipped the switch.\nAAAAA 9.0 4.0##back\n",
        "utf-8",
    )
    loaded = load(path)
    assert [(query.qid, query.text) for query in loaded.asked] == [
        ("3MSZA#0", "person turn a light on."),
        ("3MSZA#1", "person flipped the switch."),
    ]
    assert loaded.asked[0].spans == ((24.3, 30.4),)
    assert loaded.skipped == ["line 3: 9 to 4 s is no span"]


def test_activitynet(tmp_path):
    path = tmp_path / "val_1.json"
    row = {"duration": 55.15, "timestamps": [[0.28, 55.15], [13.79, 54.32], [60, 70]], "sentences": [" a", "b ", "c"]}
    path.write_text(json.dumps({"v_uqiMw7tQ1Cc": row}), "utf-8")
    loaded = load(path)
    assert [query.qid for query in loaded.asked] == ["v_uqiMw7tQ1Cc#0", "v_uqiMw7tQ1Cc#1"]
    assert (loaded.asked[0].text, loaded.asked[1].duration) == ("a", 55.15)
    assert len(loaded.skipped) == 1


@pytest.mark.parametrize(
    ("text", "form", "match"),
    [
        ("hello", None, "in none of the forms"),
        ("v 1 2##x\nv 1##y", None, "not in the form of charades"),
        ('{"qid": 1}', None, "not in the form of qvhighlights"),
        ('{"v": {"timestamps": [[0, 1]], "sentences": []}}', None, "not in the form of activitynet"),
        ("v 2 1##x", None, "no query with a span"),
        ("v 1 2##x", "other", "in none of the forms"),
        ('{"qid": 1, "query": "x", "vid": "v", "relevant_windows": [[0, 1]]}\n' * 2, None, "query 1 is there twice"),
    ],
)
def test_damaged_files(tmp_path, text, form, match):
    path = tmp_path / "file"
    path.write_text(text, "utf-8")
    with pytest.raises(ReelspaceError, match=match):
        load(path, form)


def test_damaged_predictions(tmp_path):
    path = tmp_path / "file"
    path.write_text('{"qid": 1, "pred_relevant_windows": [["x", 2, 3]]}', "utf-8")
    with pytest.raises(ReelspaceError, match="line 1: is no prediction"):
        predictions(path)
    path.write_text('{"qid": 1, "pred_relevant_windows": []}\n' * 2, "utf-8")
    with pytest.raises(ReelspaceError, match="line 2: query 1 has predictions already"):
        predictions(path)


# Answers of a library


@pytest.fixture
def truths(folder):
    """Moments in three clips, one of them twice, and one of a video that is not there."""
    path = folder / "test.txt"
    path.write_text("red-green 0.0 3.0##red\nred-green 3.0 6.0##green\nred 0.0 3.0##red\ngone 1.0 2.0##red\n", "utf-8")
    return path


def test_a_library_answers_within_the_video_that_is_asked_of(library, folder, truths):
    library.index(folder)
    asked = load(truths).asked
    done = []
    found = answer(library, asked, done.append)
    assert found.failures == {"gone#0": "no file named gone is indexed"}
    assert done == [1, 2, 3, 4]
    best = {qid: (spans[0].start, spans[0].end) for qid, spans in found.predictions.items()}
    assert best["red-green#0"][1] <= 3.5 and best["red-green#1"][0] >= 2.5
    path = folder / "mine.jsonl"
    write(path, asked, found.predictions)
    assert predictions(path).keys() == found.predictions.keys()
    figures = measure(asked[:3], predictions(path))
    assert figures["R1@0.5"].value == 1.0
    assert figures == measure(asked[:3], found.predictions)


def test_names_that_two_files_have_are_told(library, folder, truths):
    (folder / "more").mkdir()
    shutil.copy(folder / "green.mp4", folder / "more" / "red.mp4")
    library.index(folder)
    assert "several files are named red" in answer(library, load(truths).asked).failures["red#0"]


def test_the_command_measures_a_library_and_a_file_alike(library, folder, truths, tmp_path):
    library.index(folder)
    library.close()
    mine = tmp_path / "mine.jsonl"
    run = partial(CliRunner().invoke, app)
    asked = run(["uvrb", "moments", str(truths), "--library", str(tmp_path / "library"), "-o", str(mine), "--json"])
    assert asked.exit_code == 1, asked.output
    told = json.loads(asked.stdout)
    assert told["failures"] == {"gone#0": "no file named gone is indexed"}
    assert told["figures"]["R1@0.5"]["value"] == 1.0
    truths.write_text("".join(truths.read_text("utf-8").splitlines(keepends=True)[:3]), "utf-8")
    read = run(["uvrb", "moments", str(truths), "--predictions", str(mine), "--json"])
    assert read.exit_code == 0
    assert json.loads(read.stdout)["figures"] == told["figures"]
    table = run(["uvrb", "moments", str(truths), "--predictions", str(mine)])
    assert ["R1@0.5", "1.000"] in [line.split()[:2] for line in table.stdout.splitlines()]


def test_the_command_wants_one_source_of_moments(truths):
    done = CliRunner().invoke(app, ["uvrb", "moments", str(truths)])
    assert done.exit_code == 2
    assert "--library or --predictions" in done.output
