"""The tiny model: transformers' own Qwen2.5-VL, small. It loads with plain transformers and knows nothing of us."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reelspace.embed.qwen_vl.pixels import Patches
from reelspace.errors import ReelspaceError
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.tokens import Writer

if TYPE_CHECKING:
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
        # The grid is 4 × 4 tokens and a conversation a hundred or two: with the usual base, a step aside turns the
        # slowest pairs by a thousandth of a radian, and the model is all but blind to where and whither.
        "rope_parameters": {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10.0},
    }
    vision = {
        **{"hidden_size": shape.vision_hidden, "depth": shape.vision_layers, "intermediate_size": shape.vision_inner},
        **{"num_heads": shape.vision_hidden // 32, "out_hidden_size": shape.hidden, "in_channels": 3},
        **{"patch_size": CUT.patch, "temporal_patch_size": CUT.temporal, "spatial_merge_size": CUT.merge},
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
