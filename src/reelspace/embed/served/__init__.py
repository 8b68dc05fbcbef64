"""A model behind an HTTP endpoint as an embedder: vLLM, and whatever else speaks OpenAI's form of `/embeddings`.

`address` reads what names it, `client` carries requests, `model` makes them of items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelspace.embed.served.address import SERVED, is_address

if TYPE_CHECKING:
    from reelspace.embed.served.model import Served

__all__ = ["SERVED", "is_address", "load"]


def load(name: str) -> Served:
    """The embedder of an address (`http://HOST/v1#MODEL`) or of `served:MODEL`, which `$REELSPACE_ENDPOINT` places.

    Nothing is asked of the server yet.

    Raises:
        ModelError: the name is neither, or there is no endpoint for it.
    """
    from reelspace.embed.served.address import parse
    from reelspace.embed.served.model import Served

    return Served(parse(name))
