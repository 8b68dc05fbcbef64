"""Two towers of the kind of CLIP: one for texts, one for pictures. A video is the mean of its frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Vectors, encode, fingerprint, normalise
from reelspace.embed.hub import commit, hashed
from reelspace.embed.qwen_vl import device as devices
from reelspace.embed.qwen_vl.pixels import CLIP_MEAN, CLIP_STD, normalised
from reelspace.errors import ModelError
from reelspace.item import Frames, Item, Span
from reelspace.media.decode import sample
from reelspace.media.image import load_image
from reelspace.media.policy import Sampling, parse_policy

AT_ONCE = 64
"""Texts, or frames, that go through a tower together."""
VERSION = 1
"""Of the preparation."""


@dataclass(frozen=True)
class Towers:
    """How the towers' inputs are made.

    Attributes:
        size: height and width of what the picture's tower sees.
        crop: the shorter side is brought to that size and the middle cut out; else the whole is squeezed into it.
        filter: how pixels are resized: `bicubic` or `bilinear`.
        mean, std: what pixels are normalised with.
        length: most tokens of a text; its end is cut.
        padded: every text is padded to that length, as the model was trained.
        lower: texts are put in small letters.
        frames: the frame policy.
    """

    size: int = 224
    crop: bool = False
    filter: str = "bicubic"
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD
    length: int = 77
    padded: bool = False
    lower: bool = False
    frames: str = "uniform(8)"

    def __post_init__(self) -> None:
        if self.filter not in ("bicubic", "bilinear"):
            raise ModelError(f"filter is bicubic or bilinear, not {self.filter}.")

    @classmethod
    def read(cls, folder: Path) -> dict[str, Any]:
        """What a repository says of its own preparation: the keys of `Towers` that its files tell."""
        about = json.loads((folder / "preprocessor_config.json").read_text("utf-8"))
        config = json.loads((folder / "config.json").read_text("utf-8"))
        size, whole = about.get("crop_size") or about["size"], config["model_type"] == "clip"
        return {
            "size": size if isinstance(size, int) else size.get("height") or size["shortest_edge"],
            "crop": bool(about.get("do_center_crop", whole)),
            "filter": {2: "bilinear", 3: "bicubic"}[about.get("resample", 3)],
            "mean": tuple(about["image_mean"]),
            "std": tuple(about["image_std"]),
            "length": config.get("text_config", {}).get("max_position_embeddings", 77 if whole else 64),
            "padded": not whole,
            "lower": config["model_type"] == "siglip2",
        }


class DualEncoder:
    """Two towers of one space. A mix of parts is the mean of its parts' unit vectors.

    Args:
        name: the name it is known by.
        find: gives the folder of the weights; may download them.
        towers: how inputs are made.
        describe: gives a folder with its configuration, weights or not; left out, that of the weights.
        revision: of the weights; `None`: they are hashed.
        device, dtype: as of `QwenVLEmbedder`.
    """

    modalities = frozenset(("text", "image", "video", "image+text", "video+text", "video+image", "video+image+text"))

    def __init__(
        self,
        name: str,
        find: Callable[[], Path],
        towers: Towers,
        *,
        describe: Callable[[], Path] | None = None,
        dim: int | None = None,
        source: str | None = None,
        revision: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        self.name, self.towers, self.sampling = name, towers, Sampling(parse_policy(towers.frames))
        self._find, self._dim, self._source, self._revision = find, dim, source, revision
        self._describe = describe or (lambda: self.folder)
        self._device, self._dtype = device, dtype or "float32"

    @cached_property
    def folder(self) -> Path:
        """The folder of the weights."""
        return self._find()

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the weights, the preparation and the frame policy."""
        weights = self._revision or commit(self._describe()) or hashed(self.folder)
        return fingerprint(
            model=self._source or "folder", weights=weights, towers=asdict(self.towers), dtype=self._dtype, code=VERSION
        )

    @property
    def contract(self) -> dict[str, Any]:
        """All that decides a vector, for `models show`."""
        where = {
            "source": self._source or self.name,
            "revision": self._revision or ("main" if self._source else None),
            "dtype": self._dtype,
        }
        return {**where, **asdict(self.towers)}

    @cached_property
    def dim(self) -> int:
        """Length of a vector."""
        return self._dim or int(self._texts(["a"]).shape[1])

    @cached_property
    def _model(self) -> Any:
        devices.need("torch", "transformers")
        from transformers import AutoModel

        kind = devices.dtype(self._dtype, self._where)
        try:
            return AutoModel.from_pretrained(self.folder, dtype=kind).eval().to(self._where)
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{self.folder} cannot be loaded: {error}") from error

    @cached_property
    def _tokenizer(self) -> Any:
        devices.need("transformers")
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder)

    @cached_property
    def _where(self) -> str:
        return devices.device(self._device)

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors:
        """Unit rows float32 `[n, d]`. Such a model follows no instruction: one that is given changes nothing.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """
        return self.encode_candidate(items)

    def encode_candidate(self, items: Sequence[Item]) -> Vectors:
        """Unit rows float32 `[n, d]`.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """
        return encode(items, self.modalities, self._prepared, self._run, self.dim)

    def _prepared(self, item: Item) -> tuple[str | None, tuple[NDArray[np.float32], ...]]:
        """Its text, and its pictures float32 `[n, 3, size, size]`: frames and image apart."""
        visuals = [] if item.video is None else [self._pixels(self._frames(item.video))]
        if item.image is not None:
            visuals.append(self._pixels(load_image(item.image)[None]))
        return item.text, tuple(visuals)

    def _frames(self, video: Span | Frames) -> NDArray[np.uint8]:
        frames = video if isinstance(video, Frames) else sample(video, self.sampling)
        return frames.pixels[self.sampling.policy.choose(frames.times, frames.start, frames.end)]

    def _pixels(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        return normalised(np.stack([fitted(frame, self.towers) for frame in frames]), self.towers.mean, self.towers.std)

    def _run(self, prepared: Sequence[tuple[str | None, tuple[NDArray[np.float32], ...]]]) -> Vectors:
        texts = iter(self._texts([text for text, _ in prepared if text is not None]))
        every = [visual for _, visuals in prepared for visual in visuals]
        seen = self._pictures(np.concatenate(every) if every else np.empty((0, 0), dtype=np.float32))
        rows, at = np.zeros((len(prepared), self.dim), dtype=np.float32), 0
        for row, (text, visuals) in enumerate(prepared):
            for visual in visuals:
                rows[row] += normalise(seen[at : at + len(visual)].mean(axis=0, keepdims=True))[0]
                at += len(visual)
            if text is not None:
                rows[row] += next(texts)
        return normalise(rows)

    def _texts(self, texts: Sequence[str]) -> Vectors:
        towers = self.towers

        def made(part: Sequence[str]) -> Mapping[str, Any]:
            words = [text.lower() for text in part] if towers.lower else list(part)
            padding = "max_length" if towers.padded else "longest"
            given: Mapping[str, Any] = self._tokenizer(
                words, padding=padding, truncation=True, max_length=towers.length, return_tensors="pt"
            )
            return given

        return self._through("get_text_features", texts, made)

    def _pictures(self, pixels: NDArray[np.float32]) -> Vectors:
        def made(part: Any) -> Mapping[str, Any]:
            import torch

            return {"pixel_values": torch.from_numpy(np.asarray(part)).to(self._model.dtype)}

        return self._through("get_image_features", pixels, made)

    def _through(self, tower: str, inputs: Any, made: Callable[[Any], Mapping[str, Any]]) -> Vectors:
        import torch

        def parts() -> Iterator[Vectors]:
            for start in range(0, len(inputs), AT_ONCE):
                given = {name: value.to(self._where) for name, value in made(inputs[start : start + AT_ONCE]).items()}
                out = getattr(self._model, tower)(**given)
                yield getattr(out, "pooler_output", out).float().cpu().numpy()

        with torch.inference_mode():
            found = list(parts())
        return normalise(np.concatenate(found)) if found else np.empty((0, self.dim), dtype=np.float32)


def fitted(frame: NDArray[np.uint8], towers: Towers) -> NDArray[np.uint8]:
    """A picture uint8 `[H, W, 3]` → `[size, size, 3]`."""
    from PIL import Image

    size, how = towers.size, Image.Resampling[towers.filter.upper()]
    image = Image.fromarray(frame)
    if not towers.crop:
        return np.asarray(image.resize((size, size), how))
    scale = size / min(image.size)
    width, height = (max(size, int(side * scale)) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    return np.asarray(image.resize((width, height), how).crop((left, top, left + size, top + size)))
