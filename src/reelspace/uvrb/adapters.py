"""Other people's models as embedders: any of sentence-transformers, any that mteb knows."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Vectors, fingerprint, normalise
from reelspace.embed.hub import fetched
from reelspace.embed.st import SentenceTransformerEmbedder
from reelspace.errors import EncodeError, ModelError, ReelspaceError
from reelspace.item import Item, Span
from reelspace.media.decode import sample
from reelspace.media.image import load_image
from reelspace.media.policy import FramePolicy, Sampling
from reelspace.uvrb.run import installed

PACKAGES = ("torch", "transformers", "sentence-transformers", "mteb")


def sentence_transformer(name: str, **options: Any) -> SentenceTransformerEmbedder:
    """A sentence-transformers model by its name on the hub or its folder.

    Args:
        options: of `SentenceTransformerEmbedder`.

    Raises:
        ModelError: it is not there, or sentence-transformers is not installed.
    """
    folder = Path(name) if Path(name).is_dir() else fetched(name)
    return SentenceTransformerEmbedder(f"st:{name}", folder, **options)


def mteb_model(name: str, device: str | None = None, precision: str | None = None) -> MtebEmbedder:
    """A model by the name mteb knows it by.

    Raises:
        ModelError: mteb is not installed, does not know the model, or cannot load it.
    """
    try:
        import mteb
    except ImportError as error:
        raise ModelError(f"mteb:{name} needs mteb: pip install 'reelspace[bench]' ({error}).") from None
    options: dict[str, Any] = {} if precision is None else {"model_kwargs": {"dtype": precision}}
    try:
        model = mteb.get_model(name, device=device, **options)
    except (KeyError, ValueError, OSError, ImportError, TypeError) as error:
        raise ModelError(f"mteb:{name} cannot be loaded: {error}") from None
    return MtebEmbedder(model, f"mteb:{name}")


class _Own(FramePolicy):
    """The policy of a model that decodes for itself."""

    def __str__(self) -> str:
        return "the model's own"

    def choose(self, times: NDArray[np.float64], start: float, end: float) -> NDArray[np.int64]:
        return np.arange(len(times))


class MtebEmbedder:
    """A model of mteb's. It takes frames from a video by a rule of its own, out of those that it is given.

    Args:
        model: one that has mteb's `encode`.
        name: what to call it.
    """

    decodes = True
    """It is given files, unless the protocol says which frames."""

    def __init__(self, model: Any, name: str) -> None:
        self.name, self._model = name, model
        self.sampling = Sampling(_Own())

    @cached_property
    def modalities(self) -> frozenset[str]:
        """What its meta data say, each alone and together."""
        known = set(self._model.mteb_model_meta.modalities or ["text"])
        forms = ("text", "image", "video", "image+text", "video+text", "video+image", "video+image+text")
        return frozenset(form for form in forms if set(form.split("+")) <= known)

    @cached_property
    def dim(self) -> int:
        """Length of a vector."""
        declared = self._model.mteb_model_meta.embed_dim
        return int(declared) if isinstance(declared, int) else self._run([Item(text="a")], None, "query").shape[1]

    @cached_property
    def fingerprint(self) -> str:
        """Of the weights, if there are any to be found; else of this very process: nothing is then kept for another."""
        modules = [value for value in vars(self._model).values() if hasattr(value, "state_dict")]
        meta = self._model.mteb_model_meta
        return fingerprint(
            weights=weights_hash(modules) if modules else uuid.uuid4().hex,
            model=meta.name,
            revision=meta.revision,
            settings={key: value for key, value in vars(self._model).items() if isinstance(value, int | float | str)},
            **{package: installed(package) for package in PACKAGES},
        )

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors:
        """Unit rows float32 `[n, d]`."""
        run = lambda group: self._run(group, instruction, "query")  # noqa: E731
        return grouped(items, self.modalities, self.dim, _readable, run)

    def encode_candidate(self, items: Sequence[Item]) -> Vectors:
        """Unit rows float32 `[n, d]`."""
        return grouped(items, self.modalities, self.dim, _readable, lambda group: self._run(group, None, "document"))

    def _run(self, items: Sequence[Item], instruction: str | None, side: str) -> Vectors:
        """Items of one modality."""
        from mteb.types import PromptType
        from torch.utils.data import DataLoader

        rows = [_row(item) for item in items]
        table = Table(rows)
        loader: Any = DataLoader(table, batch_size=len(rows), collate_fn=_columns)
        made = self._model.encode(
            loader,
            task_metadata=_metadata(items[0], instruction, side),
            hf_split="test",
            hf_subset="default",
            prompt_type=PromptType(side),
            batch_size=len(rows),
            show_progress_bar=False,
        )
        vectors = made.float().cpu().numpy() if hasattr(made, "cpu") else made
        return np.asarray(vectors, dtype=np.float32)


class Table:
    """Rows for a loader, with as much of a `datasets.Dataset` as models look at.

    Attributes:
        features: its columns.
    """

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows
        self.features = dict.fromkeys(rows[0])
        self.column_names = list(rows[0])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int | str) -> Any:
        return [row[at] for row in self._rows] if isinstance(at, str) else dict(self._rows[at])


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _row(item: Item) -> dict[str, Any]:
    from PIL import Image

    from reelspace.uvrb.decoder import VideoDecoder

    row: dict[str, Any] = {}
    if item.text is not None:
        row["text"] = item.text
    if item.image is not None:
        row["image"] = Image.fromarray(load_image(item.image))
    if item.video is not None:
        row["video"] = VideoDecoder(item.video)
    return row


def _readable(item: Item) -> Item:
    """The item with its picture read, and its video opened once: what cannot be read fails alone."""
    from reelspace.uvrb.decoder import VideoDecoder

    if isinstance(item.video, Span):
        len(VideoDecoder(item.video))
    return item if item.image is None else Item(item.text, load_image(item.image), item.video)


def _metadata(item: Item, instruction: str | None, side: str) -> Any:
    """A task that asks in one way, with one instruction."""
    from mteb.abstasks.task_metadata import TaskMetadata

    kinds = sorted(item.parts)
    code = "".join(part[0] for part in ("video", "image", "text") if part in kinds)
    code = {"it": "it", "vt": "vt", "vi": "v", "vit": "vt"}.get(code, code)
    return TaskMetadata(
        name="Reelspace",
        description="Items to embed.",
        reference=None,
        dataset={"path": "reelspace/items", "revision": "local"},
        type="Any2AnyRetrieval",
        category=f"{code}2v" if side == "query" else f"t2{code}",
        modalities=list(dict.fromkeys([*kinds, "video" if side == "query" else "text"])),
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="recall_at_1",
        prompt=None if instruction is None else {"query": instruction},
        date=None,
        domains=None,
        task_subtypes=None,
        license=None,
        annotations_creators=None,
        dialect=None,
        sample_creation=None,
        bibtex_citation=None,
    )


def decoded(item: Item, sampling: Sampling) -> Item:
    """The item with its media read."""
    video = sample(item.video, sampling) if isinstance(item.video, Span) else item.video
    image = None if item.image is None else load_image(item.image)
    return Item(item.text, image, video)


def grouped(
    items: Sequence[Item],
    modalities: frozenset[str],
    dim: int,
    prepare: Callable[[Item], Item],
    run: Callable[[Sequence[Item]], Vectors],
) -> Vectors:
    """Runs items of each modality together and puts the rows back in order, unit rows.

    Raises:
        EncodeError: some items cannot be read, or are of no accepted modality.
    """
    failures: dict[int, str] = {}
    groups: dict[str, list[tuple[int, Item]]] = {}
    for position, item in enumerate(items):
        if item.modality not in modalities:
            failures[position] = f"the model takes {', '.join(sorted(modalities))}; this item is {item.modality}"
            continue
        try:
            groups.setdefault(item.modality, []).append((position, prepare(item)))
        except (ReelspaceError, OSError) as error:
            failures[position] = str(error)
    vectors = np.zeros((len(items), dim), dtype=np.float32)
    for group in groups.values():
        vectors[[position for position, _ in group]] = normalise(run([item for _, item in group]))
    if failures:
        good = [position for position in range(len(items)) if position not in failures]
        raise EncodeError(failures, good, vectors[good])
    return vectors


def weights_hash(modules: Iterable[Any]) -> str:
    """32 hex digits over every weight and its type."""
    import torch

    made = hashlib.blake2b(digest_size=16)
    for module in modules:
        for name, weight in sorted(module.state_dict().items()):
            made.update(f"{name}:{getattr(weight, 'dtype', '')}:{tuple(getattr(weight, 'shape', ()))}".encode())
            if isinstance(weight, torch.Tensor):
                made.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return made.hexdigest()
