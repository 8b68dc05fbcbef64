"""How a run went (GVE A.10): each measure raw, as a moving mean, and the band of one standard deviation around it; and
task by task, what the prober found before each epoch and how many steps it was given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
BY_TASK = {"alignment": "Alignment R_k", "draws": "Share of steps"}
WINDOW = 200
"""Steps of the moving mean, as in the paper."""


def curves(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Measure → float64 `[n, 2]`: step and value.

    Raises:
        ReelspaceError: the folder holds no run.
    """
    steps = [row for row in _logged(folder) if row["event"] == "step"]
    found = {name: [(row["step"], row[name]) for row in steps if name in row] for name in MEASURES}
    return {name: np.array(points, dtype=np.float64) for name, points in found.items() if points}


def by_task(folder: Path) -> dict[str, dict[str, NDArray[np.float64]]]:
    """`alignment` and `draws` → task → float64 `[epochs, 2]`: epoch, from 1, and R_k or the share of the epoch's steps.

    Raises:
        ReelspaceError: the folder holds no run.
    """
    found: dict[str, dict[str, list[tuple[float, float]]]] = {name: {} for name in BY_TASK}
    for row in _logged(folder):
        if row["event"] == "probe":
            told = {task: one["matched"] for task, one in row["alignment"].items()}
        elif row["event"] == "plan":
            steps = max(sum(row["draws"].values()), 1)
            told = {task: drawn / steps for task, drawn in row["draws"].items()}
        else:
            continue
        kept = found["alignment" if row["event"] == "probe" else "draws"]
        for task, value in told.items():
            kept.setdefault(task, []).append((row["epoch"] + 1, value))
    return {
        name: {task: np.array(points, dtype=np.float64) for task, points in tasks.items()}
        for name, tasks in found.items()
        if tasks
    }


def _logged(folder: Path) -> list[dict[str, Any]]:
    path = folder / LOG
    if not path.exists():
        raise ReelspaceError(f"{folder} holds no run: there is no {LOG}.")
    rows = []
    for line in path.read_text("utf-8").splitlines():
        with suppress(ValueError):  # a last line that is being written
            rows.append(json.loads(line))
    return rows


def smoothed(points: NDArray[np.float64], window: int = WINDOW) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of the values of the last `window` steps before each: float64 `[n]` each."""
    steps, values = points[:, 0], points[:, 1]
    first = np.searchsorted(steps, steps - window, side="right")
    parts = [values[start : end + 1] for end, start in enumerate(first)]
    return np.array([part.mean() for part in parts]), np.array([part.std() for part in parts])


def _laid_out(figure: Any, legends: Sequence[Any]) -> None:
    """Curves take the room there is whatever they are called; the picture grows by what legends need beside them."""
    for legend in legends:
        legend.set_in_layout(False)
    figure.tight_layout()
    for legend in legends:
        legend.set_in_layout(True)


def plot(folders: Sequence[Path], output: Path, window: int = WINDOW) -> Path:
    """Draws the runs beside each other into one picture (PNG, SVG or PDF by its name). Needs matplotlib.

    Raises:
        ReelspaceError: a folder holds no run, or there is nothing to draw.
    """
    named = _named(folders)
    runs = {label: curves(folder) for label, folder in named.items()}
    shown = [name for name in MEASURES if any(name in run for run in runs.values())]
    if not shown:
        raise ReelspaceError("Nothing has been logged yet; wait for the first steps.")
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "reelspace"  # else the names inside differ from one drawing to the next
    from matplotlib import pyplot

    tasks = {label: by_task(folder) for label, folder in named.items()}
    lower = [name for name in BY_TASK if any(name in found for found in tasks.values())]
    count = len(shown) + len(lower)
    figure, axes = pyplot.subplots(count, 1, figsize=(8, 2.4 * count), squeeze=False)
    for axis, name in zip(axes[:, 0], shown, strict=False):
        for colour, (label, run) in zip(_colours() * 9, runs.items(), strict=False):
            if name in run:
                _draw(axis, run[name], label, colour, window)
        axis.set_ylabel(MEASURES[name])
        axis.set_xlabel("step")
    for axis in axes[1 : len(shown), 0]:
        axis.sharex(axes[0, 0])
    legends = [axes[0, 0].legend(loc="upper right", fontsize="small")]
    for axis, name in zip(axes[len(shown) :, 0], lower, strict=True):
        _draw_tasks(axis, {label: found.get(name, {}) for label, found in tasks.items()})
        axis.set_ylabel(BY_TASK[name])
        axis.set_xlabel("epoch")
        legends.append(axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="x-small"))
    for axis in axes[:, 0]:
        axis.grid(alpha=0.3)
    figure.align_ylabels()
    _laid_out(figure, legends)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=120, bbox_inches="tight", metadata=_UNDATED.get(output.suffix))
    pyplot.close(figure)
    return output


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by their names; by their whole paths where two have one name."""
    different = list(dict.fromkeys(folders))
    names = [folder.name for folder in different]
    return {
        name if names.count(name) == 1 else str(folder): folder for name, folder in zip(names, different, strict=True)
    }


def _colours() -> list[str]:
    from matplotlib import pyplot

    return list(pyplot.rcParams["axes.prop_cycle"].by_key()["color"])


_UNDATED: Mapping[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def _draw(axis: Any, points: NDArray[np.float64], label: str, colour: str, window: int) -> None:
    mean, spread = smoothed(points, window)
    steps = points[:, 0]
    axis.plot(steps, points[:, 1], color=colour, alpha=0.25, linewidth=0.8)
    axis.fill_between(steps, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axis.plot(steps, mean, color=colour, label=label)


def _draw_tasks(axis: Any, runs: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> None:
    """A colour a task, a way of drawing a run."""
    names = sorted({task for found in runs.values() for task in found})
    for style, (label, found) in zip(("-", "--", ":", "-.") * 9, runs.items(), strict=False):
        for colour, task in zip(_colours() * 9, names, strict=False):
            if task in found:
                told = task if len(runs) == 1 else f"{task} ({label})"
                axis.plot(*found[task].T, color=colour, linestyle=style, marker="o", markersize=3, label=told)
    epochs = max(int(points[-1, 0]) for found in runs.values() for points in found.values())
    axis.set_xticks(range(1, epochs + 1))
