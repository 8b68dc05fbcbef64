"""The tiny model: transformers' own Qwen2.5-VL, small. It loads with plain transformers and knows nothing of us."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelspace.embed.qwen_vl.pixels import Patches
from reelspace.errors import ReelspaceError
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.lessons import EDGE, FRAMES, ONE_WORD
from reelspace.worlds.tiny.tokens import Writer

if TYPE_CHECKING:
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

CUT = Patches(patch=8, temporal=2, merge=2)


@dataclass(frozen=True)
class Shape:
    """How large each part is. Heads are 32 wide."""

    hidden: int = 128
    layers: int = 6
    heads: int = 4
    inner: int = 352
    vision_hidden: int = 128
    vision_layers: int = 3
    vision_inner: int = 256
    words: int = tokens.SIZE


READOUT: dict[str, Any] = {
    "template": "<|user|>{user}<|assistant|>",
    "user": {
        "video": f"{{video}}{{|}}{ONE_WORD['video']}",
        "image": f"{{image}}{{|}}{ONE_WORD['image']}",
        "text": f"{{text}} {{|}}{ONE_WORD['text']}",
        "*": f"{{video}}{{image}}{{|}}{{text}} {{|}}{ONE_WORD['text']}",
    },
    "size": [EDGE, EDGE],
    "frames": f"centres({FRAMES})",
    "timed": False,
    "max_length": 2048,
}
"""How an embedding is read from it: where the one word would be said, after the layer that was trained for it."""


def build(shape: Shape, seed: int) -> Qwen2_5_VLForConditionalGeneration:
    """A model of that shape with random weights, float32, the same for the same seed."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    torch.manual_seed(seed)
    text = {
        **{"hidden_size": shape.hidden, "num_hidden_layers": shape.layers, "intermediate_size": shape.inner},
        **{"num_attention_heads": shape.heads, "num_key_value_heads": shape.heads, "vocab_size": shape.words},
        **{"max_position_embeddings": 8192, "tie_word_embeddings": True, "use_sliding_window": False},
        **{"bos_token_id": None, "eos_token_id": tokens.END, "pad_token_id": tokens.PAD},
        # The grid is 4 × 4 tokens and a conversation two hundred. Where and when need quick pairs, of which each axis
        # gets some: with the usual sections and base, a step to the right turns its quickest by a thousandth of a
        # radian. What is asked far from what it is about needs slow ones: with a base of 10, no pair is slower than a
        # ninth of a radian a word, and nothing can be found by what it is alone.
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 3, 12], "rope_theta": 1000.0},
    }
    vision = {
        **{"hidden_size": shape.vision_hidden, "depth": shape.vision_layers, "intermediate_size": shape.vision_inner},
        **{"num_heads": shape.vision_hidden // 32, "out_hidden_size": shape.hidden, "in_channels": 3},
        **{"patch_size": CUT.patch, "temporal_patch_size": CUT.temporal, "spatial_merge_size": CUT.merge},
        "rope_parameters": {"rope_type": "axial", "rope_theta": 10.0},  # 8 × 8 patches
        # Every layer sees a whole pair of frames: windows would only slow such small pictures down.
        **{
            "tokens_per_second": 1,
            "window_size": CUT.factor * 4,
            "fullatt_block_indexes": list(range(shape.vision_layers)),
        },
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=tokens.IMAGE,
        video_token_id=tokens.VIDEO,
        vision_start_token_id=tokens.VISION_START,
        vision_end_token_id=tokens.VISION_END,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokens.END,
        pad_token_id=tokens.PAD,
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def looked(visual: torch.nn.Module, rows: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """Visual tokens `[tokens, d]` of pictures or videos of one size, given their patches and grids `[n, 3]`.

    Of a vision tower that `quickened` has prepared: all frames go through each layer's attention together.
    """
    import torch

    whole = torch.tensor([0, len(rows)])
    seen: torch.Tensor = visual(rows, grid_thw=grid, cu_seqlens=whole, cu_window_seqlens=whole).pooler_output
    return seen


def quickened(model: Qwen2_5_VLForConditionalGeneration) -> None:
    """Prepares a model for training on a CPU, with the same results.

    The gradient of the fused attention costs several times the plain one's at such lengths; and transformers' vision
    tower attends to its frames one by one, in a loop.
    """
    from transformers import AttentionInterface

    AttentionInterface.register("frames at once", _at_once)
    model.set_attn_implementation({"text_config": "eager", "vision_config": "frames at once"})


def _at_once(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    import torch

    _, heads, length, width = query.shape
    frame = (module.config.window_size // module.config.patch_size) ** 2
    query, key, value = (x.reshape(heads, length // frame, frame, width) for x in (query, key, value))
    seen = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1) @ value
    return seen.reshape(1, heads, length, width).transpose(1, 2), None


def load(folder: Path) -> tuple[Qwen2_5_VLForConditionalGeneration, Writer]:
    """A trained model (float32) and the writer of its conversations, from the folder of the model or of its run.

    Raises:
        ReelspaceError: there is no model.
    """
    from tokenizers import Tokenizer
    from transformers import Qwen2_5_VLForConditionalGeneration

    folder = folder / "model" if (folder / "model").is_dir() else folder
    if not (folder / "config.json").exists():
        raise ReelspaceError(f"{folder} holds no model; give the folder that `reelspace worlds train` wrote.")
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype="float32", attn_implementation="eager")
    return model.eval(), Writer(Tokenizer.from_file(str(folder / "tokenizer.json")))


def shortened(folder: Path, layers: int, output: Path, frames: int = FRAMES) -> Path:
    """Writes the first layers of a trained model as a model of its own (float32): quicker, and less able.

    Args:
        folder: of a model or its run.
        layers: how many layers of words are kept; the eyes stay whole.
        frames: how many it is shown of a video.

    Raises:
        ReelspaceError: there is no model, or it has fewer layers.
    """
    from reelspace.embed.qwen_vl.readout import Readout

    model, writer = load(folder)
    decoder, config = model.get_decoder(), model.config.text_config
    if not 0 < layers <= len(decoder.layers):
        raise ReelspaceError(f"{folder} has {len(decoder.layers)} layers; keep between one and all of them.")
    decoder.layers = decoder.layers[:layers]
    config.num_hidden_layers, config.layer_types = layers, config.layer_types[:layers]
    model.save_pretrained(output)
    tokens.save(writer.tokenizer, output)
    Readout.of({**READOUT, "frames": f"centres({frames})"}).write(output)
    return output
