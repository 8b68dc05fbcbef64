"""How a benchmark is run, where that is not the model's own business."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, runtime_checkable
from typing import Protocol as Contract

from reelspace.embed.base import Embedder
from reelspace.media.policy import FramePolicy, Sampling, Uniform, parse_policy


@runtime_checkable
class Adjustable(Contract):
    """An embedder that can be had with other frames or another pixel budget: another space, another fingerprint."""

    def adjusted(self, *, frames: FramePolicy | None = None, tokens: int | None = None) -> Embedder:
        """The same weights.

        Args:
            frames: which frames of a video; None leaves it.
            tokens: visual tokens a frame at most (28 × 28 pixels each, of Qwen's family); None leaves it.
        """


@dataclass(frozen=True)
class Protocol:
    """What the harness asks of a model.

    Attributes:
        frames: which frames of a video, in their declared form; None: the model's own policy.
        tokens: visual tokens a frame at most; None: the model's own budget.
        instructions: whether the task's instruction is given. The model may still make nothing of it.

    Scores are cosines; there is no reranking, and nothing but pictures and the queries' texts is given: no sound, no
    subtitles, no titles. How much text a model reads is the model's (8192 tokens, of GVE).
    """

    frames: str | None = None
    tokens: int | None = None
    instructions: bool = True

    def sampling(self, embedder: Embedder) -> Sampling:
        """The frames that are decoded. A model that cannot be adjusted chooses from these by its own policy."""
        own = embedder.sampling
        return own if self.frames is None else replace(own, policy=parse_policy(self.frames))

    def declared(self) -> dict[str, Any]:
        """As the manifest tells it."""
        return asdict(self)


PAPER = Protocol(str(Uniform(8)))
"""UVRB's: 8 uniform frames. Its budget (under 200 tokens a frame) and length of text (8192 tokens) are the model's."""
