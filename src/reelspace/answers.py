"""What the engine says back: hits and the reports that `--json` prints. Their JSON Schemas are in `docs/schemas/`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Hit(_Report):
    """A moment of one video that answers a query."""

    rank: int = Field(ge=1)
    """1 is the best; ranks go on across pages."""
    path: str
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
    copies: list[str] = Field(default_factory=list)
    """Other indexed files with the same bytes."""

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


class SearchReport(_Report):
    """The answer to one query: what `reelspace search --json` prints."""

    query: Query
    model: str
    match: bool | None
    """Whether anything fits, by the model's calibration; `None` where the model has none for this query form."""
    page: int = Field(ge=1)
    hits: list[Hit]
    """Ranked, also when `match` is false: the nearest that there is."""


class Problem(_Report):
    """A file that is not wholly indexed, and why."""

    path: str
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


class StatusReport(_Report):
    """What `reelspace status --json` prints. Counts are of files."""

    library: str
    roots: list[str]
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
    problems: list[Problem]
