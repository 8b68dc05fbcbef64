"""Who may use a space besides the model it was made with.

A space belongs to a fingerprint. Another back end has another one, though it may serve the same weights; once parity
has been measured (`reelspace.embed.parity`), the library notes that its fingerprint may use the space too.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from reelspace.index import canaries
from reelspace.index.catalogue import Catalogue

_SETTING = "shares"


class Share(NamedTuple):
    """Which space a fingerprint may use, and how far its vectors may be from those there (cosine distance)."""

    space: str
    tolerance: float


def shares(catalogue: Catalogue) -> dict[str, Share]:
    """Fingerprint → what it shares."""
    return {
        fingerprint: Share(*share) for fingerprint, share in json.loads(catalogue.setting(_SETTING) or "{}").items()
    }


def share(catalogue: Catalogue, fingerprint: str, with_: Share) -> None:
    """Notes that a fingerprint may use a space."""
    with catalogue.transaction():
        catalogue.set(_SETTING, json.dumps({**shares(catalogue), fingerprint: with_}, sort_keys=True))


def space_of(catalogue: Catalogue, fingerprint: str) -> str:
    """The fingerprint of the space that a model with this one uses: its own, or the one it shares."""
    own = {space.fingerprint for space in catalogue.spaces()}
    found = shares(catalogue).get(fingerprint)
    return found.space if found is not None and fingerprint not in own and found.space in own else fingerprint


def tolerance_of(catalogue: Catalogue, fingerprint: str) -> float:
    """How far the canaries of a model may be from those of the space it uses."""
    found = shares(catalogue).get(fingerprint)
    return max(canaries.TOLERANCE, found.tolerance if found else 0.0)
