"""The embedder's contract: items in, unit vectors out, failures named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import EncodeError, ModelError, ReelspaceError
from reelspace.item import Item
from reelspace.media.policy import Sampling

Vectors = NDArray[np.float32]
Prepared = TypeVar("Prepared")


@runtime_checkable
class Embedder(Protocol):
    """Maps items to unit vectors of one space; queries and candidates go through the same model.

    Vectors do not depend on batch size, order in the batch, padding side or world size (≤ 1e-5 in float32).
    """

    @property
    def name(self) -> str:
        """The name `reelspace.load` knows it by."""

    @property
    def dim(self) -> int:
        """d, the length of a vector."""

    @property
    def modalities(self) -> frozenset[str]:
        """The values of `Item.modality` it takes."""

    @property
    def fingerprint(self) -> str:
        """Hash of what is declared: model, revision or weights, readout, frame policy, version of the preparation."""

    @property
    def sampling(self) -> Sampling:
        """How it takes frames from a video. `Frames` given to it are chosen from by the same policy."""

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors:
        """Unit rows float32 `[n, d]` in the order given; `instruction=None` means the preset's default.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """

    def encode_candidate(self, items: Sequence[Item]) -> Vectors:
        """Unit rows float32 `[n, d]` in the order given.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """


def fingerprint(**declared: object) -> str:
    """16 hex digits that name a space: equal exactly when everything declared is equal."""
    text = json.dumps(declared, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(
    items: Sequence[Item],
    modalities: frozenset[str],
    prepare: Callable[[Item], Prepared],
    run: Callable[[list[Prepared]], Vectors],
    dim: int,
) -> Vectors:
    """Prepares items one by one, runs the model on the good ones, and reports the rest as the contract asks.

    Args:
        prepare: makes the model's input of one item; a `ReelspaceError` or `OSError` marks the item as failed.
        run: the model: prepared inputs → float32 `[n, dim]`, unit rows, order kept.

    Raises:
        EncodeError: some items could not be prepared, are of no accepted modality, or got a row that is not a
            unit vector.
    """
    failures: dict[int, str] = {}
    prepared: dict[int, Prepared] = {}
    for position, item in enumerate(items):
        if item.modality not in modalities:
            failures[position] = f"the model takes {', '.join(sorted(modalities))}; this item is {item.modality}"
            continue
        try:
            prepared[position] = prepare(item)
        except (ReelspaceError, OSError) as error:
            failures[position] = str(error)
    positions = list(prepared)
    vectors = run(list(prepared.values())) if prepared else np.empty((0, dim), dtype=np.float32)
    return _good(vectors, positions, failures)


def _good(vectors: Vectors, positions: Sequence[int], failures: Mapping[int, str]) -> Vectors:
    """The rows, if there are no failures among them nor before them."""
    norms = np.linalg.norm(vectors, axis=1)
    unit = np.isclose(norms, 1, atol=1e-4)  # false for nan too
    bad = {positions[i]: f"the model returned a vector of length {norms[i]}" for i in np.flatnonzero(~unit).tolist()}
    if failures or bad:
        good = [p for p, is_unit in zip(positions, unit, strict=True) if is_unit]
        raise EncodeError({**failures, **bad}, good, vectors[unit])
    return vectors


def checked(embedder: Embedder, encode: Callable[..., Vectors], items: Sequence[Item], *more: str | None) -> Vectors:
    """What `encode` of an embedder returns, held to the contract: a plugin is believed no more than a file.

    Raises:
        EncodeError: some items failed, or got a row that is not a unit vector.
        ModelError: the embedder failed altogether, or what came back are not `[n, dim]` numbers at all.
    """
    failures: Mapping[int, str] = {}
    positions: Sequence[int] = range(len(items))
    try:
        rows = encode(items, *more)
    except EncodeError as error:
        rows, positions, failures = error.vectors, error.positions, error.failures
    except ReelspaceError:
        raise
    except Exception as error:  # whatever a plugin or its runtime raises: out of memory, say
        raise ModelError(f"{embedder.name} failed: {type(error).__name__}: {error}") from error
    vectors = np.asarray(rows, dtype=np.float32) if isinstance(rows, np.ndarray) else None
    if vectors is None or vectors.shape != (len(positions), embedder.dim):
        shape = type(rows).__name__ if vectors is None else list(vectors.shape)
        raise ModelError(
            f"{embedder.name} returned {shape} for {len(positions)} items where it declares "
            f"[{len(positions)}, {embedder.dim}]: it breaks the embedder's contract."
        )
    return _good(vectors, positions, failures)


def normalise(vectors: Vectors) -> Vectors:
    """Rows divided by their length; a zero row stays zero, for `encode` to refuse."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), dtype=np.float32)


def declared_form(embedder: Embedder) -> Mapping[str, object]:
    """What `models show` prints: name, dim, modalities, sampling, fingerprint, and the readout contract if it has one.

    The fingerprint is `None` where it cannot be told before the model's files are fetched.
    """
    form = {
        "name": embedder.name,
        "dim": embedder.dim,
        "modalities": sorted(embedder.modalities),
        "sampling": str(embedder.sampling),
    }
    try:
        form["fingerprint"] = embedder.fingerprint
    except ModelError:
        form["fingerprint"] = None
    contract = getattr(embedder, "contract", None)
    return form if contract is None else {**form, "contract": contract}
