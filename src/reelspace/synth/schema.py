"""The rows of a synthesised training set: the one place that says what they look like.

A dataset is a folder: `data/TASK/*.parquet` (the rows, one file a shard), `rejected/*.parquet` (all that was turned
down, with its reason), `README.md` (the card) and `stats.json`. Row by row a task is a query, the candidate that
answers it, and hard negatives that do not. Media are named, never copied in: a video by path and span, a picture by its
path or as the frame that a video shows at a time. Relative paths begin at the dataset's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from reelspace.errors import ReelspaceError
from reelspace.item import Item, Span

if TYPE_CHECKING:
    import pyarrow as pa

    from reelspace.media.reader import Reader

VERSION = 1
"""Of everything below; kept in every file."""

TaskName = Literal["T2T", "T2I", "T2V", "TI2V", "TV2V", "I2V", "V2V"]


class Task(NamedTuple):
    """A retrieval task of the set.

    Attributes:
        name: its query format and its candidate format: T text, I image, V video.
        instruction: goes with the query.
        negatives: how many hard negatives the paper gives a query (its Table 7).
        batch: its batch size there.
        share: of all rows there.
    """

    name: TaskName
    instruction: str
    negatives: int
    batch: int
    share: float


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("T2T", "Find another text that describes the same video.", 0, 64, 0.065),
        Task("T2I", "Find the picture that the text describes.", 0, 32, 0.136),
        Task("T2V", "Find the video that the text describes.", 1, 64, 0.567),
        Task("TI2V", "Find the video that follows from the reference picture as the text says.", 1, 64, 0.057),
        Task("TV2V", "Find the video that follows from the reference clip as the text says.", 1, 64, 0.023),
        Task("I2V", "Find the video that the picture is a frame of.", 0, 64, 0.129),
        Task("V2V", "Find the video that the clip belongs to.", 0, 64, 0.023),
    )
}


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Picture(_Record):
    """A picture: a file of its own, or the frame that a video shows at a time."""

    path: str
    time: float | None = None
    """Seconds from the first displayed frame; left out, `path` is a picture."""


class Clip(_Record):
    """The stretch `[start, end)` of a video, in seconds from its first displayed frame."""

    path: str
    start: float = 0.0
    end: float | None = None
    """Left out: the end of the video."""


class Part(_Record):
    """A query or a candidate: text, picture, clip, or a mix."""

    id: str
    """Equal exactly where the content is: what in-batch negatives are masked by."""
    video: str = ""
    """Key of the video that it shows or describes; parts with one key are no negatives of each other."""
    text: str | None = None
    image: Picture | None = None
    clip: Clip | None = None

    def item(self, root: Path, reader: Reader | None = None) -> Item:
        """What an embedder takes.

        Args:
            root: the dataset's folder.
            reader: decodes the frame, where the picture is one of a video; left out, one that is made for this.

        Raises:
            MediaError: that frame cannot be read.
        """
        clip = Span(root / self.clip.path, self.clip.start, self.clip.end) if self.clip else None
        image = shown(self.image, root, reader) if self.image else None
        return Item(text=self.text, image=image, video=clip)


def shown(picture: Picture, root: Path, reader: Reader | None = None) -> Any:
    """A picture's path, or the frame uint8 `[H, W, 3]` that its video shows at its time.

    Raises:
        MediaError: the video cannot be read there.
    """
    from reelspace.media.policy import Sampling, Uniform
    from reelspace.media.reader import Reader

    path = root / picture.path
    if picture.time is None:
        return path
    if reader is None:
        with Reader(workers=1) as own:
            return shown(picture, root, own)
    return reader.sample(Span(path, picture.time), Sampling(Uniform(1))).pixels[0]


class Provenance(_Record):
    """Where a row comes from: enough to make it again.

    The text of a row was written by `model` at `revision`, asked by prompt `prompt` with `seed`, shown the frames at
    `frame_times`. Rows without text of their own name no model.
    """

    source: str
    """The raw pair's id."""
    language: str = "und"
    licence: str = ""
    model: str = ""
    revision: str = ""
    prompt: str = ""
    """Name and version of the prompt, and a hash of it as it was sent."""
    seed: int = 0
    frame_times: list[float] = Field(default_factory=list)
    profile: str = ""
    """What the text was to dwell on: temporal, spatial or other."""
    style: str = ""
    readability: str = ""
    education: str = ""
    relation: str = ""
    """Of a reference clip to its target."""
    scores: dict[str, float] = Field(default_factory=dict)
    """Of the checks that it passed."""


class Negative(_Record):
    """A hard negative: near the query, and not what it asks for."""

    part: Part
    score: float
    """Its cosine with the query by the miner."""


class Row(_Record):
    """One training instance."""

    id: str
    task: TaskName
    instruction: str
    query: Part
    candidate: Part
    negatives: list[Negative] = Field(default_factory=list)
    provenance: Provenance


class Rejection(_Record):
    """Something that was turned down, with the reason."""

    id: str
    """Of the raw pair."""
    stage: str
    block: str
    """The block that did it."""
    reason: str
    """Of the kind that is counted."""
    detail: str = ""
    value: float | None = None
    """What was measured, where something was."""
    text: str = ""
    image: Picture | None = None
    clip: Clip | None = None


# Parquet. Written by hand and not derived, so that the columns are what is promised here.


def _struct(**fields: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return pa.struct(list(fields.items()))


def row_schema() -> pa.Schema:
    """Columns of `data/TASK/*.parquet`: `Row`, nested as it is."""
    import pyarrow as pa

    text, real = pa.string(), pa.float64()
    picture, clip = _struct(path=text, time=real), _struct(path=text, start=real, end=real)
    part = _struct(id=text, video=text, text=text, image=picture, clip=clip)
    names = ("source", "language", "licence", "model", "revision", "prompt")
    drawn = ("profile", "style", "readability", "education", "relation")
    provenance = _struct(
        **dict.fromkeys(names, text),
        seed=pa.int64(),
        frame_times=pa.list_(real),
        **dict.fromkeys(drawn, text),
        scores=pa.list_(_struct(name=text, value=real)),  # and no map: `datasets` reads none
    )
    fields = {
        **dict.fromkeys(("id", "task", "instruction"), text),
        **{"query": part, "candidate": part, "negatives": pa.list_(_struct(part=part, score=real))},
        "provenance": provenance,
    }
    return pa.schema(list(fields.items()), metadata={"reelspace.synth": str(VERSION)})


def rejection_schema() -> pa.Schema:
    """Columns of `rejected/*.parquet`: `Rejection`."""
    import pyarrow as pa

    text, real = pa.string(), pa.float64()
    fields = {
        **dict.fromkeys(("id", "stage", "block", "reason", "detail"), text),
        **{"value": real, "text": text},
        **{"image": _struct(path=text, time=real), "clip": _struct(path=text, start=real, end=real)},
    }
    return pa.schema(list(fields.items()), metadata={"reelspace.synth": str(VERSION)})


def write_parquet(records: Sequence[BaseModel], schema: pa.Schema, path: Path) -> None:
    """Writes records whole or not at all; equal records give equal bytes (with the same pyarrow)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from reelspace.synth.shards import aside

    data = [record.model_dump() for record in records]
    for line in data:
        if "provenance" in line:
            scores = sorted(line["provenance"]["scores"].items())
            line["provenance"]["scores"] = [{"name": name, "value": value} for name, value in scores]
    with aside(path) as part:
        pq.write_table(pa.Table.from_pylist(data, schema), part, compression="zstd")


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, one by one.

    Raises:
        ReelspaceError: it is no file of ours.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise ReelspaceError(f"{path}: cannot be read as Parquet ({error}).") from None
    with file:
        if (file.schema_arrow.metadata or {}).get(b"reelspace.synth") != str(VERSION).encode():
            raise ReelspaceError(f"{path}: is no file of a synthesised set of version {VERSION}; make it again.")
        for batch in file.iter_batches():
            for line in batch.to_pylist():
                if "provenance" in line:
                    scores = {pair["name"]: pair["value"] for pair in line["provenance"]["scores"]}
                    line["provenance"]["scores"] = scores
                yield line


def rows(folder: Path, task: str) -> Iterator[Row]:
    """The rows of one task of a dataset, in order.

    Raises:
        ReelspaceError: there is no such dataset, or a file of it cannot be read.
    """
    for path in _files(folder, "data", task):
        yield from map(Row.model_validate, read_parquet(path))


def rejections(folder: Path) -> Iterator[Rejection]:
    """All that was turned down, in order of stage and shard.

    Raises:
        ReelspaceError: there is no such dataset, or a file of it cannot be read.
    """
    for path in _files(folder, "rejected"):
        yield from map(Rejection.model_validate, read_parquet(path))


def tasks(folder: Path) -> list[str]:
    """The tasks that a dataset has rows of, in the order of the paper's table."""
    there = {path.name for path in (folder / "data").glob("*") if path.is_dir()}
    return [name for name in TASKS if name in there]


def _files(folder: Path, *names: str) -> list[Path]:
    if not (folder / "data").is_dir():
        raise ReelspaceError(f"{folder} holds no synthesised set; give the folder that `reelspace synth run` wrote.")
    return sorted(folder.joinpath(*names).glob("*.parquet"))
