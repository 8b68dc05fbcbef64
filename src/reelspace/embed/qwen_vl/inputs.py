"""Item → what a Qwen-VL model (or VideoLLaMA 3) takes: token ids, kinds of token, patches, grids, times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.qwen_vl.pixels import CLIP_MEAN, CLIP_STD, Patches, normalised, patchified, resized, smart_resize
from reelspace.embed.qwen_vl.readout import Readout
from reelspace.errors import ModelError
from reelspace.item import Frames, Item, Span
from reelspace.media.decode import sample
from reelspace.media.image import load_image

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from reelspace.embed.qwen_vl.memory import Memory

VERSION = 1
"""Of the preparation; raised whenever it makes other inputs of the same items."""

TEXT, IMAGE, VIDEO = range(3)
"""Kinds of token (`mm_token_type_ids`)."""

_SLOTS = re.compile(r"(\{(?:instruction|user|video|image|text|\|)\})")

Run = str | list[int]


KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "video_llama_3")
"""The architectures, as configurations name them."""


@dataclass(frozen=True)
class Family:
    """What the architecture asks of its inputs, from the model's own configuration.

    Attributes:
        kind: which it is.
        cut: how the vision tower cuts videos, and pictures but for `merge`.
        merge: patches along an edge of a picture that become one visual token.
        image, video: ids of the visual tokens.
        start, end: ids of what stands around them.
        mean, std: what pixels are normalised with.
    """

    kind: str
    cut: Patches
    merge: int
    image: int
    video: int
    start: tuple[int, ...]
    end: tuple[int, ...]
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD

    @property
    def spaced(self) -> bool:
        """Positions tell how far apart frames are; the others write times between them, or nothing at all."""
        return self.kind == "qwen2_5_vl"

    @property
    def typed(self) -> bool:
        """It must be told the kind of each token, or its positions are wrong."""
        return self.kind != "video_llama_3"

    @classmethod
    def of(cls, config: Any) -> Family:
        """The family of a transformers configuration.

        Raises:
            ModelError: it is none of `KINDS`.
        """
        kind = config.model_type
        if kind not in KINDS:
            raise ModelError(f"A model of type {kind} is none of {', '.join(KINDS)}.")
        vision, half = config.vision_config, (0.5, 0.5, 0.5)
        if kind == "video_llama_3":
            cut = Patches(vision.patch_size, temporal=1)
            return cls(kind, cut, 1, config.image_token_id, config.video_token_id, (), (), half, half)
        cut = Patches(vision.patch_size, vision.temporal_patch_size, vision.spatial_merge_size)
        pixels = (half, half) if kind == "qwen3_vl" else (CLIP_MEAN, CLIP_STD)
        around = (config.vision_start_token_id,), (config.vision_end_token_id,)
        return cls(kind, cut, cut.merge, config.image_token_id, config.video_token_id, *around, *pixels)


@dataclass(frozen=True)
class Visual:
    """A picture or video, prepared.

    Attributes:
        patches: float32 `[t·h·w, 3·temporal·patch²]`; of what is remembered, its visual tokens (`memory`).
        grid: `(t, h, w)` in patches.
        tokens: how many visual tokens each of the t layers of the grid becomes.
        times: seconds into the stretch, one for each layer; empty for a picture.
        seconds: how long a layer lasts.
        kept: bool `[t·h·w / merge²]`: the tokens that are not left out for their likeness to the frame before
            (VideoLLaMA 3); `None`: all.
    """

    patches: NDArray[np.float32]
    grid: tuple[int, int, int]
    tokens: tuple[int, ...]
    times: tuple[float, ...] = ()
    seconds: float = 1.0
    kept: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Prepared:
    """An item as the model takes it.

    Attributes:
        ids: int64 `[n]`.
        kinds: int64 `[n]`: text, image or video.
        images, videos: its visual parts.
        cut: tokens of the text that were left out.
    """

    ids: NDArray[np.int64]
    kinds: NDArray[np.int64]
    images: tuple[Visual, ...] = ()
    videos: tuple[Visual, ...] = ()
    cut: int = 0

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class Preparer:
    """Makes a model's inputs of items.

    Attributes:
        tokenizer: the model's own.
        specials: special token → id; they have power in the template, none in what users write.
        readout: the contract.
        family: what the architecture asks for.
        memory: keeps what the vision tower makes of pictures and clips; `None`: nothing is kept.
    """

    tokenizer: Tokenizer
    specials: Mapping[str, int]
    readout: Readout
    family: Family
    memory: Memory | None = None
    _special: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        self.tokenizer.encode_special_tokens = True
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        names = sorted(self.specials, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, names)) + ")")
        for text in (self.readout.template, self.readout.appended, *self.readout.user.values()):
            for name in re.findall(r"<\|\w+\|>", text):
                if name not in self.specials:
                    raise ModelError(f"The readout writes {name}, which is no special token of this tokenizer.")

    def __call__(self, item: Item, side: str, instruction: str | None = None) -> Prepared:
        """The inputs of an item.

        Raises:
            ReelspaceError: a part cannot be read, or what must not be cut is longer than the model takes.
        """
        images, shown = self.visuals(item)
        stills = shown if self.readout.stills else ()
        parts: dict[str, list[Run]] = {
            "{image}": [run for image in images for run in self._still(image)],
            "{video}": [run for visual in shown for run in (self._still if stills else self._moving)(visual)],
        }
        form = self.readout.template.replace("{user}", self.readout.said(item.modality, side)) + self.readout.appended
        ids, cut = self._written(form, item.text or "", self.readout.instruction(side, instruction), parts)
        row = np.asarray(ids, dtype=np.int64)
        kinds = IMAGE * (row == self.family.image) + VIDEO * (row == self.family.video)
        return Prepared(row, kinds.astype(np.int64), (*stills, *images), () if stills else shown, cut)

    def visuals(self, item: Item) -> tuple[tuple[Visual, ...], tuple[Visual, ...]]:
        """The pictures and the clips (or stills of them) of an item, prepared, or remembered.

        Raises:
            ReelspaceError: one cannot be read.
        """
        image, video, memory = item.image, item.video, self.memory
        if memory is None:
            images = () if image is None else (self.picture(load_image(image)),)
            return images, () if video is None else self.shown(video)
        return (
            () if image is None else (memory(image, "image", lambda: self.picture(load_image(image))),),
            () if video is None else (memory(video, "video", lambda: self.shown(video)[0]),),
        )

    def picture(self, pixels: NDArray[np.uint8], budget: tuple[int, int] | None = None) -> Visual:
        """A picture uint8 `[H, W, 3]`, prepared; a budget other than the contract's for pictures can be given."""
        cut = replace(self.family.cut, merge=self.family.merge)
        patches, grid = self._patches(pixels[None], budget or self.readout.image_pixels, cut)
        return Visual(patches, grid, (len(patches) // cut.merge**2,))

    def shown(self, video: Span | Frames) -> tuple[Visual, ...]:
        """A span or frames, chosen by the contract's policy and prepared: one video, or as many stills."""
        readout, cut = self.readout, self.family.cut
        frames = video if isinstance(video, Frames) else sample(video, readout.sampling)
        chosen = readout.sampling.policy.choose(frames.times, frames.start, frames.end)
        if readout.stills:
            return tuple(self.picture(frames.pixels[index], readout.frame_pixels) for index in chosen.tolist())
        budget = readout.frame_budget(len(chosen), cut.temporal)
        patches, grid = self._patches(frames.pixels[chosen], budget, cut)
        at = frames.times[chosen] - frames.start
        at = np.concatenate([at, np.repeat(at[-1:], -len(at) % cut.temporal)]).reshape(-1, cut.temporal)
        middles = tuple(((at[:, 0] + at[:, -1]) / 2).tolist())
        seconds = cut.temporal * (frames.end - frames.start) / len(chosen) if readout.timed else readout.seconds
        kept = unlike(patches, grid, cut.merge) if self.family.kind == "video_llama_3" else None
        tokens = (grid[1] * grid[2] // cut.merge**2,) * grid[0] if kept is None else kept.reshape(grid[0], -1).sum(1)
        return (Visual(patches, grid, tuple(map(int, tokens)), middles, float(seconds), kept),)

    def _patches(
        self, frames: NDArray[np.uint8], budget: tuple[int, int], cut: Patches
    ) -> tuple[NDArray[np.float32], tuple[int, int, int]]:
        size = self.readout.size or smart_resize(frames.shape[1], frames.shape[2], cut.factor, *budget)
        return patchified(normalised(resized(frames, *size), self.family.mean, self.family.std), cut)

    def _still(self, visual: Visual) -> list[Run]:
        return [self._framed([self.family.image] * sum(visual.tokens))]

    def _framed(self, tokens: list[int]) -> list[int]:
        return [*self.family.start, *tokens, *self.family.end] if self.readout.framed else tokens

    def _moving(self, visual: Visual) -> list[Run]:
        """A video's tokens: on end, or each layer after its time."""
        token = self.family.video
        if self.family.kind in ("qwen2_vl", "qwen2_5_vl"):
            return [self._framed([token] * sum(visual.tokens))]
        stamp = "<{:.1f} seconds>" if self.family.kind == "qwen3_vl" else "Time {:.1f}s:"
        runs: list[Run] = []
        for time, count in zip(visual.times, visual.tokens, strict=True):
            comma = "," if runs and self.family.kind == "video_llama_3" else ""
            runs += [comma + stamp.format(time), self._framed([token] * count)]
        return runs

    def _written(self, form: str, text: str, instruction: str, parts: Mapping[str, list[Run]]) -> tuple[list[int], int]:
        """The ids of the whole prompt, and how many tokens of the text were left out to make it fit."""
        ids, most = self._ids(form, text, instruction, parts), self.readout.max_length
        if len(ids) <= most:
            return ids, 0
        needed = len(self._ids(form, "", instruction, parts))
        if needed >= most or not text:
            raise ModelError(
                f"Without its text this item takes {needed:,} tokens where the model takes {most:,}; pictures and "
                "instructions are not cut. Give fewer or smaller frames, or a larger max_length."
            )
        offsets = self.tokenizer.encode(text, add_special_tokens=False).offsets
        keep = most - needed
        while len(ids := self._ids(form, text[: offsets[keep - 1][1]], instruction, parts)) > most:
            keep -= len(ids) - most
        return ids, len(offsets) - keep

    def _ids(self, form: str, text: str, instruction: str, parts: Mapping[str, list[Run]]) -> list[int]:
        """Plain words between two special tokens are tokenised as one."""
        ids: list[int] = []
        plain = ""
        for piece in _SLOTS.split(form):
            for run in self._runs(piece, text, instruction, parts):
                if isinstance(run, str):
                    plain += run
                    continue
                ids += [*self._plain(plain), *run]
                plain = ""
        return ids + self._plain(plain)

    def _runs(self, piece: str, text: str, instruction: str, parts: Mapping[str, list[Run]]) -> list[Run]:
        if piece in parts:
            return parts[piece]
        if piece in ("{text}", "{instruction}", "{|}"):
            return [[]] if piece == "{|}" else [text if piece == "{text}" else instruction]
        literal = self._special.split(piece) if self.specials else [piece]
        return [[self.specials[part]] if part in self.specials else part for part in literal]

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids if text else []
        return ids


def unlike(patches: NDArray[np.float32], grid: tuple[int, int, int], merge: int) -> NDArray[np.bool_]:
    """Which tokens of a video differ from the frame before, as VideoLLaMA 3 drops the others; one a frame stays."""
    t, h, w = grid
    rows = patches.reshape(t, h * w // merge**2, -1)
    kept = np.ones(rows.shape[:2], dtype=np.bool_)
    kept[1:] = np.abs(rows[1:] - rows[:-1]).mean(axis=2) * 255 > 0.1
    kept[~kept.any(axis=1), 0] = True
    return kept.ravel()


def collated(prepared: Sequence[Prepared], pad: int, side: str, family: Family) -> dict[str, Any]:
    """The arguments of the model for a batch, padded on that side: torch tensors by name."""
    import torch

    length = max(map(len, prepared))
    ids = np.full((len(prepared), length), pad, dtype=np.int64)
    mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
    for row, item in enumerate(prepared):
        place = slice(0, len(item)) if side == "right" else slice(length - len(item), length)
        ids[row, place], mask[row, place], kinds[row, place] = item.ids, 1, item.kinds
    arrays: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if family.typed:
        arrays["mm_token_type_ids"] = kinds
    for name, patches, shown in (
        ("image", "pixel_values", [item.images for item in prepared]),
        ("video", "pixel_values_videos", [item.videos for item in prepared]),
    ):
        visuals = [visual for part in shown for visual in part]
        if not visuals:
            continue
        arrays[patches] = np.concatenate([visual.patches for visual in visuals])
        arrays[f"{name}_grid_thw"] = np.asarray([visual.grid for visual in visuals], dtype=np.int64)
        # By these the losses of sentence-transformers that work through a batch in parts know what is whose.
        arrays[f"num_{name}s_per_sample"] = np.asarray([len(part) for part in shown], dtype=np.int64)
        if visuals[0].kept is not None:
            arrays["video_compression_mask"] = np.concatenate([visual.kept for visual in visuals])
    if family.spaced and "video_grid_thw" in arrays:
        seconds = [item.videos[0].seconds if item.videos else 0.0 for item in prepared]
        arrays["seconds_per_sample"] = np.asarray(seconds, dtype=np.float32)
        arrays["second_per_grid_ts"] = arrays["seconds_per_sample"][arrays["num_videos_per_sample"] > 0]
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
