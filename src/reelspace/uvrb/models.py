"""A model's name on the command line → an embedder, on the device, in the precision, under the protocol asked for.

This is the one place where those are set. `lite` and other names of `reelspace models` are ours; `st:NAME` is any
sentence-transformers model, `mteb:NAME` any that mteb knows.
"""

from __future__ import annotations

from typing import Any

from reelspace.embed import load
from reelspace.embed.base import Embedder
from reelspace.errors import ModelError
from reelspace.media.policy import parse_policy
from reelspace.uvrb.protocol import Adjustable, Protocol

TOKEN = 28 * 28
"""Pixels that one visual token stands for, of Qwen's family."""
LEAST = 128
"""Tokens a frame has at least, of the released models; fewer where the budget is smaller."""


def open_model(
    name: str, protocol: Protocol | None = None, device: str | None = None, precision: str | None = None
) -> Embedder:
    """The embedder of that name. One that cannot be told which frames to take is given them by the harness.

    Args:
        name: of `reelspace models`; `st:` or `mteb:` and a name.
        protocol: its frames and its budget of tokens are the model's to keep; None: as the model declares.
        device: `cpu`, `cuda`, …; None: the best there is.
        precision: `float32`, `bfloat16` or `float16`; None: the model's own.

    Raises:
        ModelError: there is no such model, or it cannot be had so.
    """
    protocol = protocol or Protocol()
    kind, _, rest = name.partition(":")
    if kind == "mteb" and rest:
        from reelspace.uvrb.adapters import mteb_model

        return _adjusted(mteb_model(rest, device, precision), protocol)
    running = {key: value for key, value in {"device": device, "dtype": precision}.items() if value is not None}
    embedder = _load(name, running)
    policy = None if protocol.frames is None else parse_policy(protocol.frames)
    if isinstance(embedder, Adjustable) or (policy in (None, embedder.sampling.policy) and protocol.tokens is None):
        return _adjusted(embedder, protocol)
    changes: dict[str, Any] = {}
    if policy is not None and policy != embedder.sampling.policy:
        changes["frames"] = protocol.frames
    if protocol.tokens is not None:
        changes["frame_pixels"] = [min(LEAST, protocol.tokens) * TOKEN, protocol.tokens * TOKEN]
    try:
        return _load(name, running | changes)
    except ModelError:
        if protocol.tokens is not None:
            raise ModelError(f"{name} has no budget of tokens a frame that could be set.") from None
        return embedder


def _load(name: str, options: dict[str, Any]) -> Embedder:
    kind, _, rest = name.partition(":")
    try:
        if kind == "st" and rest:
            from reelspace.uvrb.adapters import sentence_transformer

            return sentence_transformer(rest, **options)
        return load(name, **options)
    except TypeError as error:
        raise ModelError(f"{name} has no such option: {', '.join(options)} ({error}).") from None


def _adjusted(embedder: Embedder, protocol: Protocol) -> Embedder:
    policy = None if protocol.frames is None else parse_policy(protocol.frames)
    if policy == embedder.sampling.policy:
        policy = None
    if policy is None and protocol.tokens is None:
        return embedder
    if isinstance(embedder, Adjustable):
        return embedder.adjusted(frames=policy, tokens=protocol.tokens)
    if protocol.tokens is not None:
        raise ModelError(f"{embedder.name} has no budget of tokens a frame that could be set.")
    return embedder
