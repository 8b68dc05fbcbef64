"""A second look by the trained tiny model: it is worth what the model can judge."""

from pathlib import Path

import numpy as np
import pytest

from reelspace.embed import load
from reelspace.item import Frames, Item
from reelspace.rank import yes_no
from reelspace.worlds.captions import questions
from reelspace.worlds.sample import generator, pick
from reelspace.worlds.tasks import task
from reelspace.worlds.tiny import exam
from reelspace.worlds.tiny.batches import chosen, clip

FOLDER = Path(__file__).parents[1] / "data" / "tiny-mllm"
ASKED = {"user": {"video+text": "{video}{text} Yes or No?"}, "appended": ""}
"""A query that is a question itself, as the model was taught to be asked."""
SCENES, QUERIES, POOL = 288, 600, 8


@pytest.fixture(scope="module")
def scenes():
    return exam.drawn("full", SCENES)


@pytest.fixture(scope="module")
def videos(scenes):
    times = [np.array([k / scene.rate for k in chosen(scene)]) for scene in scenes]
    return [Item(video=Frames(clip(one), at, 0.0, one.duration)) for one, at in zip(scenes, times, strict=True)]


def asked(scenes):
    """Queries “…? Is it …?” with a pool of scenes each: half of them are to be answered with yes, half with no."""
    said = [{q.text: q.answer for q in questions(scene, generator("judge", n))} for n, scene in enumerate(scenes)]
    found = []
    for number in range(10 * QUERIES):
        random = generator("judge query", number)
        own = int(random.integers(len(scenes)))
        text = pick(random, sorted(said[own]))
        alike = [n for n, one in enumerate(said) if one.get(text) == said[own][text]]
        others = [n for n, one in enumerate(said) if text in one and n not in alike]
        if len(alike) >= POOL // 2 and len(others) >= POOL // 2:
            pool = [int(n) for part in (alike, others) for n in random.permutation(part)[: POOL // 2]]
            found.append((f"{text} Is it {said[own][text]}?", sorted(pool), set(alike)))
        if len(found) == QUERIES:
            break
    return found


def interval(apart):
    draws = np.random.default_rng(0).integers(len(apart), size=(2000, len(apart)))
    return np.quantile(apart[draws].mean(axis=1), [0.025, 0.975])


@pytest.mark.slow
def test_a_second_look_at_statements_raises_how_often_the_first_is_right(scenes, videos):
    embedder = load(str(FOLDER), device="cpu", dtype="float32")
    judge = yes_no.load(str(FOLDER), device="cpu", dtype="float32", **ASKED)
    queries = asked(scenes)
    assert len(queries) == QUERIES
    vectors = embedder.encode_candidate(videos)
    texts = embedder.encode_query([Item(text) for text, _, _ in queries])
    before, after = [], []
    for (text, pool, right), vector in zip(queries, texts, strict=True):
        ranked = sorted(pool, key=lambda n: -float(vector @ vectors[n]))
        judged = judge.score(Item(text), [videos[n] for n in ranked])
        before.append(ranked[0] in right)
        after.append(ranked[int(np.argmax(judged))] in right)
    before, after = np.array(before, float), np.array(after, float)
    low, _ = interval(after - before)
    assert low > 0  # measured: .763 → .843, +.080 [+.037, +.125]; half of every pool is right
    assert after.mean() >= 0.8


@pytest.mark.slow
def test_its_second_look_at_what_lite_finds_raises_how_often_the_first_is_right(tmp_path):
    """Of themes and keywords; docs/rank.md has all tasks (`benchmarks/rerank_worlds.py`)."""
    embedder, judge = load("lite"), yes_no.load(str(FOLDER), device="cpu", dtype="float32")
    before, after = [], []
    for name in ("LoVR-TH", "PEV-K"):
        data = task(name, "small").data(tmp_path)
        scores = embedder.encode_query(data.queries) @ embedder.encode_candidate(data.corpus).T
        for row, query, item in zip(scores, data.query_ids, data.queries, strict=True):
            best = np.argsort(-row, kind="stable")[:10]
            judged = best[int(np.argmax(judge.score(item, [data.corpus[at] for at in best])))]
            before.append(data.corpus_ids[best[0]] in data.relevant[query])
            after.append(data.corpus_ids[judged] in data.relevant[query])
    low, _ = interval(np.array(after, float) - np.array(before, float))
    assert low > 0  # measured: +.158 and +.125
