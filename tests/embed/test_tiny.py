"""The trained tiny model keeps every promise that a random one keeps, and has learnt something."""

from pathlib import Path

import numpy as np
import pytest

from reelspace.embed import checkup, load
from reelspace.embed.conformance import violations
from reelspace.item import Frames, Item

FOLDER = Path(__file__).parents[1] / "data" / "tiny-mllm"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the trained tiny model is not in this checkout")


@pytest.fixture(scope="module")
def tiny():
    return load("tiny")


def test_it_keeps_the_contract(tiny):
    assert violations(tiny) == []
    assert [drift.violation for drift in checkup.drifts(tiny)] == [None, None]


def test_captions_find_their_videos(tiny):
    from reelspace.worlds.captions import caption
    from reelspace.worlds.sample import generator
    from reelspace.worlds.tiny.batches import clip
    from reelspace.worlds.tiny.lessons import sampled

    scenes = [sampled("plain", "held-out", "embedder", number) for number in range(32)]
    texts = [Item(caption(scene, "general", generator("embedder", n)).text) for n, scene in enumerate(scenes)]
    videos = [Item(video=Frames(clip(scene), (np.arange(8) + 0.5) / 8, 0.0, 1.0)) for scene in scenes]
    layers = [(layer, True) for layer in range(1, len(tiny.module.decoder.layers) + 1)]
    scores = np.einsum(
        "lid,ljd->lij", tiny.encode_layers(texts, "query", layers), tiny.encode_layers(videos, "candidate", layers)
    )
    right = (scores.argmax(axis=2) == np.arange(32)).mean(axis=1)
    assert right.max() > 5 / 32  # chance is 1
