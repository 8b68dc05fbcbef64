"""UVRB-Worlds: one right answer each, known chance, an oracle at the ceiling, and nothing for who ignores order."""

import itertools

import av
import numpy as np
import pytest

from reelspace.errors import ReelspaceError
from reelspace.media.policy import Centres, Fps, Uniform
from reelspace.worlds.facts import evidence
from reelspace.worlds.oracle import blind_oracle, expected, oracle
from reelspace.worlds.render import frames
from reelspace.worlds.sample import scenes
from reelspace.worlds.tasks import QUERIES, RECIPES, task, tasks

ABILITIES = {
    **{"MSRVTT": "CG", "DiDeMo": "CG", "CRB-G": "CG", "CRB-S": "S", "VDC-O": "S", "CRB-T": "T", "CMRB": "T"},
    **{"DREAM-E": "PR", "LoVR-TH": "PR", "PEV-K": "PR", "LoVR-V": "LC", "VDC-D": "LC"},
    **{"MS-TI": "CMP", "MS-TV": "CMP", "MSRVTT-I2V": "VIS", "LoVR-C2V": "VIS"},
}
METRICS = dict.fromkeys(ABILITIES, "recall@1") | {
    **{"CMRB": "recall@10", "LoVR-TH": "recall@10", "MS-TI": "precision@1", "MS-TV": "precision@1"},
}
FORMATS = {"MS-TI": "image+text", "MS-TV": "video+text", "MSRVTT-I2V": "image", "LoVR-C2V": "video"}
each = pytest.mark.parametrize("name", ABILITIES)


@pytest.fixture(scope="module")
def mini():
    return {made.name: made for made in tasks("mini")}


def test_the_tasks_are_those_of_uvrb():
    assert {name: recipe.ability for name, recipe in RECIPES.items()} == ABILITIES
    assert {name: recipe.metric for name, recipe in RECIPES.items()} == METRICS


@each
def test_every_query_has_its_answer_and_no_second_one(mini, name):
    made = mini[name]
    for key, query in made.queries.items():
        answers = [c for c in made.candidates(key) if query.facts <= evidence(made.corpus[c])]
        assert frozenset(answers) == made.relevant[key]
        assert 1 <= len(answers) <= (10 if name == "LoVR-TH" else 1), query.text
    assert len(set(made.corpus.values())) == len(made.corpus)


@each
def test_sizes_are_kept(mini, name):
    wanted = QUERIES["mini"] * RECIPES[name].share
    assert wanted <= len(mini[name].queries) <= wanted + 24


@each
def test_the_oracle_reaches_the_ceiling(mini, name):
    assert expected(mini[name].ranking, oracle(mini[name])) == 1.0


@each
def test_chance_is_what_random_scores_get(mini, name):
    made, random = mini[name], np.random.default_rng(0)
    shape = (len(made.queries), len(made.corpus))
    runs = [expected(made.ranking, random.random(shape, dtype=np.float32)) for _ in range(60)]
    error = np.std(runs) / np.sqrt(len(runs))
    assert abs(np.mean(runs) - made.chance) <= 4 * error + 1e-9
    depth = int(made.metric.partition("@")[2])
    sizes = [len(made.candidates(key)) for key in made.queries]
    assert made.chance == pytest.approx(np.mean([min(1, depth / size) for size in sizes]), abs=1e-9)


@each
def test_without_order_temporal_tasks_are_at_chance_and_only_they(mini, name):
    made = mini[name]
    blind = expected(made.ranking, blind_oracle(made))
    if made.ability == "T":
        assert blind == pytest.approx(made.chance)
    else:
        assert blind > 2 * made.chance


@pytest.mark.parametrize("name", ["CRB-T", "CMRB"])
@pytest.mark.parametrize(
    "policy", [Uniform(8), Uniform(16), Centres(4), Centres(8), Centres(16), Fps(1, 8), Fps(2, 16)], ids=str
)
def test_a_temporal_pool_shows_the_same_frames_in_other_orders(mini, name, policy):
    """Whatever looks at frames one by one gets the same from each candidate: the control no model can pass."""
    made = mini[name]
    for pool in set(made.pools.values()):
        bags, films = set(), set()
        for key in pool:
            scene = made.corpus[key]
            times = np.arange(scene.frames) / scene.rate
            shown = [f.tobytes() for f in frames(scene)[policy.choose(times, 0.0, scene.duration)]]
            bags.add(tuple(sorted(shown)))
            films.add(tuple(shown))
        assert len(bags) == 1
        assert len(films) == len(pool) == 24


def test_equal_frames_stay_equal_in_the_file(mini, tmp_path):
    made = mini["CRB-T"]
    pool = next(iter(made.pools.values()))[:4]
    corpus = dict(zip(made.corpus, made.data(tmp_path).corpus, strict=True))
    bags = []
    for key in pool:
        with av.open(str(corpus[key].video.path)) as file:
            bags.append(sorted(f.to_ndarray(format="rgb24").tobytes() for f in file.decode(video=0)))
    assert all(bag == bags[0] for bag in bags)


@pytest.mark.parametrize("name", ["MS-TI", "MS-TV"])
def test_a_composed_query_needs_both_its_parts(mini, name):
    """The reference alone, and the words alone, leave several candidates of the pool."""
    made = mini[name]
    for key, query in made.queries.items():
        pool = [evidence(made.corpus[c]) for c in made.candidates(key)]
        assert len(pool) == 10
        thing = next(fact for fact in query.facts if fact[1] == "is")
        reference = {thing}
        words = {fact for fact in query.facts if fact[0] == "world"}
        deeds = {fact[2] for fact in query.facts if fact[0] == thing[0] and fact[1] == "does"}
        assert sum(reference <= truth for truth in pool) > 1
        assert sum(words <= truth and any(f[1] == "does" and f[2] in deeds for f in truth) for truth in pool) > 1


def test_the_same_words_lead_from_each_reference_to_its_own_target(mini):
    made = mini["MS-TI"]
    pools = {made.pools[key]: [] for key in made.queries}
    for key, query in made.queries.items():
        pools[made.pools[key]].append((query.text, query.image, *made.relevant[key]))
    for asked in pools.values():
        texts, images, answers = zip(*asked, strict=True)
        assert len(texts) == len(set(images)) == len(set(answers)) == 3
        assert len(set(texts)) == 1


def test_composed_tasks_differ_in_the_medium_of_the_reference_alone(mini):
    pictures, clips = mini["MS-TI"], mini["MS-TV"]
    assert pictures.corpus == clips.corpus and pictures.relevant == clips.relevant
    assert [query.image[0] for query in pictures.queries.values()] == [query.clip for query in clips.queries.values()]


@each
def test_items_have_the_format_of_the_task(mini, name, tmp_path):
    if name in ("LoVR-V", "LoVR-C2V", "MS-TI", "MS-TV"):
        made = task(name, "mini")
        few = dict(itertools.islice(made.queries.items(), 1))
        items = [query.item(tmp_path) for query in few.values()]
    else:
        items = mini[name].data(tmp_path).queries
    assert {item.modality for item in items} == {FORMATS.get(name, "text")}


def test_data_is_files_with_ids(mini, tmp_path):
    made = mini["MSRVTT-I2V"]
    data = made.data(tmp_path)
    assert len(data.queries) == len(data.query_ids) and len(data.corpus) == len(data.corpus_ids)
    assert all(item.video.path.exists() for item in data.corpus)
    assert all(item.image.exists() for item in data.queries)
    assert set(data.relevant) == set(data.query_ids) and data.pools is None
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    assert [item.video.path for item in made.data(tmp_path).corpus] == [item.video.path for item in data.corpus]
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}, "the cache was not used"


@each
def test_the_same_arguments_make_the_same_task(mini, name):
    again = task(name, "mini")
    assert again.corpus == mini[name].corpus and again.queries == mini[name].queries
    assert task(name, "mini", seed=1).corpus != again.corpus


def test_small_is_larger_than_mini():
    for name in ("MSRVTT", "CRB-T", "DREAM-E"):
        small = task(name, "small")
        assert len(small.queries) >= 120
        assert expected(small.ranking, oracle(small)) == 1.0


def test_no_training_scene_is_in_the_benchmark(mini):
    asked = {scene.key for made in mini.values() for scene in made.corpus.values()}
    assert not asked & {scene.key for scene in itertools.islice(scenes(0, split="train"), 1000)}


def test_an_unknown_task_is_refused():
    with pytest.raises(ReelspaceError, match="CRB-T"):
        task("CRBT")


@each
def test_who_scores_everything_alike_gets_chance_however_ties_are_broken(mini, name):
    made, depth = mini[name], int(METRICS[name].partition("@")[2])
    for reverse in (False, True):
        found = [
            len(made.relevant[key] & set(sorted(made.candidates(key), reverse=reverse)[:depth]))
            / len(made.relevant[key])
            for key in made.queries
        ]
        spread = (made.chance * (1 - made.chance) / len(found)) ** 0.5
        assert abs(np.mean(found) - made.chance) <= 4 * spread + 1 / len(found), name


def test_ties_are_shared_out():
    made = task("MSRVTT", "mini")
    scores = oracle(made)
    tied = np.where(scores >= 0.5, 1.0, 0.0).astype(np.float32)
    by_hand = np.mean([1 / int((row == 1).sum()) for row in tied])
    assert expected(made.ranking, tied) == pytest.approx(by_hand)
