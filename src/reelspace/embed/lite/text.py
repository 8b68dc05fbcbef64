"""Texts → MiniLM sentence vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from reelspace.embed.lite import weights

DIM = 384
MAX_TOKENS = 256  # what the sentence encoder was trained on; the end of a longer text is cut
BATCH = 32


class TextEncoder:
    """MiniLM-L6: English; 256 tokens at most."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_str(weights.read("tokenizer.json").decode("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._session = weights.session("text.onnx")

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows float32 `[n, 384]`, order kept.

        Texts run in groups of equal length: without padding no vector depends on its neighbours.
        """
        rows = np.empty((len(texts), DIM), dtype=np.float32)
        by_length: dict[int, list[int]] = defaultdict(list)
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch([_sound(text) for text in texts])]
        for position, tokens in enumerate(ids):
            by_length[len(tokens)].append(position)
        for group in by_length.values():
            for first in range(0, len(group), BATCH):
                part = group[first : first + BATCH]
                rows[part] = self._session.run(["vectors"], {"ids": np.array([ids[p] for p in part])})[0]
        return rows


@lru_cache(maxsize=1)
def shared() -> TextEncoder:
    """The one encoder of a process, for whoever needs no other: opening it takes longer than a question does."""
    return TextEncoder()


def _sound(text: str) -> str:
    """The text with lone surrogates (undecodable file names have them) replaced: the tokenizer refuses them."""
    return text.encode("utf-8", "replace").decode("utf-8")
