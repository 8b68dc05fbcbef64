"""A Qwen-VL model and its readout as one module of sentence-transformers: it is saved, loaded and trained as one.

`SentenceTransformer(modules=[QwenVL(…), Normalize()])` is the whole embedder; `composed` makes it.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.input_module import InputModule
from sentence_transformers.sentence_transformer.modules import Normalize

from reelspace.embed.qwen_vl.device import attention, need
from reelspace.embed.qwen_vl.inputs import Family, Prepared, Preparer, collated
from reelspace.embed.qwen_vl.memory import Memory
from reelspace.embed.qwen_vl.readout import FILE, Readout
from reelspace.errors import ModelError
from reelspace.item import Frames, Item

Tap = tuple[int | None, bool]
"""After how many layers a state is read (`None`: after the last), and whether the final norm is applied to it."""


class QwenVL(InputModule):  # type: ignore[misc]  # its stubs are not read
    """A Qwen2-VL, Qwen2.5-VL, Qwen3-VL or VideoLLaMA 3 model of which vectors are read as its readout says.

    Attributes:
        backbone: transformers' `…ForConditionalGeneration`, language head included.
        tokenizer: its tokenizer.
        readout: the contract.
        padding_side: where batches are padded. Vectors do not depend on it.
    """

    def __init__(self, backbone: Any, tokenizer: Any, readout: Readout, padding_side: str = "right") -> None:
        super().__init__()
        self.backbone, self.tokenizer, self.readout = backbone, tokenizer, readout
        self.padding_side = padding_side
        self.tap  # refuses a layer that is not there  # noqa: B018

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> Self:
        """From a folder with weights, tokenizer and `readout.json`, as sentence-transformers calls it."""
        arguments = options.get("model_kwargs") or {}
        folder = Path(model_name_or_path, options.get("subfolder") or "")
        base = adapted(folder)
        if base is None:
            return cls.opened(folder, Readout.read(folder), **arguments)
        return cls.opened(base, Readout.read(folder), folder, **arguments)

    @classmethod
    def opened(cls, folder: Path, readout: Readout, adapter: Path | None = None, **arguments: Any) -> Self:
        """From a folder with weights and tokenizer.

        Args:
            adapter: a folder with a LoRA adapter of it, that is merged into the weights.
            arguments: for transformers' `from_pretrained`: `dtype`, `attn_implementation`, ….

        Raises:
            ModelError: it is no Qwen-VL model, or its files are damaged or incomplete.
        """
        from transformers import AutoConfig, AutoModelForImageTextToText, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar

        if not sys.stderr.isatty():
            disable_progress_bar()
        arguments.setdefault("dtype", torch.float32)
        arguments.setdefault("attn_implementation", attention("cpu", arguments["dtype"]))
        try:
            Family.of(AutoConfig.from_pretrained(folder))
            tokenizer = AutoTokenizer.from_pretrained(folder)
            backbone, report = AutoModelForImageTextToText.from_pretrained(
                folder, output_loading_info=True, **arguments
            )
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{folder} cannot be loaded: {error}") from error
        if missing := sorted(report["missing_keys"]):
            raise ModelError(f"{folder} lacks weights: {', '.join(missing[:3])} and {len(missing)} in all.")
        if adapter is not None:
            need("peft")
            from peft import PeftModel

            backbone = PeftModel.from_pretrained(backbone, str(adapter)).merge_and_unload()
        return cls(backbone.eval(), tokenizer, readout)

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Writes weights, tokenizer and `readout.json`; of a model with a LoRA adapter in it, the adapter alone."""
        if (adapters := getattr(self.backbone, "peft_config", None)) is None:
            self.backbone.save_pretrained(output_path)
        else:
            _save_adapter(self.backbone, adapters["default"], Path(output_path))
        self.tokenizer.save_pretrained(output_path)
        self.readout.write(Path(output_path))

    @property
    def modalities(self) -> list[Any]:
        """What sentence-transformers may be given."""
        mixed = (tuple(sorted(name.split("+"))) for name in sorted(self.readout.modalities))
        return [kinds if len(kinds) > 1 else kinds[0] for kinds in mixed]

    def get_embedding_dimension(self) -> int:
        """d, the length of a vector."""
        return int(self.backbone.config.text_config.hidden_size)

    @property
    def decoder(self) -> Any:
        """The language model's layers and final norm."""
        return self.backbone.get_decoder()

    @property
    def tap(self) -> Tap:
        """Where the contract reads.

        Raises:
            ModelError: there is no such layer.
        """
        return self._checked((self.readout.layer, self.readout.norm))

    @cached_property
    def preparer(self) -> Preparer:
        """Makes inputs of items."""
        tokenizer = copy.deepcopy(self.tokenizer.backend_tokenizer)
        specials = {str(token): index for index, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        return Preparer(tokenizer, specials, self.readout, Family.of(self.backbone.config))

    def remember(self, folder: Path) -> Memory:
        """From here on what the vision tower makes of a picture or clip is kept in the folder and never made again.

        Raises:
            ModelError: the architecture hands more on than visual tokens.
        """
        memory = Memory(folder, self.backbone, self.preparer.family, self.readout)
        self.preparer.memory = memory
        return memory

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, task: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The arguments of the model for items, or whatever sentence-transformers takes for them.

        Args:
            inputs: `Item`s, texts, PIL images, frames, or dictionaries of `text`, `image` and `video`.
            prompt: the instruction; left out, the contract's own.
            task: `query` or `document`, as `encode_query` and `encode_document` say it. Neither: a candidate, unless
                an instruction is given.
        """
        side = "query" if task == "query" or (prompt is not None and task is None) else "candidate"
        return self.collate([self.preparer(as_item(given), side, prompt) for given in inputs])

    def collate(self, prepared: Sequence[Prepared]) -> dict[str, Any]:
        """One batch of prepared items: the arguments of the model."""
        pad = self.tokenizer.pad_token_id or 0
        return collated(prepared, pad, self.padding_side, self.preparer.family)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Adds `sentence_embedding`, float `[n, d]`, not yet of unit length."""
        return {**features, "sentence_embedding": self.states(features, [self.tap])[0]}

    def states(self, features: dict[str, Any], taps: Sequence[Tap]) -> list[torch.Tensor]:
        """The pooled token's state at every tap, `[n, d]` each, from one pass.

        Raises:
            ModelError: an input is missing or visual tokens were cut; or there is no such layer.
        """
        inputs = self._complete(features)
        rows, at = pooled(inputs["attention_mask"], self.readout.position)
        layers, norm = self.decoder.layers, self.decoder.norm
        seen: dict[int, torch.Tensor] = {}
        taps = [self._checked(tap) for tap in taps]

        def keep(layer: int) -> Any:
            def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                states = args[0] if args else kwargs["hidden_states"]
                seen[layer] = states[rows.to(states.device), at.to(states.device)]

            return hook

        # What enters a layer is the state after those before it; what enters the final norm, the state after the last.
        hooks = [
            (norm if layer == len(layers) else layers[layer]).register_forward_pre_hook(keep(layer), with_kwargs=True)
            for layer in {len(layers) if layer is None else layer for layer, _ in taps}
        ]
        try:
            self.backbone.model(**inputs, use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
        read = [(seen[len(layers) if layer is None else layer], normed) for layer, normed in taps]
        return [norm(states) if normed else states for states, normed in read]

    def _checked(self, tap: Tap) -> Tap:
        layer, count = tap[0], len(self.decoder.layers)
        if layer is not None and not 0 <= layer <= count:
            raise ModelError(f"The model has {count} layers; there is no state after {layer}.")
        return tap

    def _complete(self, features: dict[str, Any]) -> dict[str, Any]:
        """The model's own arguments, made of the features, if nothing is missing among them.

        Without `mm_token_type_ids` transformers would take every position as one of a text, without times every clip
        as one of a frame each half second, and say nothing.
        """
        inputs = {name: value for name, value in features.items() if name in _ARGUMENTS}
        family = self.preparer.family
        needed = {"input_ids", "attention_mask"} | ({"mm_token_type_ids"} if family.typed else set())
        if family.spaced and "video_grid_thw" in inputs:
            needed |= {"seconds_per_sample", "num_videos_per_sample"}
        if missing := needed - set(features):
            raise ModelError(f"The model is not given {', '.join(sorted(missing))}; make its inputs by `preprocess`.")
        if family.spaced and "video_grid_thw" in inputs:  # those of a part of a batch are made anew
            inputs["second_per_grid_ts"] = features["seconds_per_sample"][features["num_videos_per_sample"] > 0]
        for name, token, merge in (("image", family.image, family.merge), ("video", family.video, family.cut.merge)):
            there, grid = int((inputs["input_ids"] == token).sum()), inputs.get(f"{name}_grid_thw")
            wanted = 0 if grid is None else int(grid.prod(dim=1).sum()) // merge**2
            if name == "video" and "video_compression_mask" in inputs:
                wanted = int(inputs["video_compression_mask"].sum())
            if there != wanted:
                raise ModelError(f"The prompt has {there} {name} tokens where what it shows has {wanted}.")
            if grid is not None and family.kind == "video_llama_3":
                inputs[f"{name}_merge_sizes"] = torch.full((len(grid),), merge, device=grid.device)
        return inputs if self.preparer.memory is None else _seen(inputs, self.get_embedding_dimension())


def adapted(folder: Path) -> Path | None:
    """The folder of the model that an adapter in this folder belongs to; `None` where there is no adapter."""
    path = folder / "adapter_config.json"
    if not path.exists():
        return None
    from reelspace.embed.presets import load
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

    name = json.loads(path.read_text("utf-8"))["base_model_name_or_path"]
    try:
        base = load(name)
    except ModelError:
        if not (folder / FILE).exists():
            raise
        base = load(name, **Readout.read(folder).declared())  # the base may have no contract of its own
    if not isinstance(base, QwenVLEmbedder):
        raise ModelError(f"{folder} is an adapter of {base.name}, which is no Qwen-VL model.")
    return base.folder


def _save_adapter(backbone: Any, settings: Any, folder: Path) -> None:
    """As PEFT writes it, so that it reads it too."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    held = get_peft_model_state_dict(backbone, adapter_name="default")
    folder.mkdir(parents=True, exist_ok=True)
    named = {f"base_model.model.{name}": weight.contiguous() for name, weight in held.items()}
    save_file(named, str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})
    settings.save_pretrained(str(folder))


def _seen(inputs: dict[str, Any], dim: int) -> dict[str, Any]:
    """The inputs with visual tokens handed on as such: what stands in the place of patches are tokens (`memory`)."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    seen = {
        name: BaseModelOutputWithPooling(pooler_output=(inputs.pop(pixels).reshape(-1, dim),))
        for name, pixels in (("image", "pixel_values"), ("video", "pixel_values_videos"))
        if pixels in inputs
    }
    return {**inputs, "mm_encoder_outputs": seen} if seen else inputs


_ARGUMENTS = frozenset(
    (
        *("input_ids", "attention_mask", "mm_token_type_ids", "pixel_values", "image_grid_thw"),
        *("pixel_values_videos", "video_grid_thw", "video_compression_mask"),
    )
)


def pooled(mask: torch.Tensor, position: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and column of each row's pooled token: `position` from the end of what the mask `[n, length]` shows."""
    columns = torch.arange(mask.shape[1], device=mask.device)
    last = torch.where(mask.bool(), columns, -1).max(dim=1).values
    return torch.arange(len(mask), device=mask.device), last + 1 + position


def as_item(given: Any) -> Item:
    """The item that sentence-transformers means by an input.

    A video given as frames without times takes them as coming 2 a second, as the models' own processors do.

    Raises:
        ItemError: it means none.
    """
    if isinstance(given, Item):
        return given
    if isinstance(given, str):
        return Item(text=given)
    if isinstance(given, dict):
        if "array" in given:
            return Item(video=_frames(given))
        parts = dict(given)
        if parts.get("video") is not None:
            parts["video"] = _frames(parts["video"])
        return Item(**{name: part for name, part in parts.items() if part is not None})
    if getattr(given, "ndim", None) == 4:
        return Item(video=_frames(given))
    return Item(image=given)


def _frames(video: Any) -> Any:
    import numpy as np

    about: Any = {}
    if isinstance(video, dict):
        about, video = video.get("video_metadata") or {}, video["array"]
    if not hasattr(video, "ndim"):
        return video  # a path, a span, or frames already
    pixels = np.asarray(video)
    if pixels.shape[-1] != 3 and pixels.shape[1] == 3:
        pixels = pixels.transpose(0, 2, 3, 1)
    about = about if isinstance(about, dict) else vars(about)
    rate, indices = about.get("fps") or 2.0, about.get("frames_indices")
    times = (np.arange(len(pixels)) if indices is None else np.asarray(indices)) / rate
    return Frames(np.ascontiguousarray(pixels), times)


def composed(module: QwenVL) -> SentenceTransformer:
    """The module and its normalisation as a `SentenceTransformer`, that saves, loads and trains as any other."""
    readout = module.readout
    return SentenceTransformer(
        modules=[module, Normalize()],
        device=str(next(module.parameters()).device),
        prompts={"query": readout.query, "document": readout.candidate},
        similarity_fn_name="cosine",
    )


def reopened(folder: Path | str, **arguments: Any) -> SentenceTransformer:
    """What `save` of a composed model wrote. No code of the folder is run.

    Args:
        arguments: for transformers' `from_pretrained`: `dtype`, `attn_implementation`, ….
    """
    return composed(QwenVL.load(str(folder), model_kwargs=arguments))
