import numpy as np
import pytest

from reelspace.errors import ReelspaceError
from reelspace.uvrb.abilities import weights
from reelspace.uvrb.board import board, compare, correlation, correlations, of_papers, of_results
from reelspace.uvrb.results import read
from reelspace.uvrb.statistics import sign_test, wilson
from runs import answers, whole, write_run


@pytest.fixture
def two(tmp_path):
    """Two runs of some tasks: the second is better at CRB-T, and at nothing else."""
    base = {"CRB-T": answers(0.4, 400, 1), "CMRB": answers(0.5, 300, 2), "CRB-S": answers(0.8, 300, 3)}
    better = dict(base)
    better["CRB-T"] = np.maximum(base["CRB-T"], answers(0.12, 400, 9))
    better["CRB-S"] = answers(0.8, 300, 5, like=base["CRB-S"])
    runs = [write_run(tmp_path / "one", "one", base), write_run(tmp_path / "two", "two", better)]
    return [of_results(run) for run in runs]


def test_a_run_knows_its_scores(two):
    one, _ = two
    assert one.value("CRB-T") == pytest.approx(np.mean(list(one.answers("CRB-T").values())))
    assert one.value("T") == pytest.approx((one.value("CRB-T") + one.value("CMRB")) / 2)
    assert one.value("FG") is None
    assert one.interval("FG") is None
    assert one.interval("CRB-T") == wilson(round(one.value("CRB-T") * 400), 400)


def test_the_interval_of_an_ability_is_that_of_the_mean_of_its_tasks(two):
    one, _ = two
    low, high = one.interval("T")
    shares = [one.value(task) for task in ("CRB-T", "CMRB")]
    error = np.sqrt(shares[0] * (1 - shares[0]) / 400 + shares[1] * (1 - shares[1]) / 300) / 2
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.05)


def test_a_paired_difference(two):
    one, other = two
    found = {difference.column: difference for difference in compare(other, one)}
    temporal = found["CRB-T"]
    gaps = [other.answers("CRB-T")[qid] - score for qid, score in one.answers("CRB-T").items()]
    assert temporal.gap == pytest.approx(np.mean(gaps))
    assert (temporal.n, temporal.paired, temporal.exact) == (400, True, sign_test(gaps))
    spread = np.std(gaps) / np.sqrt(400)
    assert temporal.interval == pytest.approx((temporal.gap - 1.96 * spread, temporal.gap + 1.96 * spread), abs=0.004)
    assert temporal.significant
    assert not found["CRB-S"].significant
    assert (found["CMRB"].gap, found["CMRB"].interval, found["CMRB"].p) == (0, (0, 0), 1)
    assert found["T"].gap == pytest.approx(temporal.gap / 2)
    assert found["T"].significant


def test_the_other_way_round_is_the_same_with_another_sign(two):
    one, other = two
    back = {difference.column: difference for difference in compare(one, other)}
    for difference in compare(other, one):
        assert back[difference.column].gap == pytest.approx(-difference.gap)
        assert back[difference.column].exact == difference.exact


def test_differences_are_the_same_every_time(two):
    assert compare(*two) == compare(*two)


def test_a_pair_needs_fewer_queries_than_two_strangers(two, tmp_path):
    """The same two scores, once asked in pairs and once known by their means."""
    one, other = two
    paired = {difference.column: difference for difference in compare(other, one)}["CRB-S"]
    from dataclasses import replace

    strangers = [replace(row, results=None, _kept={}, _drawn={}) for row in two]
    apart = {difference.column: difference for difference in compare(strangers[1], strangers[0])}["CRB-S"]
    assert (apart.gap, apart.paired, apart.exact) == (paired.gap, False, None)
    assert apart.interval.high - apart.interval.low > 1.5 * (paired.interval.high - paired.interval.low)


def test_different_queries_cannot_be_paired(tmp_path):
    rows = [
        of_results(write_run(tmp_path / "a", "a", {"CMRB": answers(0.5, 20)})),
        of_results(write_run(tmp_path / "b", "b", {"CMRB": answers(0.5, 30)})),
    ]
    with pytest.raises(ReelspaceError, match="asked different queries of CMRB"):
        compare(*rows)


def test_nothing_in_common(tmp_path):
    rows = [
        of_results(write_run(tmp_path / "a", "a", {"CMRB": answers(0.5, 20)})),
        of_results(write_run(tmp_path / "b", "b", {"CRB-T": answers(0.5, 20)})),
    ]
    with pytest.raises(ReelspaceError, match="no task in common"):
        compare(*rows)


# Boards


def test_runs_stand_beside_the_published(tmp_path):
    run = write_run(tmp_path / "mine", "GVE-7B", whole(0.5, n=20), model={"architecture": "MLLM", "parameters": 8.3e9})
    rows = board([run])
    assert [row.name for row in rows[-2:]] == ["GVE-7B", "GVE-7B (mine)"]
    assert (rows[-1].parameters, rows[-1].architecture, rows[-1].published) == (8.3e9, "MLLM", False)
    assert len(rows) == 17
    with pytest.raises(ReelspaceError, match="are here already"):
        board([run, run])


def test_what_a_reader_should_know_is_noted(tmp_path):
    run = write_run(tmp_path / "m", "m", {"CMRB": answers(0.5, 20)}, limit=20, failures=3)
    assert board([run])[-1].notes == (
        "only the first 20 queries of each task",
        "3 items could not be embedded and count as wrong",
    )


def test_suites_and_data_do_not_mix(tmp_path):
    scores = {"CMRB": answers(0.5, 20)}
    runs = [
        write_run(tmp_path / "a", "a", scores),
        write_run(tmp_path / "b", "b", scores, digest="other"),
        write_run(tmp_path / "c", "c", scores, suite_name="worlds"),
    ]
    with pytest.raises(ReelspaceError, match="asked different things in CMRB"):
        board(runs[:2])
    with pytest.raises(ReelspaceError, match="different suites do not compare: uvrb, worlds"):
        board([runs[0], runs[2]])
    assert [row.name for row in board([runs[2]])] == ["c"]


def test_papers_have_rows_where_they_have_scores():
    assert len(of_papers("uvrb")) == 16
    assert [row.name for row in of_papers("text-video")][:2] == ["VidVec-ZS (mid layer + rerank)", "VidVec-O"]
    assert of_papers("classification")[-1].value("UCF101") == 0.757
    assert of_papers("worlds") == []


def test_a_published_score_is_as_sure_as_its_queries_are_many():
    row = of_papers("uvrb")[-1]
    few, many = row.interval("LoVR-V"), row.interval("PEV-K")
    assert few.high - few.low > 0.15
    assert many.high - many.low < 0.02


def test_correlations_take_the_rows_that_have_both(tmp_path):
    run = write_run(tmp_path / "m", "m", {"CMRB": answers(0.5, 20)})
    rows = board([run])
    assert correlation(rows, "CMRB", "CRB-T").n == 16
    matrix = correlations(rows, ["S", "T"])
    assert matrix[0][1].value == matrix[1][0].value == pytest.approx(0.61, abs=0.01)
    assert matrix[0][0].value == 1.0


def test_weights_and_drawn_scores_agree():
    row = of_papers("uvrb")[-1]
    drawn = sum(share * row.drawn(task) for task, share in weights("PR").items())
    assert drawn.mean() == pytest.approx(row.value("PR"), abs=0.001)


def test_results_are_read_back(tmp_path):
    write_run(tmp_path / "m", "m", {"CMRB": answers(0.5, 20)})
    assert of_results(read(tmp_path / "m")).counts == {"CMRB": 20}
