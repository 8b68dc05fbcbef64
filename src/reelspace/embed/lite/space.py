"""The joint space: pictures and texts as vectors whose dot product says how well they fit.

A vector has three blocks.

* *meaning*, MiniLM's sentence space. A text is its sentence vector. A picture is the mean of what the classes mean,
  weighted by the class probabilities (ConSE, Norouzi et al. 2014), plus the captions of the drawings that look like it.
* *looks*, the classifier's feature space, centred and reduced. A picture is its features. A text is what its words
  would look like: the mean of the classifier's own class rows, weighted by how near each class text is, plus the looks
  of the drawings whose captions are near.
* *attributes*, see `attributes.py`.

So classes and captioned drawings are the anchors by which either side is carried over to the other.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import normalise
from reelspace.embed.lite import attributes, weights
from reelspace.embed.lite.vision import Seen

Rows = NDArray[np.float32]


def product(rows: Rows, table: Rows) -> Rows:
    """`rows @ table`, the same to the bit for a row whatever stands beside it.

    A matrix product's last bits hang on where in the matrix a row stands, so two pictures that are equal would not be
    equally near to anything, and chance would say which comes first. Nor does this wait for threads.
    """
    return np.asarray(np.einsum("nf,fl->nl", rows, table), dtype=np.float32)


def softmax(scores: Rows, temperature: float = 1.0) -> Rows:
    """Rows of probabilities."""
    raised = np.exp((scores - scores.max(axis=-1, keepdims=True)) / np.float32(temperature))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True)
class Space:
    """The tables of `space.npz` and the weights of `space.json`; both come from `tools/export_lite`."""

    class_texts: Rows  # [1000, 384] unit: lemmas, definition, kinds
    class_meanings: Rows  # [1000, 384] unit: the same and, for broad words, the broad kind alone (“dog”)
    class_looks: Rows  # [1000, L]
    anchor_texts: Rows  # [A, 384] unit: captions of drawings
    anchor_looks: Rows  # [A, L] unit: the drawings
    mean: Rows  # [1280] of the square roots of features
    looks_map: Rows  # [1280, L]
    outdoors: Rows  # [1000] 1 an outdoor scene, −1 an indoor one, 0 neither
    set: dict[str, Any]

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.class_texts.shape[1] + self.looks_map.shape[1]) + attributes.DIM

    def picture_looks(self, seen: Seen) -> Rows:
        """Unit rows `[n, L]`. Square roots: else the few strongest features would be all that counts."""
        return normalise(product(np.sqrt(seen.features) - self.mean, self.looks_map))

    def picture_meaning(self, seen: Seen, looks: Rows) -> Rows:
        """Rows `[n, 384]`, the longer the surer the classifier is.

        The mean of many classes is near every text: at full length, an unsure picture would fit “a dog” better than a
        sure Samoyed, which is near the texts about spitzes.
        """
        named = product(softmax(seen.logits), self.class_meanings)
        length = np.linalg.norm(named, axis=1, keepdims=True)
        named *= length ** np.float32(self.set["sureness"] - 1)
        nearest = softmax(product(looks, self.anchor_looks.T), self.set["drawn_temperature"])
        alike = normalise(product(nearest, self.anchor_texts))
        return np.asarray(named + np.float32(self.set["anchors_in_meaning"]) * alike, dtype=np.float32)

    def text_looks(self, meaning: Rows) -> Rows:
        """Unit rows `[n, L]` of sentence vectors `[n, 384]`."""
        classes = softmax(product(meaning, self.class_texts.T), self.set["class_temperature"])
        anchors = softmax(product(meaning, self.anchor_texts.T), self.set["anchor_temperature"])
        named, alike = normalise(product(classes, self.class_looks)), normalise(product(anchors, self.anchor_looks))
        return normalise(named + np.float32(self.set["anchors_in_looks"]) * alike)

    def picture_outdoors(self, seen: Seen) -> Rows:
        """−1 … 1 for each picture: mean score of the outdoor scenes against that of the indoor ones."""
        sides = [seen.logits[:, self.outdoors == side].mean(axis=1) for side in (1, -1)]
        return np.asarray(np.tanh((sides[0] - sides[1]) / 2), dtype=np.float32)

    def classes(self) -> Rows:
        """Unit rows `[1000, dim]`: each class as a candidate of no particular attributes."""
        plain = np.zeros((len(self.class_texts), attributes.DIM), dtype=np.float32)
        plain[:, -1] = 1
        return self.join("candidate", self.class_meanings, self.class_looks, plain)

    def join(self, side: str, meaning: Rows, looks: Rows, attribute: Rows) -> Rows:
        """Unit rows `[n, dim]` of the three blocks, weighted as `side` (text, picture query, candidate) says."""
        blocks = zip(self.set[side], (meaning, looks, attribute), strict=True)
        return normalise(np.concatenate([np.float32(weight) * block for weight, block in blocks], axis=1))


def load() -> Space:
    """The space as shipped.

    Raises:
        ModelError: its files are missing or damaged.
    """
    with np.load(io.BytesIO(weights.read("space.npz")), allow_pickle=False) as tables:
        arrays = {name: tables[name].astype(np.float32) for name in tables.files}
    # Stored as int8: rows (columns of the map) whose length was 1.
    for name in ("class_texts", "class_meanings", "class_looks", "anchor_texts", "anchor_looks"):
        arrays[name] = normalise(arrays[name])
    arrays["looks_map"] = normalise(arrays["looks_map"].T).T
    return Space(set=json.loads(weights.read("space.json")), **arrays)


@lru_cache(maxsize=1)
def things() -> Rows:
    """Unit rows `[1000, 384]`: what the classes mean as texts, the things that a picture can show; without the rest.

    Raises:
        ModelError: the file is missing or damaged.
    """
    with np.load(io.BytesIO(weights.read("space.npz")), allow_pickle=False) as tables:
        return normalise(tables["class_texts"].astype(np.float32))
