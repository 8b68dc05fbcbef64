"""The built-in model: no torch, no network, 40 MB, milliseconds. What it can and cannot do is in `docs/lite.md`.

An ImageNet classifier (EfficientNet-Lite0) and a sentence encoder (MiniLM) that never saw a captioned picture, tied
together by the names of the thousand classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reelspace.embed.lite.model import Lite


def load() -> Lite:
    """The model. Its networks are opened when first needed.

    Raises:
        ModelError: its data are missing or damaged.
    """
    from reelspace.embed.lite.model import Lite

    return Lite()
