"""How a run went (GVE A.10): each measure raw, as a moving mean, and the band of one standard deviation around it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError
from reelspace.train.config import LOG

MEASURES = {
    "loss": "Training loss",
    "mean_score": "Mean score",
    "max_negative_gap": "Max negative gap",
    "mean_positive_score": "Mean positive score",
    "hard_negative_margin": "Positive − hard negative",
}
WINDOW = 200
"""Steps of the moving mean, as in the paper."""


def curves(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Measure → float64 `[n, 2]`: step and value.

    Raises:
        ReelspaceError: the folder holds no run.
    """
    path = folder / LOG
    if not path.exists():
        raise ReelspaceError(f"{folder} holds no run: there is no {LOG}.")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    steps = [row for row in rows if row["event"] == "step"]
    found = {name: [(row["step"], row[name]) for row in steps if name in row] for name in MEASURES}
    return {name: np.array(points, dtype=np.float64) for name, points in found.items() if points}


def smoothed(points: NDArray[np.float64], window: int = WINDOW) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of the values of the last `window` steps before each: float64 `[n]` each."""
    steps, values = points[:, 0], points[:, 1]
    first = np.searchsorted(steps, steps - window, side="right")
    parts = [values[start : end + 1] for end, start in enumerate(first)]
    return np.array([part.mean() for part in parts]), np.array([part.std() for part in parts])


def plot(folders: Sequence[Path], output: Path, window: int = WINDOW) -> Path:
    """Draws the runs beside each other into one picture (PNG, SVG or PDF by its name). Needs matplotlib.

    Raises:
        ReelspaceError: a folder holds no run, or there is nothing to draw.
    """
    runs = {folder.name: curves(folder) for folder in folders}
    shown = [name for name in MEASURES if any(name in run for run in runs.values())]
    if not shown:
        raise ReelspaceError("Nothing has been logged yet; wait for the first steps.")
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "reelspace"  # else the names inside differ from one drawing to the next
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(shown), 1, figsize=(8, 2.4 * len(shown)), sharex=True, squeeze=False)
    for axis, name in zip(axes[:, 0], shown, strict=True):
        for colour, (label, run) in zip(
            pyplot.rcParams["axes.prop_cycle"].by_key()["color"] * 9, runs.items(), strict=False
        ):
            if name in run:
                _draw(axis, run[name], label, colour, window)
        axis.set_ylabel(MEASURES[name])
        axis.grid(alpha=0.3)
    axes[0, 0].legend(loc="upper right", fontsize="small")
    axes[-1, 0].set_xlabel("step")
    figure.align_ylabels()
    figure.tight_layout()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=120, metadata=_UNDATED.get(output.suffix))
    pyplot.close(figure)
    return output


_UNDATED: Mapping[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def _draw(axis: Any, points: NDArray[np.float64], label: str, colour: str, window: int) -> None:
    mean, spread = smoothed(points, window)
    steps = points[:, 0]
    axis.plot(steps, points[:, 1], color=colour, alpha=0.25, linewidth=0.8)
    axis.fill_between(steps, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axis.plot(steps, mean, color=colour, label=label)
