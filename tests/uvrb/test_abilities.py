import pytest

from reelspace.uvrb import published
from reelspace.uvrb.abilities import AVERAGED, COLUMNS, abilities, columns, matrix, weights
from reelspace.uvrb.tasks import SUITES, suite


def test_the_published_abilities_of_a_model_that_adds_up():
    """GVE-7B, as Table 2 prints it."""
    printed = next(row for row in published.rows("table2") if row["model"] == "GVE-7B")
    found = abilities(published.scores()["GVE-7B"])
    assert {name: float(value) for name, value in printed.items() if name != "model"} == pytest.approx(
        {name: found[name] for name in COLUMNS[1:]}, abs=0.001
    )
    assert found["AVG-D"] == pytest.approx(0.573, abs=0.0005)


def test_the_hierarchy():
    assert weights("FG") == pytest.approx(
        {
            "CRB-S": 1 / 6,
            "VDC-O": 1 / 6,
            "CRB-T": 1 / 6,
            "CMRB": 1 / 6,
            "DREAM-E": 1 / 9,
            "LoVR-TH": 1 / 9,
            "PEV-K": 1 / 9,
        }
    )
    scores = dict.fromkeys(suite("uvrb"), 0.0) | {"LoVR-V": 0.5, "VDC-D": 0.25}
    found = abilities(scores)
    assert (found["LC"], found["TXT"], found["CG"]) == (0.375, 0.125, 0.0)
    assert found["AVG-A"] == pytest.approx((0.125 + 0.375) / 6)
    assert found["AVG-D"] == pytest.approx(0.75 / 16)


@pytest.mark.parametrize("name", COLUMNS)
def test_shares_sum_to_1(name):
    assert sum(weights(name).values()) == pytest.approx(1)
    assert weights(name) == weights(name, "worlds")


def test_what_is_not_complete_is_not_averaged():
    scores = dict(published.scores()["GVE-7B"])
    del scores["CMRB"]
    found = abilities(scores)
    assert {name for name, value in found.items() if value is None} == {"T", "FG", "TXT", "AVG-A", "AVG-D"}


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_the_abilities_its_tasks_have(name):
    expected = COLUMNS if name in ("uvrb", "worlds") else ("AVG-D",)
    assert columns(name) == expected


def test_the_matrix_is_the_weights():
    tasks = list(suite("uvrb"))
    scores = published.scores()["ViCLIP"]
    product = [scores[task] for task in tasks] @ matrix(tasks, list(AVERAGED), "uvrb")
    assert product.tolist() == pytest.approx([abilities(scores)[name] for name in AVERAGED])


def test_the_published_models():
    models = published.models()
    assert (len(models), len(published.scores())) == (16, 16)
    assert [list(table) == list(suite("uvrb")) for table in published.scores().values()] == [True] * 16
    assert models["CLIP4Clip"].parameters == 87e6
    assert models["GVE-7B"].pairs == ("text-text", "text-image", "text-video")
    assert [model.name for model in models.values() if model.ours] == ["GVE-3B", "GVE-7B"]
    assert sum(model.architecture == "CLIP" for model in models.values()) == 6


def test_tasks_and_their_published_facts_agree():
    for row in published.rows("tables4_5"):
        task = suite("uvrb")[row["task"]]
        assert (task.instruction, task.metric) == (row["query_instruction"], row["metric"])
        assert (task.queries, task.corpus, task.ability) == (int(row["queries"]), int(row["corpus"]), row["ability"])
    assert len(published.rows("tables4_5")) == 16


def test_the_other_suites_have_published_scores_of_their_tasks():
    assert set(published.classification()["GVE-7B"]) == set(suite("classification"))
    assert set(published.text_video()["VidVec-O"]) <= set(suite("text-video"))
    assert published.text_video()["VidVec-O"]["MSVD-V2T"] == 0.857
