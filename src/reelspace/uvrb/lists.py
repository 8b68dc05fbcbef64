"""The lists that video data sets come with → folders in the layout that `reelspace.uvrb.data` reads.

A list is a CSV file with a header (`video,label` or `video,text`), a JSON array or JSON lines of such rows. Videos are
linked, not copied.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reelspace.errors import ReelspaceError
from reelspace.uvrb.results import jsonl, write_text


def labels(listing: Path, folder: Path, videos: Path) -> None:
    """A classification task: each video asks for its label among all the labels of the list.

    Args:
        listing: rows of `video` and `label`.
        folder: the task's folder, to be made: `DATA/UCF101`.
        videos: the folder that the names of the videos are of.
    """
    rows = read(listing, ("video", "label"))
    names = sorted({row["label"] for row in rows})
    ids = {name: f"label-{number:04d}" for number, name in enumerate(names)}
    right: dict[str, set[str]] = {}
    for row in rows:
        right.setdefault(row["video"], set()).add(ids[row["label"]])
    _write(
        folder,
        videos,
        [{"id": video, "video": video} for video in right],
        [{"id": ids[name], "text": readable(name)} for name in names],
        right,
    )


def pairs(listing: Path, root: Path, name: str, videos: Path) -> None:
    """Both directions of a text-video task: `ROOT/NAME-T2V` and `ROOT/NAME-V2T`.

    Args:
        listing: rows of `video` and `text`; several rows of a video are several texts of it.
        root: where the two folders are made.
        name: `MSR-VTT`, `MSVD`, `VATEX`, `DiDeMo`.
        videos: the folder that the names of the videos are of.
    """
    rows = read(listing, ("video", "text"))
    texts = [{"id": f"text-{number:06d}", "text": row["text"]} for number, row in enumerate(rows)]
    clips = [{"id": video, "video": video} for video in dict.fromkeys(row["video"] for row in rows)]
    answers: dict[str, set[str]] = {}
    described: dict[str, set[str]] = {}
    for text, row in zip(texts, rows, strict=True):
        answers[text["id"]] = {row["video"]}
        described.setdefault(row["video"], set()).add(text["id"])
    _write(root / f"{name}-T2V", videos, texts, clips, answers)
    _write(root / f"{name}-V2T", videos, clips, texts, described)


def readable(label: str) -> str:
    """A label as words: `BrushHair`, `brush_hair` → `brush hair`."""
    plain = label.replace("_", " ").strip()
    if " " not in plain:  # words that are told apart by capitals alone
        joined = "".join(f" {c}" if c.isupper() and at and plain[at - 1].islower() else c for at, c in enumerate(plain))
        plain = joined
    return plain.lower() if plain != plain.upper() else plain


def read(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Rows of a list; all must have the columns.

    Raises:
        ReelspaceError: it is not there, is none of the forms, or a row lacks something.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise ReelspaceError(f"{path}: {error.strerror}") from None
    try:
        if path.suffix == ".csv":
            rows: Iterable[Mapping[str, Any]] = list(csv.DictReader(text.splitlines()))
        elif path.suffix == ".jsonl":
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            rows = json.loads(text)
    except ValueError as error:
        raise ReelspaceError(f"{path} cannot be read as {path.suffix or 'JSON'}: {error}.") from None
    found = []
    for number, row in enumerate(rows, 1):
        if lacking := [column for column in columns if not str(row.get(column) or "").strip()]:
            raise ReelspaceError(f"{path}, row {number}, has no {' and no '.join(lacking)}.")
        found.append({column: str(row[column]) for column in columns})
    if not found:
        raise ReelspaceError(f"{path} has no rows.")
    return found


def _write(
    folder: Path,
    videos: Path,
    queries: list[dict[str, str]],
    corpus: list[dict[str, str]],
    right: Mapping[str, set[str]],
) -> None:
    write_text(folder / "jsonl" / "queries.jsonl", jsonl(queries))
    write_text(folder / "jsonl" / "corpus.jsonl", jsonl(corpus))
    instances = ({"qid": query, "pos": sorted(answers)} for query, answers in right.items())
    write_text(folder / "jsonl" / "instances.jsonl", jsonl(instances))
    link = folder / "videos"
    if link.is_symlink():
        link.unlink()
    if not link.exists():
        link.symlink_to(videos.absolute(), target_is_directory=True)
