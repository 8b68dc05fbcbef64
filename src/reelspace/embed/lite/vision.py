"""Pictures → ImageNet features, class scores, faces."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reelspace.embed.lite import weights

SIDE = 224
VERSION = 1  # of `prepare`; part of the model's fingerprint


class Picture(NamedTuple):
    """A picture as the networks take it: two views, uint8 `[224, 224, 3]`."""

    centre: NDArray[np.uint8]  # the middle square, undistorted: for the classifier
    whole: NDArray[np.uint8]  # all of it, squeezed: for faces, colours, movement


class Seen(NamedTuple):
    """What the networks say of n pictures."""

    features: NDArray[np.float32]  # [n, 1280], not negative
    logits: NDArray[np.float32]  # [n, 1000]
    faces: NDArray[np.float32]  # [n], 0 (surely no face) … 1 (surely one)


def prepare(pixels: NDArray[np.uint8]) -> Picture:
    """A picture uint8 `[H, W, 3]` of any size, as the networks take it."""
    image = Image.fromarray(pixels)
    width, height = image.size
    if width == height:
        return Picture(*[_scaled(image, (0, 0, width, height))] * 2)
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return Picture(_scaled(image, (left, top, left + side, top + side)), _scaled(image, (0, 0, width, height)))


def _scaled(image: Image.Image, box: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box), dtype=np.uint8)


REMEMBERED = 512
"""Pictures whose looks are kept, 9 kB each: slides, screens and drawn scenes show the same again and again."""


class VisionEncoder:
    """EfficientNet-Lite0 and CenterFace."""

    def __init__(self) -> None:
        self._classify = weights.session("vision.onnx")
        self._find_face = weights.session("faces.onnx")
        self._seen: OrderedDict[bytes, list[NDArray[np.float32]]] = OrderedDict()

    def __call__(self, pictures: Sequence[Picture]) -> Seen:
        """Runs pictures one by one: on a CPU a batch is no faster, as its activations leave the cache.

        One that was there before, in a clip of few frames or a little earlier, is not looked at again.
        """
        return Seen(*(np.concatenate(parts) for parts in zip(*map(self._remembered, pictures), strict=True)))

    def _remembered(self, picture: Picture) -> list[NDArray[np.float32]]:
        key = blake2b(
            picture.whole.data, digest_size=16, key=blake2b(picture.centre.data, digest_size=16).digest()
        ).digest()
        looks = self._seen.pop(key, None) or self._look(picture)
        self._seen[key] = looks
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return looks

    def _look(self, picture: Picture) -> list[NDArray[np.float32]]:
        looks: list[NDArray[np.float32]] = [
            *self._classify.run(["features", "logits"], {"frames": picture.centre[None]}),
            *self._find_face.run(["faces"], {"frames": picture.whole[None]}),
        ]
        return looks
