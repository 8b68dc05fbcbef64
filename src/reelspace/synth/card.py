"""The dataset card, and the figures on it: counted from the rows and the rejections as they are in the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelspace.errors import ReelspaceError
from reelspace.synth import schema, texts
from reelspace.synth.shards import write_json, write_text

if TYPE_CHECKING:
    from reelspace.synth.run import Job

STATS = "stats.json"


def publish(job: Job) -> None:
    """Writes the figures and the card."""
    figures = counted(job)
    write_json(figures, job.out / STATS)
    write_text(card(figures), job.out / "README.md")


def stats(folder: Path) -> dict[str, Any]:
    """The figures of a dataset.

    Raises:
        ReelspaceError: it is none, or not finished.
    """
    try:
        found: dict[str, Any] = json.loads((folder / STATS).read_text("utf-8"))
    except (OSError, ValueError):
        raise ReelspaceError(f"{folder} holds no finished set; `reelspace synth run` makes one, or goes on.") from None
    return found


def counted(job: Job) -> dict[str, Any]:
    """All the figures, in plain data."""
    tasks: dict[str, Any] = {}
    for task in schema.TASKS:
        if (job.out / "data" / task).is_dir():
            tasks[task] = _task(schema.rows(job.out, task))
    reasons: dict[str, Counter[str]] = {}
    (job.out / "data").mkdir(exist_ok=True)  # there may be no row at all
    for rejection in schema.rejections(job.out):
        reasons.setdefault(f"{rejection.stage}/{rejection.block}", Counter())[rejection.reason] += 1
    asked, judge = job.config.mllm, job.config.verifier or job.config.mllm
    return {
        "name": job.config.name,
        "licence": job.config.licence,
        "seed": job.config.seed,
        "embedder": job.config.embedder,
        "mllm": {"kind": asked.kind, "model": asked.model, "revision": asked.revision},
        "verifier": {"kind": judge.kind, "model": judge.model, "revision": judge.revision},
        "rows": sum(task["rows"] for task in tasks.values()),
        "tasks": tasks,
        "funnel": _funnel(job),
        "rejected": {block: dict(sorted(count.items())) for block, count in sorted(reasons.items())},
    }


def _task(rows: Iterator[schema.Row]) -> dict[str, Any]:
    count: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {
        name: Counter()
        for name in ("language", "licence", "profile", "style", "readability", "education", "relation", "model")
    }
    lengths: list[int] = []
    videos: set[str] = set()
    for row in rows:
        count["rows"] += 1
        count["negatives"] += len(row.negatives)
        videos.add(row.candidate.video)
        for name, values in kinds.items():
            if value := getattr(row.provenance, name):
                values[value] += 1
        if row.query.text:
            lengths.append(len(texts.words(row.query.text)))
    spread = _spread(lengths)
    found = {name: dict(sorted(values.items())) for name, values in kinds.items() if values}
    return {"rows": count["rows"], "negatives": count["negatives"], "videos": len(videos), **spread, **found}


def _spread(lengths: list[int]) -> dict[str, Any]:
    """Words of the queries: shortest, quartiles, longest."""
    if not lengths:
        return {}
    lengths.sort()
    return {"words": [lengths[round(part * (len(lengths) - 1))] for part in (0, 0.25, 0.5, 0.75, 1)]}


def _funnel(job: Job) -> list[dict[str, Any]]:
    """Step by step and block by block: how many videos came in and went out."""
    lines = []
    for step, blocks in job.counts().items():
        for block, count in blocks.items():
            if "in" in count:
                more = {what: times for what, times in count.items() if what not in ("in", "out")}
                lines.append({"step": step, "block": block, "in": count["in"], "out": count["out"], **more})
    return lines


def card(figures: dict[str, Any]) -> str:
    """The card: a head that the Hugging Face hub and `datasets` read, then tables for people."""
    tasks = figures["tasks"]
    size = figures["rows"]
    head = ["---", f"pretty_name: {json.dumps(figures['name'])}"]
    if figures["licence"]:
        head.append(f"license: {json.dumps(figures['licence'])}")
    languages = sorted({code for task in tasks.values() for code in task.get("language", {}) if code != "und"})
    head += ["language:", *(f"- {code}" for code in languages)] if languages else []
    head += ["task_categories:", "- feature-extraction", "size_categories:", f"- {_size(size)}", "configs:"]
    for task in tasks:
        head += [f"- config_name: {task}", f"  data_files: data/{task}/*.parquet"]
    head.append("---")
    body = [
        f"# {figures['name']}",
        f"{size:,} training pairs for universal video retrieval, made by V-SynFlow (`reelspace synth run`): the texts "
        f"were written by a model and checked, not by people. Seed {figures['seed']}.",
        "Media are named by path and span (seconds from the first displayed frame); relative paths begin at this "
        "folder. The columns are described in `reelspace.synth.schema`.",
        "## Tasks",
        _table(
            ["task", "rows", "videos", "hard negatives", "words a query (least, quartiles, most)"],
            [
                [name, task["rows"], task["videos"], task["negatives"], ", ".join(map(str, task.get("words", [])))]
                for name, task in tasks.items()
            ],
        ),
        "## Who wrote and who judged",
        _table(
            ["", "kind", "model", "revision"],
            [[who, *(figures[who][part] for part in ("kind", "model", "revision"))] for who in ("mllm", "verifier")],
        ),
        f"Embedder of the checks: {figures['embedder']}.",
    ]
    for title, name in (
        *(("Languages", "language"), ("Licences of the videos", "licence"), ("Information profiles", "profile")),
        *(("Styles", "style"), ("Readability", "readability"), ("Education", "education"), ("Relations", "relation")),
    ):
        lines = [
            [task, *(f"{value}: {count}" for value, count in data[name].items())]
            for task, data in tasks.items()
            if name in data
        ]
        if lines:
            body += [f"## {title}", "\n".join(f"* {line[0]}: {', '.join(line[1:])}" for line in lines)]
    body += [
        "## What was left on the way",
        _table(
            ["step", "block", "videos in", "videos out"],
            [[line["step"], line["block"], line["in"], line["out"]] for line in figures["funnel"]],
        ),
        "Reasons, of videos and of single texts (`rejected/` holds all of them):",
        "\n".join(
            f"* {block}: " + ", ".join(f"{reason} {count}" for reason, count in reasons.items())
            for block, reasons in figures["rejected"].items()
        )
        or "* none",
    ]
    return "\n".join(head) + "\n\n" + "\n\n".join(body) + "\n"


def _size(rows: int) -> str:
    """The hub's word for a number of rows."""
    for most, name in ((1e3, "n<1K"), (1e4, "1K<n<10K"), (1e5, "10K<n<100K"), (1e6, "100K<n<1M"), (1e7, "1M<n<10M")):
        if rows < most:
            return name
    return "10M<n<100M"


def _table(head: list[str], lines: list[list[Any]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)
