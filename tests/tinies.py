"""Random models of the real architectures, a few hundred thousand parameters each, saved as released ones are."""

from functools import cache

SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
    *("<|video_pad|>", "<|emb|>"),
)
CHAT = """\
<|im_start|>system
{instruction}<|im_end|>
<|im_start|>user
{user}<|im_end|>
<|im_start|>assistant
"""
# GVE's contract on pictures small enough to be quick.
READOUT = {
    "template": CHAT,
    "appended": "<|endoftext|>",
    "query": "Find what answers this.",
    "candidate": "You are a helpful assistant.",
    "instructions": {"moments": "Find the moment."},
    "max_length": 1024,
    "image_pixels": [4 * 28**2, 16 * 28**2],
    "frame_pixels": [4 * 28**2, 8 * 28**2],
    "frames": "fps(2, max=4)",
}
KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


@cache
def _tokenizer():
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    split = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # Qwen's
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = (
        "Find what answers this. You are a helpful assistant.\nsystem user\n\n a dog runs and the cat sleeps.\n yes no"
    )
    tokenizer.train_from_iterator([text] * 20, trainer)
    return tokenizer


def tokenizer():
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL),
        clean_up_tokenization_spaces=False,
    )


def backbone(kind="qwen2_5_vl", seed=0, layers=3, width=64):
    """A model whose vectors depend visibly on all it is given."""
    import torch
    import transformers

    names = dict(zip(SPECIAL, range(len(SPECIAL)), strict=True))
    ends = {"bos_token_id": None, "eos_token_id": names["<|im_end|>"], "pad_token_id": names["<|endoftext|>"]}
    text = {
        **ends,
        **{"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 3 * width // 2, "vocab_size": 400},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096},
        "rope_parameters": {
            **{"rope_type": "default", "rope_theta": 10000.0},
            "mrope_section": [width // 32, 3 * width // 64, 3 * width // 64],
        },
    }
    visual = {"vision_start_token_id": names["<|vision_start|>"], "vision_end_token_id": names["<|vision_end|>"]}
    vision = {"depth": 2, "num_heads": 2, "in_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2}
    match kind:
        case "qwen2_vl":
            vision |= {"embed_dim": 32, "hidden_size": width, "patch_size": 14, "mlp_ratio": 2}
            stem = "Qwen2VL"
        case "qwen2_5_vl":
            vision |= {"hidden_size": 32, "out_hidden_size": width, "patch_size": 14, "intermediate_size": 48}
            vision |= {"window_size": 56, "fullatt_block_indexes": [1], "tokens_per_second": 2}
            stem = "Qwen2_5_VL"
        case "qwen3_vl":
            vision |= {"hidden_size": 32, "out_hidden_size": width, "patch_size": 16, "intermediate_size": 48}
            vision |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
            text |= {"head_dim": 16}
            text["rope_parameters"] |= {"mrope_interleaved": True}
            stem = "Qwen3VL"
        case "video_llama_3":
            vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 14}
            vision |= {"intermediate_size": 48}
            text |= {"model_type": "qwen2", "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
            stem, visual = "VideoLlama3", {}
    config = getattr(transformers, f"{stem}Config")(
        text_config=text,
        vision_config=vision,
        image_token_id=names["<|image_pad|>"],
        video_token_id=names["<|video_pad|>"],
        **visual,
        pad_token_id=names["<|endoftext|>"],
        bos_token_id=None,
        eos_token_id=names["<|im_end|>"],
    )
    torch.manual_seed(seed)
    model = getattr(transformers, f"{stem}ForConditionalGeneration")(config)
    with torch.no_grad():
        torch.nn.init.normal_(model.get_input_embeddings().weight, std=0.02)  # <|endoftext|> too, that pads here
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.mul_(4.0)
            elif "norm" in name and "weight" in name:
                weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


def write(folder, kind="qwen2_5_vl", readout=None, **made):
    """A folder as a released model is: weights, tokenizer and, of ours, `readout.json`."""
    from reelspace.embed.qwen_vl.readout import Readout

    backbone(kind, **made).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    Readout.of(readout or READOUT).write(folder)
    return folder
