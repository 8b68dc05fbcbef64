"""The curves of a run → curves.png. Needs matplotlib.

python recipes/tiny-mllm/plot.py RUN curves.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

EYES = ("form", "colour", "texture", "way", "growing", "turning", "filming", "background", "light", "across", "down")
PANELS = {
    "answers, of what is there": ("colour", "form", "place", "light", "count", "side", "where"),
    "answers, of what happens": ("deed", "direction", "camera", "first", "last"),
    "Yes or No (AUC)": ("check", "match brief", "match general"),
    "caption → video R@1 by layer": ("layer 1", "layer 2", "layer 3", "layer 4", "layer 5", "layer 6"),
    "loss": ("words", "wrong", "contrast"),
}


def main(run: Path, target: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    eyes, rows = ([json.loads(line) for line in (run / name).read_text().splitlines()] for name in FILES)
    figure, axes = pyplot.subplots(2, 3, figsize=(15, 7), constrained_layout=True)
    _draw(axes.flat[0], "the eyes: cells named right, held-out scenes", EYES, eyes)
    for axis, (title, names) in zip(axes.flat[1:], PANELS.items(), strict=True):
        _draw(axis, f"{title}, held-out scenes" if title != "loss" else "loss of a training batch", names, rows)
    axes.flat[5].set_ylim(0, 3)
    figure.savefig(target, dpi=90, metadata={"Software": None})


FILES = ("eyes.jsonl", "curves.jsonl")


def _draw(axis: Any, title: str, names: tuple[str, ...], rows: list[dict]) -> None:
    for name in names:
        points = [(row["step"], row[name]) for row in rows if name in row]
        if points:
            axis.plot(*zip(*points, strict=True), label=name, linewidth=1.4)
    axis.set(title=title, xlabel="step", ylim=(0, 1))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, ncols=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
