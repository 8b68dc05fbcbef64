"""The published tables of UVRB: what 16 models scored, who they are, what the text says of them. See SOURCE.md."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Architecture = Literal["CLIP", "MLLM"]


@dataclass(frozen=True)
class Model:
    """A model of Table 10.

    Attributes:
        name: its abbreviation, as in the other tables.
        full: its whole name.
        parameters: how many, as printed: 87M is 87e6.
        pairs: what it was trained on: `text-text`, `text-image`, `text-video`.
    """

    name: str
    full: str
    architecture: Architecture
    parameters: float
    pairs: tuple[str, ...]

    @property
    def ours(self) -> bool:
        """Whether it is the paper's own; the other 14 are its baselines."""
        return self.name.startswith("GVE-")


def rows(name: str) -> list[dict[str, str]]:
    """The lines of a table, such as `table1`, as they are printed."""
    text = resources.files(__package__).joinpath(f"{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def models() -> dict[str, Model]:
    """The 16 models, in the order of the tables."""
    unit = {"M": 1e6, "B": 1e9}
    found = {}
    for row in rows("table10"):
        pairs = tuple(key.replace("_", "-") for key in ("text_text", "text_image", "text_video") if row[key] == "1")
        parameters = round(float(row["size"][:-1]) * unit[row["size"][-1]])
        name, architecture = row["abbreviation"], row["architecture"]
        assert architecture in ("CLIP", "MLLM")
        found[name] = Model(name, row["model"], architecture, parameters, pairs)  # type: ignore[arg-type]
    return found


@cache
def scores() -> dict[str, dict[str, float]]:
    """Model → dataset → score, of Table 1."""
    return {
        row["model"]: {key: float(value) for key, value in row.items() if key not in ("model", "AVG-D")}
        for row in rows("table1")
    }


@cache
def classification() -> dict[str, dict[str, float]]:
    """Model → dataset → accuracy, of Table 11."""
    return {
        row["model"]: {key: float(value) for key, value in row.items() if key not in ("model", "AVG")}
        for row in rows("table11")
    }


@cache
def text_video() -> dict[str, dict[str, float]]:
    """Model → task, such as `MSVD-T2V` → R@1 between 0 and 1, of VidVec's tables."""
    found: dict[str, dict[str, float]] = {}
    for row in rows("vidvec"):
        task = f"{row['dataset']}-{row['direction']}"
        found.setdefault(row["variant"], {})[task] = round(float(row["R@1"]) / 100, 5)
    return found
