"""The tables of the joint space: class texts, the maps between features and meaning, scenes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
LOOKS = 384
KINDS = 4  # levels of a class text: “Samoyed, a kind of spitz, dog, domestic animal, animal”
# A broad kind is the nearest one above that has this many of the thousand classes: “dog”, “bird”, “car”, “insect”. With
# 6 to 10 as the least and a weight of 0.3 to 0.7 the benchmark says about the same.
BROAD = range(8, 401)
BROAD_WEIGHT = 0.5

# ImageNet classes that are scenes or stand in one kind of place, by first lemma.
OUTDOOR = (
    "alp", "barn", "beacon", "boathouse", "breakwater", "castle", "church", "cliff", "dam", "geyser", "lakeside",
    "megalith", "mobile home", "monastery", "mountain tent", "obelisk", "palace", "park bench", "parking meter",
    "patio", "picket fence", "pier", "promontory", "sandbar", "seashore", "steel arch bridge", "street sign",
    "suspension bridge", "traffic light", "triumphal arch", "valley", "viaduct", "volcano", "worm fence",
)  # fmt: skip
INDOOR = (
    "barbershop", "bathtub", "bookcase", "bookshop", "chest", "chiffonier", "china cabinet", "confectionery",
    "crib", "desk", "dining table", "dishwasher", "file", "four-poster", "home theater", "library",
    "medicine chest", "microwave", "photocopier", "printer", "refrigerator", "restaurant", "rotisserie",
    "shoe shop", "sliding door", "space heater", "stove", "studio couch", "table lamp", "toaster", "toilet seat",
    "toyshop", "tub", "wardrobe", "washbasin",
)  # fmt: skip


def class_names(info: Path) -> list[str]:
    """First lemma of the thousand classes, in the classifier's order."""
    lemmas, _ = _texts(info)
    return [lemmas[synset].split(",")[0] for synset in _synsets(info)]


def class_texts(info: Path, wordnet: Path) -> tuple[list[str], list[str]]:
    """Two texts of each class: “lemmas: definition” and “lemma, a kind of parent, grandparent, …” (WordNet 3.0).

    The second is why “a dog” finds a Samoyed, whose definition says nothing of dogs that a sentence encoder would hear.
    """
    lemmas, definitions = _texts(info)
    above = _ancestors(wordnet / "data.noun")
    synsets = _synsets(info)
    described = [f"{lemmas[i]}: {definitions[i]}" for i in synsets]
    return described, [f"{lemmas[i].split(',')[0]}, a kind of {', '.join(above(i[1:])[:KINDS])}" for i in synsets]


def broad_kinds(info: Path, wordnet: Path) -> list[str]:
    """The broad kind of each class, or its own name if it has none."""
    lineage = _ancestors(wordnet / "data.noun")
    above = [lineage(synset[1:]) for synset in _synsets(info)]
    below = Counter(kind for kinds in above for kind in set(kinds))
    return [
        next((kind for kind in kinds if below[kind] in BROAD), name)
        for name, kinds in zip(class_names(info), above, strict=True)
    ]


def _synsets(info: Path) -> list[str]:
    return (info / "imagenet_synsets.txt").read_text().split()


def _texts(info: Path) -> tuple[dict[str, str], dict[str, str]]:
    lemmas, definitions = (
        dict(line.split("\t") for line in (info / f"imagenet_synset_to_{what}.txt").read_text("utf-8").splitlines())
        for what in ("lemma", "definition")
    )
    return lemmas, definitions


def _ancestors(data: Path) -> Callable[[str], list[str]]:
    """Offset of a noun synset → first lemmas of its hypernyms, nearest first; the file's format is wndb(5)."""
    lemma: dict[str, str] = {}
    parent: dict[str, str] = {}
    for line in data.read_text("ascii").splitlines():
        if line.startswith(" "):
            continue  # the licence
        fields = line.split(" ")
        lemma[fields[0]] = fields[4].replace("_", " ")
        pointers = fields[4 + 2 * int(fields[3], 16) + 1 :]
        targets = (pointers[i + 1] for i in range(0, len(pointers) - 1, 4) if pointers[i] in ("@", "@i"))
        if target := next(targets, None):
            parent[fields[0]] = target

    def names(synset: str) -> list[str]:
        return [lemma[parent[synset]], *names(parent[synset])] if synset in parent else []

    return names


def unit(rows: Rows) -> Rows:
    """Rows of length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def build(
    read: Callable[[list[str]], Rows], cache: Path, head: Rows, features: Rows, captions: list[str]
) -> dict[str, NDArray[Any]]:
    """All tables of `space.npz`; what each is for is in `reelspace.embed.lite.space`.

    Args:
        read: texts → sentence vectors.
        cache: folder of the unpacked sources.
        head: `[1000, 1280]`, the classifier's rows.
        features: `[n, 1280]`, of drawings that have a caption each.
        captions: their captions.
    """
    info = cache / "timm/timm/data/_info"
    wordnet = cache / "wordnet-base/usr/share/wordnet"
    described, placed = class_texts(info, wordnet)
    texts = read(described) + read(placed)
    kinds = broad_kinds(info, wordnet)
    names = class_names(info)
    assert {*OUTDOOR, *INDOOR} <= set(names)
    looks = np.sqrt(features)
    mean = looks.mean(axis=0)
    centred = unit(looks - mean)
    axes = np.linalg.eigh(np.cov(centred.T))[1][:, ::-1][:, :LOOKS]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(LOOKS)])  # else the sign is LAPACK's whim
    side = {**dict.fromkeys(OUTDOOR, 1), **dict.fromkeys(INDOOR, -1)}
    return {
        "class_texts": _int8(unit(texts)),
        "class_meanings": _int8(unit(texts + np.float32(BROAD_WEIGHT) * read(kinds))),
        "class_looks": _int8(unit(head - head.mean(axis=0)) @ axes),
        "anchor_texts": _int8(read(captions)),
        "anchor_looks": _int8(unit(centred @ axes)),
        "mean": mean.astype(np.float16),
        "looks_map": _int8(axes.T).T,
        "outdoors": np.array([side.get(name, 0) for name in names], dtype=np.int8),
    }


def _int8(rows: Rows) -> NDArray[np.int8]:
    """Rows whose direction alone matters, each scaled to fill an int8."""
    return np.asarray(np.rint(rows * (127 / np.abs(rows).max(axis=1, keepdims=True))), dtype=np.int8)
