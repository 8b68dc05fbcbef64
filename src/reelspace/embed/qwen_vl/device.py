"""Where a model runs, and as what."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from reelspace.errors import ModelError

DTYPES = ("float32", "bfloat16", "float16")

# Tokens of a batch, padding counted. A graphics card is kept busy by many; a processor is fastest with what stays near
# it (`benchmarks/encode.py`).
BUDGETS = {"cpu": 512, "mps": 4096, "cuda": 32768}


def need(*packages: str) -> None:
    """Refuses to go on without the packages of the extra `torch`.

    Raises:
        ModelError: one is not installed.
    """
    for package in packages or ("torch", "transformers", "sentence_transformers"):
        if find_spec(package) is None:
            raise ModelError(f"This model needs {package}: pip install 'reelspace[torch]'.")


def device(wanted: str | None = None) -> str:
    """The device asked for, else the best there is: cuda, mps or cpu."""
    if wanted is not None:
        return wanted
    need("torch")
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def dtype(wanted: str | None, where: str) -> Any:
    """The torch type asked for; left out, bfloat16 on a graphics card that knows it, else float32."""
    import torch

    if wanted is None:
        fast = where.startswith("cuda") and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if fast else torch.float32
    return getattr(torch, wanted)


def attention(where: str, kind: Any) -> str:
    """FlashAttention 2 where it is installed and can be used, else PyTorch's own fused attention."""
    import torch

    flash = where.startswith("cuda") and kind != torch.float32 and find_spec("flash_attn") is not None
    return "flash_attention_2" if flash else "sdpa"


def budget(where: str) -> int:
    """Tokens of a batch on that device."""
    return BUDGETS.get(where.partition(":")[0], BUDGETS["cpu"])
