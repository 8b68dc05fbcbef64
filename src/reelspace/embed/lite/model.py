"""`Lite`: the embedder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reelspace.embed.base import Vectors, encode, fingerprint, normalise
from reelspace.embed.lite import attributes, space, vision, weights
from reelspace.embed.lite.text import TextEncoder
from reelspace.errors import ModelError
from reelspace.item import Frames, Item, Span
from reelspace.media.decode import sample
from reelspace.media.image import load_image
from reelspace.media.policy import Centres, FramePolicy, Sampling

Clip = list[vision.Picture]  # one, of a picture
FRAMES = Centres(4)


@dataclass(frozen=True)
class _Prepared:
    """An item as the networks take it."""

    text: str | None
    visuals: tuple[Clip, ...]  # prepared frames of its video, of its image


class Lite:
    """The built-in embedder: text, image, video and every mix of them, in one space."""

    name = "lite"
    modalities = frozenset({"text", "image", "video", "image+text", "video+text", "video+image", "video+image+text"})

    def __init__(self, frames: FramePolicy = FRAMES) -> None:
        self.sampling = Sampling(frames, edge=vision.SIDE)

    def adjusted(self, *, frames: FramePolicy | None = None, tokens: int | None = None) -> Lite:
        """The same model with other frames: another space.

        Raises:
            ModelError: it was given a budget of tokens; pictures are of one size here.
        """
        if tokens is not None:
            raise ModelError(f"{self.name} has no budget of tokens a frame that could be set.")
        return self if frames is None else Lite(frames)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any of the model's files, its frame policy and its preparation."""
        return fingerprint(
            model=self.name, weights=weights.declared(), sampling=str(self.sampling), preparation=vision.VERSION
        )

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._space.dim

    @cached_property
    def thresholds(self) -> Mapping[str, tuple[float, bool]]:
        """“No match” thresholds, as `reelspace.rank.calibration` reads them; written by `benchmarks/lite.py`."""
        return weights.thresholds()

    @cached_property
    def background(self) -> Vectors:
        """Unit rows float32 `[1000, d]`: every class as if a picture of it had been seen."""
        return self._space.classes()

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors:
        """Unit rows float32 `[n, d]`. This model follows no instruction: one that is given changes nothing.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """
        return encode(items, self.modalities, self._prepare, lambda prepared: self._run(prepared, "picture"), self.dim)

    def encode_candidate(self, items: Sequence[Item]) -> Vectors:
        """Unit rows float32 `[n, d]`.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """
        return encode(
            items, self.modalities, self._prepare, lambda prepared: self._run(prepared, "candidate"), self.dim
        )

    @cached_property
    def _space(self) -> space.Space:
        return space.load()

    @cached_property
    def _see(self) -> vision.VisionEncoder:
        return vision.VisionEncoder()

    @cached_property
    def _read(self) -> TextEncoder:
        return TextEncoder()

    def _prepare(self, item: Item) -> _Prepared:
        visuals = []
        if item.video is not None:
            visuals.append(self._frames(item.video))
        if item.image is not None:
            visuals.append([vision.prepare(load_image(item.image))])
        return _Prepared(item.text, tuple(visuals))

    def _frames(self, video: Span | Frames) -> Clip:
        if isinstance(video, Span):
            video = sample(video, self.sampling)
        chosen = self.sampling.policy.choose(video.times, video.start, video.end)
        prepared = {index: vision.prepare(video.pixels[index]) for index in np.unique(chosen).tolist()}
        return [prepared[index] for index in chosen.tolist()]

    def _run(self, prepared: Sequence[_Prepared], side: str) -> Vectors:
        """Each part gets its own vector; a mix is the weighted sum of its text's and its pictures' mean."""
        texts = iter(self._texts([item.text for item in prepared if item.text is not None]))
        pictures = iter(self._pictures([visual for item in prepared for visual in item.visuals], side))
        weight = np.float32(self._space.set["text_in_mix"])
        rows = np.zeros((len(prepared), self.dim), dtype=np.float32)
        for row, item in enumerate(prepared):
            for _ in item.visuals:
                rows[row] += next(pictures) / np.float32(len(item.visuals))
            if item.text is not None:
                rows[row] += weight * next(texts)
        return normalise(rows)

    def _texts(self, texts: list[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        meaning = self._read(texts)
        named = np.stack([attributes.of_text(text) for text in texts])
        return self._space.join("text", meaning, self._space.text_looks(meaning), named)

    def _pictures(self, clips: list[Clip], side: str) -> Vectors:
        """A clip's vector is made of the means of its frames' blocks; in whatever order, to the bit."""
        rows = np.empty((len(clips), self.dim), dtype=np.float32)
        if not clips:
            return rows
        distinct = {id(frame): frame for clip in clips for frame in clip}  # a clip of few frames repeats them
        places = {frame: place for place, frame in enumerate(distinct)}
        seen = self._see(list(distinct.values()))
        looks = self._space.picture_looks(seen)
        meaning, outdoors = self._space.picture_meaning(seen, looks), self._space.picture_outdoors(seen)
        for row, clip in enumerate(clips):
            own = [places[id(frame)] for frame in clip]
            faces = float(seen.faces[own].max())
            shown = attributes.of_frames(
                [frame.whole for frame in clip], float(outdoors[own].mean(dtype=np.float64)), faces
            )
            mean_looks, mean_meaning = _mean(looks[own]), _mean(meaning[own])
            rows[row] = self._space.join(side, mean_meaning, normalise(mean_looks), shown[None])[0]
        return rows


def _mean(rows: Vectors) -> Vectors:
    """The mean row `[1, d]`. Summed in float64, where the order of the rows leaves no trace."""
    return np.asarray(rows.mean(axis=0, keepdims=True, dtype=np.float64), dtype=np.float32)
