"""What of a model is trained, and what becomes of it afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelspace.errors import ModelError, ReelspaceError
from reelspace.train.config import Config, LoraConfig

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

WEIGHTS = "trained.safetensors"
"""In a checkpoint: the weights that are trained. The others are the base model's."""


def prepare(model: SentenceTransformer, config: Config, name: str | None = None) -> None:
    """Freezes what is not to be trained and puts the adapters in.

    Args:
        name: what an adapter says that it belongs to; left out, the configuration's.

    Raises:
        ReelspaceError: nothing would be trained.
    """
    module: Any = model[0]
    backbone = module.backbone
    if config.lora is not None:
        backbone.requires_grad_(False)
        _adapt(backbone, config.lora, name or config.model)
    if "vision" in config.frozen:
        backbone.model.visual.requires_grad_(False)
    if "embeddings" in config.frozen:
        backbone.get_input_embeddings().requires_grad_(False)
    if config.lora is None:
        _unused(module)
    if config.gradient_checkpointing:
        backbone.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if config.lora is not None or "embeddings" in config.frozen:
            backbone.enable_input_require_grads()
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    if not learning:
        raise ReelspaceError("Nothing is left to train: give LoRA settings, or freeze less.")
    for weight in learning:
        weight.data = weight.data.float()  # in 16 bits most of a step of 3e-5 would be rounded away


def _adapt(backbone: Any, lora: LoraConfig, base: str) -> None:
    from peft import LoraConfig as Peft
    from peft import inject_adapter_in_model

    # The language model's only: layers of the vision tower go by the same names.
    targets = rf".*language_model\..*\.({'|'.join(lora.targets)})"
    settings = Peft(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, bias="none")
    settings.base_model_name_or_path = base
    inject_adapter_in_model(settings, backbone)


def _unused(module: Any) -> None:
    """What no vector depends on gets no gradient: the head, and layers above the one that is read."""
    backbone, layer = module.backbone, module.readout.layer
    if not backbone.config.tie_word_embeddings:
        backbone.get_output_embeddings().requires_grad_(False)
    decoder = module.decoder
    if layer is not None:
        for above in decoder.layers[layer:]:
            above.requires_grad_(False)
    if not module.readout.norm:
        decoder.norm.requires_grad_(False)


def trained(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and values of the weights that are trained."""
    return ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)


def save_weights(model: torch.nn.Module, folder: Path, state: dict[str, torch.Tensor] | None = None) -> None:
    """The trained weights, for a checkpoint.

    Args:
        state: the whole state where it had to be gathered from several processes.
    """
    from safetensors.torch import save_file

    names = [name for name, _ in trained(model)]
    state = dict(model.state_dict()) if state is None else state
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: state[name].contiguous() for name in names}, str(folder / WEIGHTS))


def load_weights(model: torch.nn.Module, folder: Path) -> None:
    """Puts a checkpoint's weights back.

    Raises:
        ModelError: they are not those of this model.
    """
    from safetensors.torch import load_file

    held = load_file(str(folder / WEIGHTS))
    wanted = {name for name, _ in trained(model)}
    if set(held) != wanted:
        odd = sorted(set(held) ^ wanted)
        raise ModelError(
            f"{folder} is the checkpoint of another model or configuration: {odd[0]} and {len(odd)} in all."
        )
    if not divided(model):
        model.load_state_dict(held, strict=False)
        return
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    set_model_state_dict(model, held, options=StateDictOptions(full_state_dict=True, strict=False))


def divided(model: torch.nn.Module) -> list[Any]:
    """The parts of a model whose weights FSDP has divided between the processes; empty where it has not."""
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


@contextmanager
def gathered(model: SentenceTransformer, afterwards: bool = True) -> Iterator[None]:
    """Every process has all weights meanwhile, and may embed as much as it has to without waiting for the others.

    Args:
        afterwards: whether each part lets go of others' weights after its forward pass from then on, as FSDP was told.
    """
    import torch

    parts = divided(model)
    if parts:
        # The whole model has to run once before parts of it may alone: then it knows which of them is the whole.
        shown = model.preprocess(["a"])
        where = next(model.parameters()).device
        with torch.no_grad():
            model({name: value.to(where) if torch.is_tensor(value) else value for name, value in shown.items()})
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(afterwards, recurse=False)
            part.reshard()


def publish(model: SentenceTransformer, folder: Path, config: Config, card: str) -> None:
    """The trained model as `reelspace.load` and `SentenceTransformer` open it, with its card: whole or not there.

    Merged: whole weights. As an adapter: the adapter and the readout; the base model is found by the name it was loaded
    by.
    """
    backbone = model[0].backbone
    if config.lora is not None and config.save_as == "merged":
        _merge(backbone)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    model.save(str(part), create_model_card=False)
    (part / "README.md").write_text(card, "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def _merge(backbone: Any) -> None:
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(backbone.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            backbone.set_submodule(name, layer.get_base_layer())
    del backbone.peft_config


def card(config: Config, tasks: Sequence[dict[str, object]], steps: int) -> str:
    """The model card: what it was made from and of."""
    lines = [
        "---",
        "library_name: sentence-transformers",
        "tags: [reelspace, video-retrieval, sentence-transformers, feature-extraction]",
        f"base_model: {config.model}",
        "---",
        f"# {config.output.name}",
        "",
        f"Trained from `{config.model}` in {steps:,} steps, schedule `{config.schedule.kind}`, seed {config.seed}.",
        "",
        "```python",
        "import reelspace",
        "",
        'embedder = reelspace.load("path/to/this/folder")',
        'embedder.encode_query([reelspace.Item("a red ball rolls to the left")])',
        "```",
        "",
        "or, with `reelspace[torch]` installed, as any model of sentence-transformers (to make a model it imports",
        "Reelspace's module, which it asks leave for):",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        'model = SentenceTransformer("path/to/this/folder", trust_remote_code=True)',
        'model.encode_query(["a red ball rolls to the left"])',
        "```",
        "",
        "| task | formats | rows | batch size | hard negatives |",
        "|---|---|---|---|---|",
        *(
            f"| {row['task']} | {row['formats']} | {row['rows']:,} | {row['batch_size']} | {row['hard_negatives']} |"
            for row in tasks
        ),
        "",
        "Everything that was set:",
        "",
        "```json",
        json.dumps(config.model_dump(mode="json"), indent=1),
        "```",
        "",
    ]
    return "\n".join(lines)
