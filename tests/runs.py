"""Results of runs that never were: what a test needs to know is then known exactly."""

import numpy as np

from reelspace.uvrb.results import QueryScore, write_manifest, write_task
from reelspace.uvrb.tasks import suite


def write_run(folder, name, scores, suite_name="uvrb", digest="d", **more):
    """A folder of results; `scores` is task → scores of its queries."""
    tasks = {}
    for task, values in scores.items():
        facts = suite(suite_name)[task]
        queries = [QueryScore(f"q{k}", float(v), float(v), float(v), 1 if v else 2) for k, v in enumerate(values)]
        write_task(folder, task, queries, {})
        mean = float(np.mean(values))
        tasks[task] = {
            "ability": facts.ability,
            "metric": facts.metric,
            "instruction": facts.instruction,
            "queries": len(queries),
            "corpus": 10,
            "score": mean,
            "low": mean,
            "high": mean,
            "chance": 0.1,
            "failures": more.get("failures", 0),
            "data": digest,
        }
    manifest = {
        "suite": suite_name,
        "size": None,
        "limit": more.get("limit"),
        "model": {"name": name, "fingerprint": "f", "dim": 4, **more.get("model", {})},
        "protocol": {"frames": "uniform(8)"},
        "versions": {},
        "tasks": tasks,
    }
    return write_manifest(folder, manifest)


def answers(share, n=200, seed=0, like=None, change=0.05):
    """0/1 scores of n queries; those `like` others differ from them in a few."""
    drawn = np.random.default_rng(seed)
    if like is None:
        return (drawn.random(n) < share).astype(float)
    return np.where(drawn.random(n) < change, (drawn.random(n) < share).astype(float), like)


def whole(share, **options):
    """All 16 tasks."""
    return {task: answers(share, seed=k, **options) for k, task in enumerate(suite("uvrb"))}
