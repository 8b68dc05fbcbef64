import numpy as np
import pytest

from reelspace.synth.asset import Asset, Raw, Written
from reelspace.synth.config import Config
from reelspace.synth.extend import concepts, leads_of, needless, weighed


def unit(*values):
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


@pytest.fixture
def wanted(flow):
    def made(**extend):
        return Config.model_validate(flow | {"extend": extend})

    return made


# Axes: a thing, a deed, a place. The target is all three; rivals share two of them.
TARGET = unit(1, 1, 1)
RIVALS = np.stack([unit(1, 0, 1), unit(0, 1, 1), unit(1, 0.2, 0.2)])
QUERIES = {
    "needs both": {"both": unit(1, 1, 1), "words": unit(0, 1, 1), "reference": unit(1, 0, 0.5)},
    "words suffice": {"both": unit(1, 1, 1), "words": unit(1, 1, 1), "reference": unit(1, 0, 0.5)},
    "reference suffices": {"both": unit(1, 1, 1), "words": unit(0, 1, 0), "reference": unit(1, 1, 1)},
    "finds nothing": {"both": unit(1, 0, 1), "words": unit(0, 1, 0), "reference": unit(1, 0, 0.2)},
}


@pytest.mark.parametrize("way", ["rank", "margin"])
@pytest.mark.parametrize(("name", "queries"), QUERIES.items())
def test_a_query_that_does_not_need_both_its_parts_is_found_out(name, queries, way, wanted):
    leads, places = leads_of(queries, TARGET, RIVALS)
    reason = needless(leads, places, wanted(necessity=way))
    expected = {
        "needs both": "",
        "words suffice": "the words alone suffice: no need of the reference",
        "reference suffices": "the reference alone suffices: no need of the words",
        "finds nothing": "both together do not find the target" if way == "rank" else reason,
    }
    assert reason == expected[name]


def test_ties_count_against_the_target():
    leads, places = leads_of({"both": TARGET}, TARGET, np.stack([TARGET]))
    assert leads == {"both": 0.0} and places == {"both": 2}


def video(number, *words, score=0.5):
    said = Written(text=", ".join(words), style="keywords", scores={"yes": score})
    return Asset(raw=Raw(id=str(number), video="v.mp4"), key=str(number), captions=[said])


def test_common_concepts_weigh_less_and_quality_more():
    every = [video(k, "dog", "lawn", "running") for k in range(8)]
    every += [video(8, "lighthouse", "storm", "waves"), video(9, "lighthouse", "storm", "waves", score=0.9)]
    weights = weighed(every)
    assert concepts(every[0]) == {"dog", "lawn", "running"}
    assert max(weights[:8]) < weights[8] < weights[9]
