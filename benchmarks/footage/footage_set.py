"""The footage evaluation set as data: what the two CSV files beside this module say. README.md explains them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Item:
    """One candidate: a picture, a clip, or a span of a clip. Spans of one film share one file."""

    id: str
    kind: str  # picture | clip | sound
    role: str  # candidate | query (held out: never among the answers) | voice
    source: str  # what decides the split: one photo session, one film
    package: str  # pypi:NAME, sdist:NAME, deb:NAME, npm:NAME
    version: str
    member: str  # path inside the package
    sha256: str
    licence: str
    start: float | None
    end: float | None
    split: str  # choose | report
    file: str  # path below DIR

    def path(self, root: Path) -> Path:
        return root / self.file


def read_items(path: Path = HERE / "items.csv") -> list[Item]:
    with path.open(newline="", encoding="utf-8") as handle:
        return [
            Item(
                start=float(row.pop("start")) if row["start"] else None,
                end=float(row.pop("end")) if row["end"] else None,
                **{key: value for key, value in row.items() if key not in ("start", "end")},
            )
            for row in csv.DictReader(handle)
        ]


@dataclass(frozen=True)
class Query:
    """One question. Relevant and near items are listed over both halves: rank the items of `split` only."""

    id: str
    kind: str  # text | image | clip | composed | not | absent
    tag: str
    target: str  # pictures | clips | both
    text: str
    image: str  # an item's id, or FILE@SECONDS: a frame of a clip
    clip: str  # an item's id
    not_text: str
    relevant: tuple[str, ...]  # empty: nothing in the set answers it
    near: tuple[str, ...]  # composed: match one part only; not: are excluded; clips: other spans of the same film
    split: str

    def candidates(self, items: list[Item]) -> list[Item]:
        """What is ranked for this query: its half's candidates of the wanted kind, without the query itself."""
        kinds = {"pictures": {"picture"}, "clips": {"clip"}, "both": {"picture", "clip"}}[self.target]
        return [
            item
            for item in items
            if item.role == "candidate" and item.split == self.split and item.kind in kinds and item.id != self.image
        ]


def read_queries(path: Path = HERE / "queries.csv") -> list[Query]:
    with path.open(newline="", encoding="utf-8") as handle:
        return [
            Query(
                relevant=tuple(row.pop("relevant").split()),
                near=tuple(row.pop("near").split()),
                **row,
            )
            for row in csv.DictReader(handle)
        ]
