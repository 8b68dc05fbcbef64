"""A Yes/No judge as a module of sentence-transformers, and any of its cross-encoders as a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import fingerprint
from reelspace.embed.qwen_vl.module import QwenVL, as_item
from reelspace.errors import EncodeError, ModelError
from reelspace.item import Frames, Item, Span
from reelspace.media.policy import Sampling, Uniform
from reelspace.rank.yes_no import leaning, together

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


class Judge(QwenVL):
    """`CrossEncoder(modules=[Judge(…)])`: scores are log-odds of Yes, which it turns into probabilities."""

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, task: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The arguments of the model for pairs of query and candidate; `prompt` stands for the instruction."""
        pairs = [together(as_item(query), as_item(candidate)) for query, candidate in inputs]
        return self.collate([self.preparer(pair, "query" if prompt else "candidate", prompt) for pair in pairs])

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Adds `scores`, float `[n, 1]`."""
        state = self.states(features, [(None, True)])[0]
        return {**features, "scores": leaning(self, state)[:, None]}


class Crossed:
    """Any cross-encoder of sentence-transformers as a `PairScorer`.

    Scores are what its own activation makes of its logits; they rank, and mean what its authors meant.
    """

    budget = 100
    sampling = Sampling(Uniform(8), edge=448)

    def __init__(self, name: str, model: CrossEncoder) -> None:
        """`model` takes texts, and pictures or videos as far as it says so."""
        self.name, self._model = name, model

    @cached_property
    def modalities(self) -> frozenset[str]:
        """Queries it takes."""
        return frozenset(kind for kind in ("text", "image") if self._takes(kind))

    @cached_property
    def fingerprint(self) -> str:
        """Of the model's name and revision, and of how frames are taken: its weights are the hub's to vouch for."""
        return fingerprint(crossed=self.name, sampling=str(self.sampling))

    def score(self, query: Item, candidates: Sequence[Item]) -> NDArray[np.float32]:
        """Scores float32 `[n]`.

        Raises:
            ModelError: there are more candidates than `budget`, or it takes no such query.
            EncodeError: it takes no such candidates; it carries the others' scores as `[n, 1]`.
        """
        if len(candidates) > self.budget:
            raise ModelError(f"{self.name} looks at {self.budget} candidates a query at most, not {len(candidates)}.")
        if query.modality not in self.modalities:
            raise ModelError(f"{self.name} judges {', '.join(sorted(self.modalities))}, not {query.modality}.")
        good = [place for place, one in enumerate(candidates) if all(map(self._takes, one.parts))]
        pairs = [(given(query), given(candidates[place])) for place in good]
        rows: Any = self._model.predict(pairs, show_progress_bar=False) if pairs else []
        scores = np.asarray(rows, dtype=np.float32).reshape((len(pairs), -1) if pairs else (0, 1))
        if scores.shape[1] != 1:
            raise ModelError(
                f"{self.name} gives {scores.shape[1]} scores a pair: it sorts into classes, and ranks none."
            )
        if len(good) < len(candidates):
            bad = sorted(set(range(len(candidates))) - set(good))
            reasons = {place: f"{self.name} takes no {candidates[place].modality}" for place in bad}
            raise EncodeError(reasons, good, scores)
        return scores.reshape(-1)

    def _takes(self, kind: str) -> bool:
        """Whether it takes that kind, alone or with another."""
        model: Any = self._model
        parts = {part for one in model.modalities for part in ((one,) if isinstance(one, str) else one)}
        return kind == "text" or kind in parts


def crossed(name: str) -> Crossed:
    """The cross-encoder of that hub id or folder.

    Raises:
        ModelError: it cannot be loaded.
    """
    from sentence_transformers import CrossEncoder

    try:
        return Crossed(f"cross-encoder:{name}", CrossEncoder(name))
    except (OSError, ValueError) as error:
        raise ModelError(f"{name} cannot be loaded as a cross-encoder: {str(error).strip().splitlines()[0]}") from error


def given(item: Item) -> Any:
    """An item as sentence-transformers takes it: a text, a picture, frames and their times, or a dictionary of them."""
    parts: dict[str, Any] = {}
    if item.text is not None:
        parts["text"] = item.text
    if item.image is not None:
        from PIL import Image

        from reelspace.media.image import load_image

        parts["image"] = Image.fromarray(load_image(item.image))
    if item.video is not None:
        parts["video"] = _video(item.video)
    return next(iter(parts.values())) if len(parts) == 1 else parts


def _video(video: Span | Frames) -> dict[str, Any]:
    if isinstance(video, Span):
        from reelspace.media.decode import sample

        video = sample(video, Crossed.sampling)
    rate = len(video) / max(video.end - video.start, 1e-3)
    about = {"fps": rate, "frames_indices": list(range(len(video))), "total_num_frames": len(video)}
    return {"array": video.pixels, "video_metadata": {**about, "duration": video.end - video.start}}
