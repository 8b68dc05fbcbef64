"""Pairs of captions for text-only tuning (VidVec): a brief text asks, a detailed one stands in for the video."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from reelspace.errors import ReelspaceError
from reelspace.synth.shards import write_text
from reelspace.worlds.sample import generator


def pairs(table: Path, output: Path, count: int | None = 60_000, seed: int = 0) -> Path:
    """Rows of brief → detailed captions from a table such as that of VideoUFO, as JSONL.

    Args:
        table: CSV or Parquet with one column whose name has “brief” in it and one with “detailed”.
        count: how many rows, a fixed sample (VidVec: 60 000); `None`: all.

    Raises:
        ReelspaceError: there are no such columns, or there is nothing in them.
    """
    found = [(brief.strip(), detailed.strip()) for brief, detailed in _read(table) if brief and detailed]
    found = [pair for pair in dict.fromkeys(found) if all(pair)]
    if not found:
        raise ReelspaceError(f"{table} holds no pairs of captions.")
    if count is not None and count < len(found):
        order = generator("caption pairs", seed).permutation(len(found))[:count]
        found = [found[place] for place in sorted(order.tolist())]
    rows = (
        {"id": f"{table.stem} {number}", "query": {"text": brief}, "candidate": {"text": detailed}}
        for number, (brief, detailed) in enumerate(found)
    )
    write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), output)
    return output


def _read(table: Path) -> Iterator[tuple[str, str]]:
    if table.suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(table) as file:
            names = _columns(file.schema_arrow.names, table)
            for batch in file.iter_batches(columns=list(names)):
                yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        return
    csv.field_size_limit(sys.maxsize)
    with table.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        names = _columns(list(rows.fieldnames or ()), table)
        for row in rows:
            yield row[names[0]] or "", row[names[1]] or ""


def _columns(names: list[str], table: Path) -> tuple[str, str]:
    found = []
    for word in ("brief", "detailed"):
        fitting = [name for name in names if word in name.lower()]
        if len(fitting) != 1:
            raise ReelspaceError(
                f"{table} needs one column with “{word}” in its name; its columns are {', '.join(names) or 'none'}."
            )
        found += fitting
    return found[0], found[1]
