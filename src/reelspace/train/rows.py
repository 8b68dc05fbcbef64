"""The rows of a task, wherever they lie: JSONL or Parquet, checked once, then read at random without being held.

A row is a query, the candidate that answers it, and hard negatives, in the form that `reelspace.synth.schema` sets
down: `{"id", "query": part, "candidate": part, "negatives": [{"part", "score"}], "instruction"}`. A part is `{"text",
"image": {"path", "time"}, "clip": {"path", "start", "end"}}`; its `id` may be left out, and is then a hash of what it
holds. Further fields are let be. Relative paths begin at the folder given for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError
from reelspace.item import Item, Span

if TYPE_CHECKING:
    from datasets import Dataset

    from reelspace.synth.schema import Part, Picture

LETTERS = {"text": "T", "image": "I", "clip": "V"}
"""Part → its letter in a format such as T, TI or TV (GVE Tables 6 and 7)."""


@dataclass(frozen=True)
class Row:
    """A pair to learn from.

    Attributes:
        id: names it in messages.
        query, candidate: what asks and what answers.
        negatives: near the query, and not what it asks for; the nearest first.
        instruction: goes with the query; empty: the model's own.
    """

    id: str
    query: Part
    candidate: Part
    negatives: tuple[Part, ...] = ()
    instruction: str = ""


def letters(part: Part) -> str:
    """The format of a part: T, I, V, TI, TV, ….

    Raises:
        ReelspaceError: it is empty.
    """
    found = "".join(letter for name, letter in LETTERS.items() if getattr(part, name) is not None)
    if not found:
        raise ReelspaceError("a part has neither text nor image nor clip")
    return found


def key(part: Part) -> int:
    """int64 that two parts share that show one video; of a part of none, its content."""
    return _number(part.video or part.id)


def content(part: Part) -> int:
    """int64 that two parts share exactly if their content is the same."""
    return _number(part.id)


def wording(part: Part) -> int:
    """int64 that two texts share that differ in case, spaces and punctuation alone; of other parts, their content."""
    from reelspace.synth.texts import plain

    if part.text is None or part.image is not None or part.clip is not None:
        return content(part)
    return _number(f"text: {plain(part.text)}")


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def item(part: Part, root: Path) -> Item:
    """What an embedder takes. A picture that is a video's frame is decoded here.

    Raises:
        ReelspaceError: that frame cannot be read.
    """
    image = None if part.image is None else _shown(part.image, root)
    clip = None if part.clip is None else Span(root / part.clip.path, part.clip.start, part.clip.end)
    return Item(text=part.text, image=image, video=clip)


def rooted(part: Part, root: Path) -> Part:
    """The part with whole paths in the place of those that began at `root`."""
    held = {name: getattr(part, name) for name in ("image", "clip")}
    whole = {
        name: media.model_copy(update={"path": str(root.absolute() / media.path)})
        for name, media in held.items()
        if media is not None
    }
    return part.model_copy(update=whole)


def _shown(picture: Picture, root: Path) -> Path | NDArray[np.uint8]:
    from reelspace.media.decode import sample
    from reelspace.media.policy import Sampling, Uniform

    if picture.time is None:
        return root / picture.path
    pixels: NDArray[np.uint8] = sample(Span(root / picture.path, picture.time), Sampling(Uniform(1))).pixels[0]
    return pixels


class Rows:
    """The rows of a task: a sequence that is mapped from disk.

    Args:
        source: a `.jsonl` or `.parquet` file, or a folder of them.
        root: where relative paths begin; left out, the folder of the source.
        corpus: only candidates are wanted: a row may lack a query, or be the candidate itself.

    Raises:
        ReelspaceError: there is nothing, or a row cannot be understood: the message says in which file and line.
    """

    def __init__(self, source: Path, root: Path | None = None, corpus: bool = False) -> None:
        self.source = source
        self.files = _files(source)
        self.root = root or (source if source.is_dir() else source.parent)
        self._table = _table(self.files, corpus)
        if not len(self._table):
            raise ReelspaceError(f"{source} holds no rows.")

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, place: int) -> Row:
        return _parsed(json.loads(self._table[int(place)]["row"]))

    def read(self, places: Sequence[int] | NDArray[np.int64]) -> list[Row]:
        """The rows at these places, in that order."""
        return [self[place] for place in places]

    def item(self, part: Part) -> Item:
        """What an embedder takes of a part of these rows."""
        return item(part, self.root)

    @property
    def formats(self) -> list[str]:
        """The formats of query and candidate that there are, as `TI>V`."""
        return sorted(self._table.unique("formats"))

    def other_than(self, formats: str) -> int | None:
        """The place of the first row that is not of these formats."""
        return next((place for place, found in enumerate(self._table["formats"]) if found != formats), None)

    @property
    def fingerprint(self) -> str:
        """Changes with what is in the files."""
        return str(self._table._fingerprint)


def _files(source: Path) -> list[Path]:
    files = (
        sorted(file for kind in ("*.jsonl", "*.parquet") for file in source.rglob(kind))
        if source.is_dir()
        else [source]
    )
    if not files or not all(file.is_file() for file in files):
        raise ReelspaceError(f"{source} holds no .jsonl and no .parquet files; say where the task's rows are.")
    if odd := [file for file in files if file.suffix not in (".jsonl", ".parquet")]:
        raise ReelspaceError(f"{odd[0]}: rows are read from .jsonl and .parquet files.")
    return files


def _table(files: Sequence[Path], corpus: bool) -> Dataset:
    """The rows as JSON texts in a mapped table, made when the files are first read and kept by `datasets`."""
    import datasets
    from datasets.exceptions import DatasetGenerationError

    stamps = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    shown = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        return datasets.Dataset.from_generator(
            _checked,
            gen_kwargs={"stamps": stamps, "corpus": corpus},
            features=datasets.Features({name: datasets.Value("string") for name in ("row", "formats")}),
        )
    except DatasetGenerationError as error:
        raise ReelspaceError(str(error.__cause__ or error)) from None
    finally:
        if not shown:
            datasets.enable_progress_bars()


def _checked(stamps: list[tuple[str, int, int]], corpus: bool) -> Iterator[dict[str, str]]:
    """Every row that can be understood; the first that cannot is an error."""
    for name, _, _ in stamps:
        for line, given in enumerate(_read(Path(name)), start=1):
            try:
                told = json.loads(given) if isinstance(given, str) else given
                held = _completed(_lone(told) if corpus else told)
                row = _parsed(held)
                asking, answering, *_ = [letters(part) for part in (row.query, row.candidate, *row.negatives)]
            except (ReelspaceError, ValueError, KeyError, TypeError) as error:
                raise ReelspaceError(f"{name}, row {line}: {_short(error)}") from None
            yield {"row": json.dumps(held, ensure_ascii=False), "formats": f"{asking}>{answering}"}


def _short(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


_FIELDS = ("id", "query", "candidate", "negatives", "instruction", "video", *LETTERS)
"""Of a row, and of a part that stands alone."""


def _read(file: Path) -> Iterator[Any]:
    """Rows as objects of Parquet, as lines of JSONL."""
    if file.suffix == ".jsonl":
        with file.open(encoding="utf-8") as lines:
            yield from lines
        return
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as table:
        wanted = [name for name in _FIELDS if name in table.schema_arrow.names]
        for batch in table.iter_batches(columns=wanted):
            yield from batch.to_pylist()


def _completed(given: Any) -> dict[str, Any]:
    """The row with ids where there were none, and without what it does not need."""
    if not isinstance(given, dict):
        raise TypeError("a row is an object with a query and a candidate")
    negatives = [row.get("part", row) for row in given.get("negatives") or ()]
    return {
        "id": str(given.get("id") or ""),
        "query": _named(given["query"]),
        "candidate": _named(given["candidate"]),
        "negatives": [_named(part) for part in negatives],
        "instruction": given.get("instruction") or "",
    }


def _lone(given: Any) -> Any:
    """A candidate as a row that nobody asks for."""
    part = given.get("candidate") or given if isinstance(given, dict) else given
    return {"query": part, "candidate": part}


def _named(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict):
        raise TypeError("a part is an object with text, image or clip")
    held = {name: value for name, value in part.items() if value is not None}
    if not held.get("id"):
        told = json.dumps({name: held.get(name) for name in LETTERS}, sort_keys=True, ensure_ascii=False)
        held["id"] = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
    return held


def _parsed(given: dict[str, Any]) -> Row:
    from reelspace.synth.schema import Part

    return Row(
        id=given["id"],
        query=Part.model_validate(given["query"]),
        candidate=Part.model_validate(given["candidate"]),
        negatives=tuple(Part.model_validate(part) for part in given["negatives"]),
        instruction=given["instruction"],
    )
