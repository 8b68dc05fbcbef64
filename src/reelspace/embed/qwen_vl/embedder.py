"""The embedder: items → inputs (prepared ahead) → batches of one length → vectors."""

from __future__ import annotations

import copy
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Vectors, fingerprint, normalise
from reelspace.embed.hub import commit, hashed
from reelspace.embed.qwen_vl import device as devices
from reelspace.embed.qwen_vl.inputs import VERSION, Prepared
from reelspace.embed.qwen_vl.readout import Readout
from reelspace.errors import EncodeError, ModelError, ReelspaceError
from reelspace.item import Item
from reelspace.media.policy import Sampling

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from reelspace.embed.qwen_vl.module import QwenVL, Tap

log = logging.getLogger(__name__)

AHEAD = 16
"""Batches whose items are prepared, and sorted by length, at a time;"""
HELD = 65_536
"""but not more tokens than that, if one batch is not: a visual token's patches take 19 kB."""
WORKERS = 2
"""Threads that prepare items while the model runs."""


@dataclass
class Tally:
    """What was done since the model was loaded.

    Attributes:
        items, tokens: embedded; visual tokens and those of the template are counted, padding is not.
        padding: tokens of padding.
        cut_texts, cut_tokens: texts that were too long, and what was left out of them.
        waiting, running: seconds spent waiting for items to be prepared, and in the model.
    """

    items: int = 0
    tokens: int = 0
    padding: int = 0
    cut_texts: int = 0
    cut_tokens: int = 0
    waiting: float = 0.0
    running: float = 0.0


class QwenVLEmbedder:
    """Any Qwen-VL model with a readout, as an `Embedder`.

    Nothing is loaded before it is needed: what is declared can be asked without a download.

    Args:
        name: the name it is known by.
        find: gives the folder of the weights; may download them.
        readout: the contract; `None`: the one beside the weights.
        describe: gives a folder with its configuration, weights or not; left out, that of the weights.
        adapter: gives the folder of a LoRA adapter that is merged into the weights.
        revision: of the weights and adapter; `None`: they are hashed.
        device, dtype: where it runs and as what (`float32`, `bfloat16`, `float16`); left out, what suits the machine.
        budget: tokens of a batch, padding counted; left out, what suits the device.
        padding_side: `left` or `right`.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[], Path],
        readout: Readout | None = None,
        *,
        describe: Callable[[], Path] | None = None,
        adapter: Callable[[], Path] | None = None,
        dim: int | None = None,
        source: str | None = None,
        revision: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        budget: int | None = None,
        padding_side: str = "right",
    ) -> None:
        if padding_side not in ("left", "right"):
            raise ModelError(f"padding_side is left or right, not {padding_side}.")
        if dtype is not None and dtype not in devices.DTYPES:
            raise ModelError(f"“{dtype}” is no type a model can have; choose one of {', '.join(devices.DTYPES)}.")
        self.name, self._find, self._readout, self._adapter = name, find, readout, adapter
        self._describe = describe or (lambda: self.folder)
        self._dim, self._source, self._revision = dim, source, revision
        self._device, self._dtype, self._budget, self._side = device, dtype, budget, padding_side
        self.tally = Tally()

    # What it declares.

    @cached_property
    def folder(self) -> Path:
        """The folder of the weights."""
        return self._find()

    @cached_property
    def readout(self) -> Readout:
        """The contract."""
        return self._readout or Readout.read(self.folder)

    @property
    def sampling(self) -> Sampling:
        """How it takes frames from a video."""
        return self.readout.sampling

    @property
    def modalities(self) -> frozenset[str]:
        """The values of `Item.modality` it takes."""
        return self.readout.modalities

    @cached_property
    def dim(self) -> int:
        """Length of a vector."""
        if self._dim is None:
            devices.need("transformers")
            from transformers import AutoConfig

            self._dim = int(AutoConfig.from_pretrained(self._describe()).text_config.hidden_size)
        return self._dim

    @cached_property
    def dtype(self) -> str:
        """What it is computed in."""
        return self._dtype or str(devices.dtype(None, self.device)).removeprefix("torch.")

    @cached_property
    def device(self) -> str:
        """Where it runs."""
        return devices.device(self._device)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the weights, the contract, the type it is computed in and the preparation."""
        weights = self._revision or commit(self._describe()) or hashed(self.folder)
        return fingerprint(
            model=self._source or "folder",
            weights=weights,
            readout=self.readout.declared(),
            dtype=self.dtype,
            preparation=VERSION,
        )

    @property
    def contract(self) -> dict[str, Any]:
        """All that decides a vector, for `models show`."""
        where = {
            "source": self._source or self.name,
            "revision": self._revision or ("main" if self._source else None),
            "dtype": self.dtype,
        }
        return {**where, **self.readout.declared()}

    def retyped(self, dtype: str) -> QwenVLEmbedder:
        """The same model, computed in another type."""
        other = copy.copy(self)
        for name in ("model", "dtype", "fingerprint"):
            other.__dict__.pop(name, None)
        other._dtype, other.tally = dtype, Tally()
        return other

    # What it does.

    @cached_property
    def model(self) -> SentenceTransformer:
        """The model as a `SentenceTransformer`: save it, train it, hand it on."""
        devices.need()
        from reelspace.embed.qwen_vl.module import QwenVL, composed

        kind = devices.dtype(self._dtype, self.device)
        adapter, attention = self._adapter and self._adapter(), devices.attention(self.device, kind)
        module = QwenVL.opened(self.folder, self.readout, adapter, dtype=kind, attn_implementation=attention)
        module.padding_side = self._side
        return composed(module.to(self.device))

    @property
    def module(self) -> QwenVL:
        """Its first module: backbone, tokenizer and readout."""
        module: QwenVL = self.model[0]
        return module

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors:
        """Unit rows float32 `[n, d]`; `@key` names one of the contract's instructions.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
            ModelError: there is no instruction of that key.
        """
        return self._encode(items, "query", instruction)

    def encode_candidate(self, items: Sequence[Item]) -> Vectors:
        """Unit rows float32 `[n, d]`.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """
        return self._encode(items, "candidate", None)

    def encode_layers(
        self, items: Sequence[Item], side: str, taps: Sequence[Tap], instruction: str | None = None
    ) -> NDArray[np.float32]:
        """Unit rows at several layers from one pass: float32 `[taps, n, d]`.

        Args:
            side: `query` or `candidate`.
            taps: after how many layers (`None`: all), and whether the final norm is applied.

        Raises:
            EncodeError: some items failed; it carries the rows of the others at the first tap.
        """
        rows, failures = self._rows(items, side, instruction, taps)
        if failures:
            good = [position for position in range(len(items)) if position not in failures]
            raise EncodeError(failures, good, rows[0, good])
        return rows

    def _encode(self, items: Sequence[Item], side: str, instruction: str | None) -> Vectors:
        vectors: Vectors = self.encode_layers(items, side, [(self.readout.layer, self.readout.norm)], instruction)[0]
        return vectors

    def _rows(
        self, items: Sequence[Item], side: str, instruction: str | None, taps: Sequence[Tap]
    ) -> tuple[NDArray[np.float32], dict[int, str]]:
        self.readout.instruction(side, instruction)  # an unknown key is the call's fault, no item's
        rows = np.zeros((len(taps), len(items), self.dim), dtype=np.float32)
        failures: dict[int, str] = {}
        budget = self._budget or devices.budget(self.device)
        before = replace(self.tally)
        for group in self._groups(items, side, instruction, failures, max(budget, min(budget * AHEAD, HELD))):
            for batch in batches(group, budget):
                made = self._run([prepared for _, prepared in batch], taps)
                rows[:, [position for position, _ in batch]] = made
        lengths = np.linalg.norm(rows, axis=2)
        for position in np.flatnonzero(~np.isclose(lengths, 1, atol=1e-4).all(axis=0)).tolist():
            failures.setdefault(position, f"the model returned a vector of length {lengths[:, position].min()}")
        if cut := self.tally.cut_texts - before.cut_texts:
            tokens = self.tally.cut_tokens - before.cut_tokens
            most = self.readout.max_length
            log.warning("%s: %d texts were cut to %d tokens; %d tokens were left out", self.name, cut, most, tokens)
        return rows, dict(sorted(failures.items()))

    def _groups(
        self, items: Sequence[Item], side: str, instruction: str | None, failures: dict[int, str], most: int
    ) -> Iterator[list[tuple[int, Prepared]]]:
        """Prepared items with their positions, about `most` tokens at a time."""
        prepare = self.module.preparer if items else None

        def ready(item: Item) -> Prepared:
            if item.modality not in self.modalities:
                raise ModelError(f"the model takes {', '.join(sorted(self.modalities))}; this item is {item.modality}")
            assert prepare is not None
            return prepare(item, side, instruction)

        group: list[tuple[int, Prepared]] = []
        size = 0
        for position, made in enumerate(ahead(ready, items)):
            began = time.perf_counter()
            try:
                prepared = made.result()
            except (ReelspaceError, OSError) as error:
                failures[position] = str(error)
                continue
            finally:
                self.tally.waiting += time.perf_counter() - began
            self.tally.items += 1
            self.tally.tokens += len(prepared)
            self.tally.cut_texts += prepared.cut > 0
            self.tally.cut_tokens += prepared.cut
            group.append((position, prepared))
            size += len(prepared)
            if size >= most:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _run(self, prepared: Sequence[Prepared], taps: Sequence[Tap]) -> NDArray[np.float32]:
        import torch

        began = time.perf_counter()
        module = self.module
        with torch.inference_mode():
            features = {name: value.to(self.device) for name, value in module.collate(prepared).items()}
            states = torch.stack(module.states(features, taps)).float().cpu().numpy()
        self.tally.padding += features["attention_mask"].numel() - sum(map(len, prepared))
        self.tally.running += time.perf_counter() - began
        return normalise(states)


def batches(group: Sequence[tuple[int, Prepared]], budget: int) -> Iterator[list[tuple[int, Prepared]]]:
    """Batches of neighbours in length, the longest first, none of more than `budget` tokens, padding counted.

    An item longer than that is a batch of its own.
    """
    batch: list[tuple[int, Prepared]] = []
    for entry in sorted(group, key=lambda entry: (-len(entry[1]), entry[0])):
        if batch and (len(batch) + 1) * len(batch[0][1]) > budget:
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


def ahead(function: Callable[[Item], Prepared], items: Iterable[Item]) -> Iterator[Future[Prepared]]:
    """The function's results in order, computed by threads that run ahead of who takes them."""
    with ThreadPoolExecutor(WORKERS) as pool:
        coming: deque[Future[Prepared]] = deque()
        try:
            for item in items:
                coming.append(pool.submit(function, item))
                if len(coming) > 4 * WORKERS:
                    yield coming.popleft()
            while coming:
                yield coming.popleft()
        finally:
            for future in coming:
                future.cancel()
