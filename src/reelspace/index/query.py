"""What was asked → vectors.

All parts go to the model as one item where it takes them together. Otherwise — several of a kind, or a mix that the
model does not take — each item or part is embedded alone, and the query is the mean of the unit vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reelspace.answers import Query, shown
from reelspace.embed.base import Embedder, Vectors, checked, normalise
from reelspace.errors import ItemError
from reelspace.item import Frames, Item, Span
from reelspace.rank.calibration import QueryForm, query_form

if TYPE_CHECKING:
    from reelspace.media.policy import Sampling
    from reelspace.media.reader import Reader


class Question(NamedTuple):
    """A query as items."""

    items: list[Item]
    without: list[Item]
    instruction: str | None

    @property
    def described(self) -> Query:
        """For the report."""
        parts = [part for item in self.items for part in split(item)]
        shown = {kind: [_shown(part) for part in parts if part.modality == kind] for kind in ("text", "image", "video")}
        without = [" + ".join(map(_shown, split(item))) for item in self.without]
        return Query(**shown, without=without, instruction=self.instruction)


class Asked(NamedTuple):
    """A query as vectors."""

    vector: Vectors  # [d]
    parts: dict[str, Vectors]  # what it was made of → its own vector [d]
    without: Vectors  # [m, d]
    form: QueryForm | None  # under which it is calibrated; None if it is a mean


def as_items(query: str | Item | Sequence[str | Item]) -> list[Item]:
    """Items of what a caller gave: a string is text.

    Raises:
        ItemError: there is nothing, or something that is neither.
    """
    several = [query] if isinstance(query, str | Item) else list(query)
    for one in several:
        if not isinstance(one, str | Item):
            raise ItemError(f"A query is made of strings and Items, not of {type(one).__name__}.")
    return [Item(text=one) if isinstance(one, str) else one for one in several]


def split(item: Item) -> list[Item]:
    """The parts of an item as items of their own, text first."""
    return [Item(**{part: getattr(item, part)}) for part in reversed(item.parts)]


def ask(embedder: Embedder, reader: Reader, question: Question) -> Asked:
    """Reads and embeds a question.

    Raises:
        ItemError, MediaError, EncodeError: it is empty, cannot be read, or not be embedded by this model.
    """
    if not question.items:
        raise ItemError("There is no query: give a text, an image or a video.")
    items = [as_read(item, embedder.sampling, reader) for item in question.items]
    without = [as_read(item, embedder.sampling, reader) for item in question.without]
    whole = _together(items, embedder.modalities)
    excluded = _separately(without, embedder.modalities)
    parts = [part for item in items for part in split(item)]
    alone = [part for part in parts if part.modality in embedder.modalities]
    vectors = _embedded(embedder, [*whole, *excluded, *alone], question.instruction)
    ends = len(whole), len(whole) + len(excluded)
    vector = vectors[0] if len(whole) == 1 else normalise(vectors[: ends[0]].mean(axis=0))
    labelled = dict(zip(_labels(alone), vectors[ends[1] :], strict=True))
    form = query_form(whole[0]) if len(whole) == 1 else None
    return Asked(vector, labelled, vectors[ends[0] : ends[1]], form)


def joint(items: Sequence[Item]) -> Item | None:
    """One item of all parts; `None` if there are several of a kind."""
    kinds = [kind for item in items for kind in item.parts]
    if not kinds or len(set(kinds)) != len(kinds):
        return None
    return Item(**{kind: getattr(item, kind) for item in items for kind in item.parts})


def _embedded(embedder: Embedder, items: list[Item], instruction: str | None) -> Vectors:
    """The vectors of items `[n, d]`; those with the same content, as the whole of a query of one part, run once."""
    contents = [(item.text, id(item.image), id(item.video)) for item in items]
    once = dict(zip(contents, items, strict=True))
    places = {content: place for place, content in enumerate(once)}
    vectors = checked(embedder, embedder.encode_query, list(once.values()), instruction)
    return vectors[[places[content] for content in contents]]


def _together(items: list[Item], modalities: frozenset[str]) -> list[Item]:
    """One item of all parts if the model takes it, else what `_separately` gives."""
    whole = joint(items)
    return [whole] if whole is not None and whole.modality in modalities else _separately(items, modalities)


def _separately(items: list[Item], modalities: frozenset[str]) -> list[Item]:
    """Items as given where the model takes them, others in parts."""
    return [one for item in items for one in ([item] if item.modality in modalities else split(item))]


def _labels(parts: Iterable[Item]) -> list[str]:
    """`text`, `image`, `text 2`, …"""
    counts: dict[str, int] = {}
    labels = []
    for part in parts:
        counts[part.modality] = counts.get(part.modality, 0) + 1
        number = counts[part.modality]
        labels.append(part.modality if number == 1 else f"{part.modality} {number}")
    return labels


def as_read(item: Item, sampling: Sampling, reader: Reader) -> Item:
    """The item with its files decoded, in a process that may be killed: a query is as hostile as any file."""
    image, video = item.image, item.video
    if isinstance(image, Path):
        image = reader.image(image)
    if isinstance(video, Span):
        video = reader.sample(video, sampling)
    return Item(text=item.text, image=image, video=video)


def _shown(part: Item) -> str:
    """A part for the report: the text, the file, or what was given in memory."""
    if part.text is not None:
        return part.text.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates are no JSON
    given = part.image if part.image is not None else part.video
    if isinstance(given, Path | Span):
        return shown(str(given))
    if isinstance(given, Frames):
        return f"<{len(given)} frames>"
    width, height = given.shape[1::-1] if isinstance(given, np.ndarray) else given.size  # type: ignore[union-attr]
    return f"<{width}×{height} image>"
