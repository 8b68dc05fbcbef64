"""Item → what a Qwen-VL model takes: token ids, kinds of token, patches, grids, times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.qwen_vl.pixels import CLIP_MEAN, CLIP_STD, Patches, normalised, patchified, resized, smart_resize
from reelspace.embed.qwen_vl.readout import Readout
from reelspace.errors import ModelError
from reelspace.item import Frames, Item
from reelspace.media.decode import sample
from reelspace.media.image import load_image

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VERSION = 1
"""Of the preparation; raised whenever it makes other inputs of the same items."""

TEXT, IMAGE, VIDEO = range(3)
"""Kinds of token (`mm_token_type_ids`)."""

_SLOTS = re.compile(r"(\{(?:instruction|user|video|image|text|\|)\})")

Run = str | list[int]


@dataclass(frozen=True)
class Family:
    """What the architecture asks of its inputs, from the model's own configuration.

    Attributes:
        cut: how the vision tower cuts pictures.
        mean, std: what pixels are normalised with.
        image, video, start, end: ids of the visual tokens and of what stands around them.
        stamped: the time of each pair of frames is written before it (Qwen3-VL).
        spaced: positions tell how far apart frames are (Qwen2.5-VL).
    """

    cut: Patches
    image: int
    video: int
    start: int
    end: int
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD
    stamped: bool = False
    spaced: bool = False

    @classmethod
    def of(cls, config: Any) -> Family:
        """The family of a transformers configuration.

        Raises:
            ModelError: it is no Qwen-VL model.
        """
        kind = config.model_type
        if kind not in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl"):
            raise ModelError(f"A model of type {kind} is none of qwen2_vl, qwen2_5_vl, qwen3_vl.")
        vision = config.vision_config
        cut = Patches(vision.patch_size, vision.temporal_patch_size, vision.spatial_merge_size)
        ids = config.image_token_id, config.video_token_id, config.vision_start_token_id, config.vision_end_token_id
        if kind == "qwen3_vl":
            half = (0.5, 0.5, 0.5)
            return cls(cut, *ids, mean=half, std=half, stamped=True)
        return cls(cut, *ids, spaced=kind == "qwen2_5_vl")


@dataclass(frozen=True)
class Visual:
    """A picture or video, prepared.

    Attributes:
        patches: float32 `[t·h·w, 3·temporal·patch²]`.
        grid: `(t, h, w)` in patches.
        times: seconds into the stretch, one for each of the t layers of the grid; empty for a picture.
        seconds: how long a layer of the grid lasts.
    """

    patches: NDArray[np.float32]
    grid: tuple[int, int, int]
    times: tuple[float, ...] = ()
    seconds: float = 1.0


@dataclass(frozen=True)
class Prepared:
    """An item as the model takes it.

    Attributes:
        ids: int64 `[n]`.
        kinds: int64 `[n]`: text, image or video.
        image, video: its visual parts.
        cut: tokens of the text that were left out.
    """

    ids: NDArray[np.int64]
    kinds: NDArray[np.int64]
    image: Visual | None
    video: Visual | None
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
    """

    tokenizer: Tokenizer
    specials: Mapping[str, int]
    readout: Readout
    family: Family
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
        image = None if item.image is None else self.picture(load_image(item.image))
        video = None if item.video is None else self.video(item.video)
        parts: dict[str, list[Run]] = {
            "{image}": [] if image is None else self._around(self.family.image, image.grid),
            "{video}": [] if video is None else self._frames(video),
        }
        ids, cut = self._written(item, self.readout.instruction(side, instruction), parts)
        row = np.asarray(ids, dtype=np.int64)
        kinds = IMAGE * (row == self.family.image) + VIDEO * (row == self.family.video)
        return Prepared(row, kinds.astype(np.int64), image, video, cut)

    def picture(self, pixels: NDArray[np.uint8]) -> Visual:
        """A picture uint8 `[H, W, 3]`, prepared."""
        return Visual(*self._patches(pixels[None], self.readout.image_pixels))

    def video(self, video: Any) -> Visual:
        """A span or frames, chosen by the contract's policy and prepared."""
        readout, depth = self.readout, self.family.cut.temporal
        frames = video if isinstance(video, Frames) else sample(video, readout.sampling)
        chosen = readout.sampling.policy.choose(frames.times, frames.start, frames.end)
        patches, grid = self._patches(frames.pixels[chosen], readout.frame_budget(len(chosen)))
        shown = frames.times[chosen] - frames.start
        shown = np.concatenate([shown, np.repeat(shown[-1:], -len(shown) % depth)]).reshape(-1, depth)
        middles = tuple(((shown[:, 0] + shown[:, -1]) / 2).tolist())
        seconds = depth * (frames.end - frames.start) / len(chosen) if readout.timed else 1.0
        return Visual(patches, grid, middles, float(seconds))

    def _patches(
        self, frames: NDArray[np.uint8], budget: tuple[int, int]
    ) -> tuple[NDArray[np.float32], tuple[int, int, int]]:
        cut = self.family.cut
        size = self.readout.size or smart_resize(frames.shape[1], frames.shape[2], cut.factor, *budget)
        return patchified(normalised(resized(frames, *size), self.family.mean, self.family.std), cut)

    def _around(self, token: int, grid: Sequence[int]) -> list[Run]:
        count = int(np.prod(grid)) // self.family.cut.merge**2
        return [[self.family.start, *[token] * count, self.family.end]]

    def _frames(self, video: Visual) -> list[Run]:
        if not self.family.stamped:
            return self._around(self.family.video, video.grid)
        layer = self._around(self.family.video, (1, *video.grid[1:]))
        return [run for time in video.times for run in (f"<{time:.1f} seconds>", *layer)]

    def _written(self, item: Item, instruction: str, parts: Mapping[str, list[Run]]) -> tuple[list[int], int]:
        """The ids of the whole prompt, and how many tokens of the text were left out to make it fit."""
        form = self.readout.template.replace("{user}", self.readout.said(item.modality)) + self.readout.appended
        most, text = self.readout.max_length, item.text or ""
        ids = self._ids(form, text, instruction, parts)
        if len(ids) <= most:
            return ids, 0
        needed = len(self._ids(form, "", instruction, parts))
        if needed >= most or not text:
            raise ModelError(
                f"{item!r} takes {needed:,} tokens besides its text where the model takes {most:,}; pictures and "
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


def collated(prepared: Sequence[Prepared], pad: int, side: str, spaced: bool) -> dict[str, Any]:
    """The arguments of the model for a batch, padded on that side: torch tensors by name."""
    import torch

    length = max(map(len, prepared))
    ids = np.full((len(prepared), length), pad, dtype=np.int64)
    mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
    for row, item in enumerate(prepared):
        place = slice(0, len(item)) if side == "right" else slice(length - len(item), length)
        ids[row, place], mask[row, place], kinds[row, place] = item.ids, 1, item.kinds
    arrays: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "mm_token_type_ids": kinds}
    for visuals, patches, grid in (
        ([item.image for item in prepared if item.image], "pixel_values", "image_grid_thw"),
        ([item.video for item in prepared if item.video], "pixel_values_videos", "video_grid_thw"),
    ):
        if visuals:
            arrays[patches] = np.concatenate([visual.patches for visual in visuals])
            arrays[grid] = np.asarray([visual.grid for visual in visuals], dtype=np.int64)
    if spaced and (videos := [item.video for item in prepared if item.video]):
        arrays["second_per_grid_ts"] = np.asarray([video.seconds for video in videos], dtype=np.float32)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
