"""Pictures → ImageNet features, class scores, faces."""

from __future__ import annotations

from collections.abc import Sequence
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
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return Picture(_scaled(image, (left, top, left + side, top + side)), _scaled(image, (0, 0, width, height)))


def _scaled(image: Image.Image, box: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box), dtype=np.uint8)


class VisionEncoder:
    """EfficientNet-Lite0 and CenterFace."""

    def __init__(self) -> None:
        self._classify = weights.session("vision.onnx")
        self._find_face = weights.session("faces.onnx")

    def __call__(self, pictures: Sequence[Picture]) -> Seen:
        """Runs pictures one by one: on a CPU a batch is no faster, as its activations leave the cache.

        One that stands there several times, as in a clip of few frames, is looked at once.
        """
        seen: dict[int, list[NDArray[np.float32]]] = {}
        rows = [seen.get(id(picture)) or seen.setdefault(id(picture), self._look(picture)) for picture in pictures]
        return Seen(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))

    def _look(self, picture: Picture) -> list[NDArray[np.float32]]:
        looks: list[NDArray[np.float32]] = [
            *self._classify.run(["features", "logits"], {"frames": picture.centre[None]}),
            *self._find_face.run(["faces"], {"frames": picture.whole[None]}),
        ]
        return looks
