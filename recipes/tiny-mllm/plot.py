"""curves.jsonl of a run → curves.png. Needs matplotlib.

python recipes/tiny-mllm/plot.py RUN/curves.jsonl curves.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PANELS = {
    "answers": ("colour", "form", "deed", "direction", "place", "light", "count", "camera"),
    "Yes or No (AUC)": ("check", "match brief", "match general"),
    "caption → video R@1 by layer": ("layer 1", "layer 2", "layer 3", "layer 4", "layer 5", "layer 6"),
    "loss": ("words", "contrast"),
}


def main(source: Path, target: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [json.loads(line) for line in source.read_text().splitlines()]
    figure, axes = pyplot.subplots(2, 2, figsize=(12, 7), constrained_layout=True)
    for axis, (title, names) in zip(axes.flat, PANELS.items(), strict=True):
        for name in names:
            points = [(row["step"], row[name]) for row in rows if name in row]
            if points:
                axis.plot(*zip(*points, strict=True), label=name, linewidth=1.4)
        axis.set_title(f"{title}, held-out scenes" if title != "loss" else "loss of a training batch")
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, ncols=2)
        if title != "loss":
            axis.set_ylim(0, 1)
    figure.savefig(target, dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
