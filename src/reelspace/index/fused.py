"""Several rankings of one library → one, by reciprocal rank: what several models find rises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from reelspace.index.searcher import Answer, Found
from reelspace.rank.fusion import fuse

DEEP = 200
"""Moments that are taken from each ranking. Beyond them a fused ranking ends."""


def fused(rankings: Mapping[str, Found], per_video: int | None) -> Found:
    """The fused ranking of what several models found; moments that repeat each other are one.

    A moment is as the first model that names it cut it. Whether anything fits is for the first model to say.

    Args:
        rankings: model → what it found.
        per_video: most moments of one video.
    """
    findings: list[dict[str, Answer]] = []  # model → its answer, for each finding
    by_video: dict[str, list[int]] = {}
    places = []
    for model, found in rankings.items():
        order: dict[int, None] = {}
        for answer in found.answers:
            near = by_video.setdefault(answer.moment.video, [])
            key = next((one for one in near if answer.repeats(next(iter(findings[one].values())))), None)
            if key is None:
                key = len(findings)
                findings.append({})
                near.append(key)
            findings[key].setdefault(model, answer)
            order.setdefault(key)
        places.append(list(order))
    taken: Counter[str] = Counter()
    answers = []
    for key, score in fuse(places):
        first = next(iter(findings[key].values()))
        if taken[first.moment.video] == per_video:
            continue
        taken[first.moment.video] += 1
        matched = {
            f"{label} by {model}": part
            for model, answer in findings[key].items()
            for label, part in answer.matched.items()
        }
        answers.append(first._replace(score=score, matched=matched))
    return Found(answers, next(iter(rankings.values())).match)
