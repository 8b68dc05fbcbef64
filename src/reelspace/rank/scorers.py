"""`load` is the way to a scorer: one that sees query and candidate together."""

from __future__ import annotations

from importlib.metadata import entry_points

from reelspace.errors import ModelError
from reelspace.rank.base import PairScorer

ENTRY_POINTS = "reelspace.scorers"
CROSSED = "cross-encoder:"


def names() -> list[str]:
    """Scorers of installed third parties."""
    return sorted(point.name for point in entry_points(group=ENTRY_POINTS))


def load(name: str) -> PairScorer:
    """The scorer of that name.

    Args:
        name: an entry point of the group `reelspace.scorers`; `cross-encoder:ID` for one of sentence-transformers, by
            its hub id or folder; else any Qwen-VL model that `reelspace.load` knows, which is asked Yes or No.

    Raises:
        ModelError: no such scorer, or it cannot be loaded here.
    """
    for point in entry_points(group=ENTRY_POINTS, name=name):
        scorer: PairScorer = point.load()()
        return scorer
    try:
        if name.startswith(CROSSED):
            from reelspace.rank.judge import crossed

            return crossed(name.removeprefix(CROSSED))
        from reelspace.rank.yes_no import load as judge

        return judge(name)
    except ImportError as error:
        raise ModelError(f"{name} needs {error.name}: pip install 'reelspace[torch]'.") from error
