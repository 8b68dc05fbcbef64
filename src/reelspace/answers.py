"""What the engine says back: hits and the reports that `--json` prints. Their JSON Schemas are in `docs/schemas/`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema

if TYPE_CHECKING:
    from reelspace.signals.base import Line


def shown(path: str) -> str:
    r"""`path` as it can be printed: the bytes of a name that are no UTF-8 appear as `\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _path(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"a path is text, not {type(value).__name__}")
    path = os.fspath(value)
    return os.fsdecode(unquote_to_bytes(path.removeprefix("file://"))) if path.startswith("file:///") else path


def json_path(path: str) -> str:
    """Itself where it is Unicode; else its `file:` URL, which no path can be mistaken for: all of them are absolute."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return Path(path).as_uri() if Path(path).is_absolute() else shown(path)
    return path


# In Python a path opens its file whatever its name's bytes (surrogateescape, as everywhere in Python); pydantic's own
# `str` refuses such names. JSON is UTF-8, so there such a path is a URL; it is read back as the path it was.
FilePath = Annotated[
    str,
    PlainValidator(_path),
    PlainSerializer(json_path, when_used="json"),
    WithJsonSchema({"type": "string"}),
]


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Evidence(_Report):
    """What one signal found of a hit."""

    by: Literal["seen", "said", "written", "named"]
    start: float = Field(ge=0)
    """Seconds; when it is seen, said or written. What is named is so throughout, but for chapters."""
    end: float
    score: float
    """Its score among all that this signal found; scores of different signals are never compared."""
    text: str | None = None
    """The words; `None` for what is seen."""
    source: str | None = None
    """Where the words come from: `whisper tiny.en`, `talk.srt`, `title`, …; `None` for what is seen."""
    unsure: bool = False
    """Whether they are likely misheard or misread."""


class Hit(_Report):
    """A moment of one video that answers a query."""

    rank: int = Field(ge=1)
    """1 is the best; ranks go on across pages."""
    path: FilePath
    """Absolute path of the file."""
    start: float = Field(ge=0)
    """Seconds from the first displayed frame."""
    end: float
    """Seconds; the moment is `[start, end)`."""
    score: float
    """Higher is better. A rank, not a probability."""
    video: str
    """The file's identity: the hash of its bytes."""
    matched: dict[str, float] = Field(default_factory=dict)
    """What matched: each part of the query (`text`, `image`, `video`, …) → its own score, where it has one."""
    found: list[Evidence] = Field(default_factory=list)
    """Which signals found it, the one that counts most first, and the words they found."""
    copies: list[FilePath] = Field(default_factory=list)
    """Other indexed files with the same bytes."""
    judged: float | None = None
    """What the second look gave it (`rerank`): such hits come first, ordered by this. `None`: it was not looked at."""

    def __str__(self) -> str:
        return f"{self.path}@{self.start:g}-{self.end:g}"


class Query(_Report):
    """A query as it was understood."""

    text: list[str] = Field(default_factory=list)
    image: list[str] = Field(default_factory=list)
    video: list[str] = Field(default_factory=list)
    without: list[str] = Field(default_factory=list)
    """What the answer should not be (`--not`)."""
    instruction: str | None = None
    """`None`: the preset's default."""


class Rerank(_Report):
    """What a second look cost."""

    model: str
    """The scorer."""
    k: int
    """How many of the best moments it was to look at."""
    pairs: int
    """How many it looked at: pairs of query and moment."""
    seconds: float
    """How long that took, reading included."""
    failed: list[str] = Field(default_factory=list)
    """Why some of them could not be read or judged. They follow the judged ones, in the order they had."""


class RerankProgress(_Report):
    """Where a running second look stands."""

    model: str
    done: int
    total: int
    """Pairs of query and moment."""
    elapsed: float
    """Seconds since the first pair was begun."""

    @property
    def remaining(self) -> float | None:
        """Estimated seconds to the end by the pace so far; `None` before the first pairs are done."""
        return self.elapsed * (self.total - self.done) / self.done if self.done else None


class SearchReport(_Report):
    """The answer to one query: what `reelspace search --json` prints."""

    query: Query
    model: str
    """Where several rankings were fused, their models joined by ` + `; scores are then sums of reciprocal ranks."""
    by: list[Literal["seen", "said", "written", "named"]] = Field(default_factory=lambda: ["seen"])  # type: ignore[arg-type]
    """What was searched. By more than one, a hit's score is that of its places in their rankings, fused."""
    match: bool | None
    """Whether anything fits, by the calibrations of what was searched; `None` where there is none for such a query.
    A second look does not change it."""
    page: int = Field(ge=1)
    hits: list[Hit]
    """Ranked, also when `match` is false: the nearest that there is."""
    rerank: Rerank | None = None
    """`None`: nobody took a second look."""


class Problem(_Report):
    """A file that is not wholly indexed, and why."""

    path: FilePath
    state: Literal["partial", "failed", "excluded"]
    reason: str


class Space(_Report):
    """The vectors of one model in a library."""

    model: str
    fingerprint: str
    active: bool
    """Whether searches use it."""
    complete: bool
    """Whether it covers every indexed file."""
    videos: int
    windows: int


class ShardWork(_Report):
    """Work of a shard that is not in the library yet."""

    shard: str
    """`2/8`"""
    running: bool
    """Whether it is still at work; then what it has done is not known here."""
    indexed: int | None
    """Files it has read, which `merge` makes searchable."""
    failed: int | None
    windows: int | None


class StatusReport(_Report):
    """What `reelspace status --json` prints. Counts are of files."""

    library: FilePath
    roots: list[FilePath]
    indexed: int
    """Searchable files, the partial ones included."""
    partial: int
    """Files that could be read only up to a point; counted in `indexed` too."""
    failed: int
    excluded: int
    missing: int
    """Files once indexed that are not there now: hidden from searches, forgotten by `index --prune`."""
    videos: int
    """Distinct contents among the indexed files."""
    seconds: float
    """Running time of the distinct contents."""
    windows: int
    spaces: list[Space]
    shards: list[ShardWork] = Field(default_factory=list)
    """Work of shards that waits to be merged; no other count includes it."""
    signals: list[SignalState] = Field(default_factory=list)
    problems: list[Problem]


class Progress(_Report):
    """Where a running `index` stands. Bytes are the measure of the work: they are known before a file is opened."""

    path: FilePath
    """The file that was just read, or is being read."""
    files_done: int
    files_total: int
    """Files that need work in this run; unchanged ones are not among them."""
    bytes_done: int
    bytes_total: int
    seconds: float
    """Running time of the video read so far."""
    elapsed: float
    """Seconds since the run began to read."""

    @property
    def remaining(self) -> float | None:
        """Estimated seconds to the end; `None` until there is something to judge by."""
        if not self.bytes_done or not self.elapsed:
            return None
        return self.elapsed * (self.bytes_total - self.bytes_done) / self.bytes_done


class SignalCost(_Report):
    """What a signal is going to cost, said before it is looked for."""

    signal: str
    videos: int
    """Contents to look through."""
    seconds: float
    """Their running time."""
    an_hour: float
    """Seconds of work an hour of video takes."""
    measured: bool
    """Whether that was measured on this library's own videos; else it is what one ordinary core needs."""

    @property
    def work(self) -> float:
        """Seconds of work in all."""
        return self.seconds * self.an_hour / 3600


class SignalReport(_Report):
    """What a run found by one signal."""

    signal: str
    videos: int
    """Contents looked through."""
    failed: int
    """Contents it could not be had of; they are indexed by the rest all the same."""
    passages: int
    """Texts found in them."""
    seconds: float
    """Their running time."""
    problems: list[Problem] = Field(default_factory=list)
    """Files of this run that it failed for."""
    notes: list[Problem] = Field(default_factory=list)
    """Files of this run that something is to be said of, such as speech in a language that is not known."""


class SignalState(_Report):
    """How far a library is with a signal."""

    signal: str
    kept: bool
    """Whether `index` keeps it up to date."""
    videos: int
    """Searchable contents looked through."""
    failed: int
    passages: int
    problems: list[Problem] = Field(default_factory=list)
    """Files it failed for."""


class IndexReport(_Report):
    """What a run of `index` did: what `reelspace index --json` prints. Counts are of files."""

    model: str
    unchanged: int
    """Files that needed nothing."""
    embedded: int
    """Files whose content was read and embedded."""
    reused: int
    """Moved, renamed and copied files: known content under another path."""
    partial: int
    """Files among `embedded` that could be read only up to a point."""
    failed: int
    excluded: int
    missing: int
    """Known files that are not there now: hidden from searches."""
    pruned: int
    """Files forgotten because `prune` was asked for."""
    windows: int
    """Windows embedded in this run."""
    seconds: float
    """Running time of the video embedded in this run."""
    signals: list[SignalReport] = Field(default_factory=list)
    """What was looked for beside the picture."""
    notes: list[str] = Field(default_factory=list)
    """What the user should know: a model that changed, a root that is not there."""
    problems: list[Problem] = Field(default_factory=list)
    """Files of this run that are partial or failed, and folders that could not be read."""


class MergeReport(_Report):
    """What a run of `merge` did: what `reelspace merge --json` prints. Counts are of files."""

    shards: list[str]
    """Shards all of whose work is in the library now."""
    running: list[str]
    """Shards that are still at work; what they do is merged later."""
    embedded: int
    """Files whose content came into the library."""
    reused: int
    """Moved, renamed and copied files: known content under another path."""
    partial: int
    """Files among `embedded` that could be read only up to a point."""
    failed: int
    """Files that shards could not read."""
    windows: int
    """Windows that came into the library."""
    seconds: float
    """Running time of the video that came into the library."""
    left: int
    """Files that no shard has done yet, or that have changed since."""
    notes: list[str] = Field(default_factory=list)
    """What the user should know: a shard whose work cannot be used."""
    problems: list[Problem] = Field(default_factory=list)
    """Files that came in partial or failed."""


class TimedWord(_Report):
    """One word of a line, when or where it is."""

    text: str
    start: float | None = None
    """Seconds; of what is said."""
    end: float | None = None
    box: tuple[float, float, float, float] | None = None
    """Left, top, right, bottom as shares of the displayed picture; of what is written in it."""
    confidence: float | None = None


class TimedText(_Report):
    """A text and when it is said, written or so called."""

    start: float = Field(ge=0)
    end: float
    text: str
    source: str
    """Where it comes from: `whisper tiny.en`, `talk.srt`, `title`, …"""
    language: str | None = None
    confidence: float | None = None
    mark: Literal["unsure", "sung", "music", "sound"] | None = None
    """`unsure`: likely misheard or misread. `music`, `sound`: a note on what is heard; not searched."""
    words: list[TimedWord] = Field(default_factory=list)


class TranscriptReport(_Report):
    """What `reelspace transcript --format json` prints."""

    path: FilePath
    video: str
    """The file's identity: the hash of its bytes."""
    signal: str
    language: str | None
    """The language of most of it, where known."""
    lines: list[TimedText]

    @property
    def timed(self) -> list[Line]:
        """The lines as signals find them."""
        from reelspace.signals.base import Line

        return [
            Line(one.start, one.end, one.text, one.source, one.language, one.confidence, one.mark) for one in self.lines
        ]


class PushProgress(_Report):
    """Where a running `push` stands. Counts are of windows."""

    done: int
    total: int


class PushReport(_Report):
    """What a run of `push` did: what `reelspace push --json` prints. Counts are of windows."""

    store: str
    """The store's URL without secrets."""
    model: str
    fingerprint: str
    windows: int
    """What the store holds now."""
    added: int
    """Windows that travelled, with their vectors."""
    updated: int
    """Windows that were there, of files that have moved: only their descriptions travelled."""
    removed: int
    unchanged: int
    approximate: bool
    """Whether searches without filters use an approximate index of the server."""


class Finding(_Report):
    """Something that `verify` found wrong."""

    what: str
    where: FilePath
    """The file, cache or model concerned."""
    remedy: str
    """What to do about it."""


class VerifyReport(_Report):
    """What `reelspace verify --json` prints."""

    model: str
    ok: bool
    """Whether nothing was found."""
    files: int
    """Files whose presence was checked."""
    vectors: int
    """Vectors checked for length, finiteness and repetition, and against the cache."""
    sampled: int
    """Windows read and embedded again."""
    drift: float | None
    """Greatest cosine distance between a stored vector and the same window embedded again; `None` if none was."""
    canary_drift: float | None
    """The same for the canaries."""
    recall: float | None
    """Recall@10 of the approximate index against exact search; `None` where searches are exact."""
    findings: list[Finding]


class Repair(_Report):
    """What `check --repair` did for a file."""

    how: Literal["remuxed", "re-encoded", "cannot be mended"]
    """Its packets were put into a new container; or picture and sound were encoded again; or neither helps."""
    path: FilePath | None = None
    """The new file; it has been checked too."""
    reason: str | None = None
    """Why there is none."""


class Fault(_Report):
    """A file that something is wrong with."""

    path: FilePath
    readable: bool
    """Whether it can be read, at least in part."""
    faults: list[str]
    """What is wrong, a reason each."""
    repair: Repair | None = None
    """`None` where no repair was asked for."""


class CheckReport(_Report):
    """What `reelspace check --json` prints."""

    ok: bool
    """Whether nothing is wrong, or all of it was mended into new files."""
    files: int
    """Files that were checked: every frame of theirs was decoded."""
    seconds: float
    """Running time of what can be read of them."""
    faults: list[Fault]
