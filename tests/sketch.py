"""A small real embedder for tests of the engine: fast, deterministic, and easy to reason about.

Pictures are their colours on a 4 × 4 grid; words that name a colour are that colour everywhere, other words are hashed.
It takes text, image, video and image+text together, and refuses pictures that are black all over.
`install` makes it available by the names `sketch` and `sketch2` (the same, mirrored) as a plugin would, and the
scorer `magnifier`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from reelspace.embed.base import encode, fingerprint, normalise
from reelspace.errors import EncodeError, MediaError, ModelError
from reelspace.item import Frames
from reelspace.media.policy import Centres, Sampling

COLOURS = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
    "magenta": (255, 0, 255),
    "white": (255, 255, 255),
    "grey": (128, 128, 128),
}
GRID, WORDS = 4, 16


class Sketch:
    modalities = frozenset({"text", "image", "video", "image+text"})
    sampling = Sampling(Centres(2), edge=32)
    dim = GRID * GRID * 3 + WORDS + 1
    version = 1

    def __init__(self, name="sketch", mirror=1.0):
        self.name, self._mirror = name, np.float32(mirror)

    @property
    def fingerprint(self):
        return fingerprint(model=self.name, sampling=str(self.sampling), version=self.version)

    def encode_query(self, items, instruction=None):
        return encode(items, self.modalities, self._prepare, self._run, self.dim)

    def encode_candidate(self, items):
        return self.encode_query(items)

    def _run(self, rows):
        vectors = np.stack(rows).astype(np.float32)
        vectors[:, ::2] *= self._mirror
        return normalise(vectors)

    def _prepare(self, item):
        row = np.zeros(self.dim)
        row[-1] = 0.05
        if item.video is not None:
            assert isinstance(item.video, Frames), "the engine decodes"
            chosen = self.sampling.policy.choose(item.video.times, item.video.start, item.video.end)
            row[: -WORDS - 1] += np.mean([_grid(item.video.pixels[index]) for index in chosen], axis=0)
        if item.image is not None:
            if isinstance(item.image, Path):
                raise MediaError(f"{item.image}: the engine decodes")
            row[: -WORDS - 1] += _grid(np.asarray(item.image))
        for word in item.text.lower().split() if item.text else ():
            if word in COLOURS:
                row[: -WORDS - 1] += _grid(np.full((8, 8, 3), COLOURS[word], np.uint8))
            else:
                row[-WORDS - 1 :] += np.random.default_rng(_seed(word)).standard_normal(WORDS + 1)
        return row


def _seed(word):
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")


def _grid(pixels):
    """Mean colours −1…1 of the cells, `[GRID · GRID · 3]`."""
    if pixels.max() < 12:
        raise MediaError("black all over: nothing to see")
    rows, columns = (np.linspace(0, side, GRID + 1).astype(int) for side in pixels.shape[:2])
    cells = [
        pixels[rows[y] : max(rows[y] + 1, rows[y + 1]), columns[x] : max(columns[x] + 1, columns[x + 1])].mean(
            axis=(0, 1)
        )
        for y in range(GRID)
        for x in range(GRID)
    ]
    return (np.concatenate(cells) / 127.5) - 1


class Magnifier:
    """A pair scorer: how much of a clip, over all its frames, has just the colour that a text names.

    It counts pixels, so it tells apart what is one to the eye of `Sketch`, and it cannot judge a black clip.
    """

    name, fingerprint, budget = "magnifier", "5" * 16, 20
    modalities = frozenset({"text", "image+text"})
    sampling = Sampling(Centres(8), edge=32)

    def __init__(self):
        self.calls = []

    def score(self, query, candidates):
        if len(candidates) > self.budget:
            raise ModelError(f"at most {self.budget} candidates")
        self.calls.append(len(candidates))
        named = [COLOURS[word] for word in query.text.lower().split() if word in COLOURS]
        scores, failures = {}, {}
        for position, candidate in enumerate(candidates):
            pixels = candidate.video.pixels.astype(int)
            if pixels.max() < 12:
                failures[position] = "black all over: nothing to judge"
                continue
            near = [abs(pixels - np.array(colour)).max(axis=-1) < 40 for colour in named]
            scores[position] = float(np.mean(near)) if near else 0.0
        rows = np.array(list(scores.values()), np.float32)
        if failures:
            raise EncodeError(failures, list(scores), rows[:, None])
        return rows


def load():
    return Sketch()


def magnifier():
    return Magnifier()


def load2():
    return Sketch("sketch2", mirror=-1.0)


def install(folder):
    """Writes the metadata of an installed package that offers the embedders into `folder`, to be put on the path."""
    info = folder / "reelspace_sketch-1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reelspace-sketch\nVersion: 1\n")
    (info / "entry_points.txt").write_text("""[reelspace.embedders]
sketch = sketch:load
sketch2 = sketch:load2
[reelspace.scorers]
magnifier = sketch:magnifier
""")
    return folder
