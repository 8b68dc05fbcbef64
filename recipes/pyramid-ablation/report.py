"""Makes `report.md` of what lies in `results/`: the same bytes of the same results.

    python recipes/pyramid-ablation/report.py [--plots]
    python recipes/pyramid-ablation/report.py --settings recipes/pyramid-ablation/stages.toml

With --plots also the figures, which need matplotlib.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.train.schedule import Alignment, Epoch, Pyramid
from reelspace.uvrb.abilities import abilities, columns

HERE = Path(__file__).parent
SUITE = "worlds"
COLUMNS = columns(SUITE)
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
T80 = (1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.896, 0.889, 0.883)
"""Student's t at .975 and at .8, of 1 to 9 degrees of freedom."""
Scores = dict[int, dict[str, float]]
"""Seed → ability or average → score."""
Changes = Sequence[tuple[str, str, str]]
"""What is compared: from, to, and what the change is."""


def settings(path: Path) -> dict[str, Any]:
    """What a file of settings says; where it is `like` another, the rest is as there."""
    told = tomllib.loads(path.read_text("utf-8"))
    return {**settings(path.parent / told["like"]), **told} if "like" in told else told


def found(folder: Path) -> list[dict[str, Any]]:
    """All results, in the order of their names."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*-*.json"))]


def whole(row: dict[str, Any]) -> dict[str, float]:
    """Abilities and averages of a result."""
    return {name: value for name, value in abilities(row["scores"], SUITE).items() if value is not None}


def by_arm(rows: Sequence[dict[str, Any]], part: float = 1.0) -> dict[str, Scores]:
    """Arm → its scores, of results on that share of the data."""
    arms: dict[str, Scores] = {}
    for row in rows:
        if row["part"] == part:
            arms.setdefault(row["arm"], {})[row["seed"]] = whole(row)
    return arms


def half(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Half the width of the 95 % interval of a mean (Student's t); 0 of a single value."""
    n = len(values)
    return 0.0 if n < 2 else T975[n - 2] * float(np.std(values, ddof=1)) / sqrt(n)


def differences(arms: dict[str, Scores], one: str, other: str, column: str) -> NDArray[np.float64]:
    """What the second has more than the first, seed by seed."""
    seeds = sorted(set(arms[one]) & set(arms[other]))
    return np.array([arms[other][seed][column] - arms[one][seed][column] for seed in seeds])


def smallest(gaps: NDArray[np.float64]) -> float:
    """The effect that a comparison of so many seeds sees in four of five cases, at a level of 5 %."""
    n = len(gaps)
    return (T975[n - 2] + T80[n - 2]) * float(np.std(gaps, ddof=1)) / sqrt(n)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)] + [""]


def signed(value: float) -> str:
    text = f"{value:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else text.replace("-", "−")


def costs(rows: Sequence[dict[str, Any]], arms: Sequence[str], first: str) -> list[str]:
    mine = {name: [row for row in rows if row["arm"] == name and row["part"] == 1] for name in arms}

    def flops(name: str) -> float:
        return float(np.mean([sum(row["flops"].values()) for row in mine[name]]))

    usual = flops(first)
    lines = []
    for name in arms:
        got = mine[name]
        probing = sum(row["flops"]["probing"] for row in got) / sum(sum(row["flops"].values()) for row in got)
        lines.append(
            [
                name,
                str(len(got)),
                str(got[0]["steps"]),
                f"{np.mean([row['pairs'] for row in got]):,.0f}",
                f"{flops(name) / usual:.2f}",
                f"{probing:.1%}",
                f"{np.mean([row['seconds']['processor'] for row in got]):.0f}",
            ]
        )
    heads = ("arm", "seeds", "steps", "pairs shown", f"FLOPs, of {first}", "of them probing", "processor seconds")
    return table(heads, lines)


def means(arms: dict[str, Scores], start: dict[str, float]) -> list[str]:
    lines = [["before training", *(f"{start[column]:.3f}" for column in COLUMNS)]]
    for name, scores in arms.items():
        cells = []
        for column in COLUMNS:
            values = [row[column] for row in scores.values()]
            cells.append(f"{np.mean(values):.3f} ± {half(values):.3f}")
        lines.append([name, *cells])
    return table(("arm", *COLUMNS), lines)


def compared(arms: dict[str, Scores], changes: Changes) -> list[str]:
    lines = []
    for one, other, what in changes:
        if one not in arms or other not in arms:
            continue
        cells = []
        for column in COLUMNS:
            gaps = differences(arms, one, other, column)
            mean, wide = float(gaps.mean()), half(gaps)
            text = f"{signed(mean)} ± {wide:.3f}"
            cells.append(f"**{text}**" if abs(mean) > wide > 0 else text)
        lines.append([f"{what} ({one} → {other})", *cells])
    return table(("change", *COLUMNS), lines)


def verdicts(arms: dict[str, Scores], changes: Changes) -> list[str]:
    """A sentence for each change, from its interval."""
    lines = []
    for one, other, what in changes:
        if one not in arms or other not in arms:
            continue
        gaps = differences(arms, one, other, "AVG-A")
        if len(gaps) < 2:
            continue  # one seed says nothing
        mean, wide = float(gaps.mean()), half(gaps)
        if abs(mean) > wide:
            word = "helps" if mean > 0 else "harms"
            said = f"{word}: AVG-A {signed(mean)} ± {wide:.3f}"
        else:
            said = (
                f"makes no difference that was seen in AVG-A ({signed(mean)} ± {wide:.3f}); "
                f"one of less than {smallest(gaps):.3f} could well have been missed"
            )
        moved = {column: differences(arms, one, other, column) for column in COLUMNS if not column.startswith("AVG")}
        up = [column for column, gap in moved.items() if float(gap.mean()) > half(gap) > 0]
        down = [column for column, gap in moved.items() if -float(gap.mean()) > half(gap) > 0]
        parts = [f"{word} {', '.join(names)}" for word, names in (("raises", up), ("lowers", down)) if names]
        lines.append(
            f"* **{what}** ({one} → {other}) {said}.{' By itself it ' + ' and '.join(parts) + '.' if parts else ''}"
        )
    return [*lines, ""]


def swallowed(rows: Sequence[dict[str, Any]], sizes: dict[str, float]) -> list[str]:
    """What the first probe found, and what both Pyramids would draw of it, as means over seeds."""
    probed = [row["alignment"][0] for row in rows if row["arm"] in ("pyramid", "pyramid-z") and row["part"] == 1]
    if not probed:
        return []
    names = tuple(probed[0])

    def shares(score: Any, number: int, of: int = 3) -> NDArray[np.float64]:
        every = []
        for row in probed:
            known = {task: Alignment(**told) for task, told in row.items()}
            every.append(Pyramid(score=score).shares(Epoch(number, of, names, (1.0,) * len(names), known)))
        return np.mean(every, axis=0)

    raw, contrast = shares("cosine", 0), shares("contrast", 0)
    total = sum(sizes[name] for name in names)
    lines = []
    for place, name in enumerate(names):
        matched, others = (float(np.mean([row[name][key] for row in probed])) for key in ("matched", "mismatched"))
        z = float(np.mean([Alignment(**row[name]).contrast for row in probed]))
        lines.append(
            [
                *(name, f"{matched:.2f}", f"{others:.2f}", f"{z:.1f}"),
                *(f"{raw[place]:.1%}", f"{contrast[place]:.1%}", f"{sizes[name] / total:.1%}"),
            ]
        )
    heads = ("task", "R_k", "mismatched", "z", "share, raw", "share, z", "share by size")
    return [
        "## The first epoch, by raw cosines and by z-scores",
        "",
        "What the model finds of each task before it is trained, and what the Pyramid draws at σ = 0.1:",
        "",
        *table(heads, lines),
    ]


def fitted(rows: Sequence[dict[str, Any]], arm: str) -> tuple[list[float], dict[str, Any]]:
    """Shares of the data, and ability → (means, a, b) of y = a ln x + b over pairs shown (GVE A.11)."""
    parts = sorted({row["part"] for row in rows if row["arm"] == arm})
    x = [log(float(np.mean([r["pairs"] for r in rows if r["arm"] == arm and r["part"] == part]))) for part in parts]
    told = {}
    for column in COLUMNS:
        every = [[whole(row)[column] for row in rows if row["arm"] == arm and row["part"] == part] for part in parts]
        middle = [float(np.mean(values)) for values in every]
        slope, height = np.polyfit(x, middle, 1) if len(parts) > 1 else (0.0, middle[0])
        told[column] = (middle, [half(values) for values in every], float(slope), float(height))
    return parts, told


def scaling(rows: Sequence[dict[str, Any]], arm: str) -> list[str]:
    parts, told = fitted(rows, arm)
    if len(parts) < 3:
        return []
    pairs = [np.mean([r["pairs"] for r in rows if r["arm"] == arm and r["part"] == part]) for part in parts]
    seeds = min(sum(r["arm"] == arm and r["part"] == part for r in rows) for part in parts)
    lines = []
    for column in COLUMNS:
        middle, wide, slope, height = told[column]
        cells = [f"{mean:.3f} ± {width:.3f}" for mean, width in zip(middle, wide, strict=True)]
        lines.append([column, *cells, signed(slope), signed(height), signed(slope * log(10))])
    return [
        "## More data",
        "",
        f"The arm `{arm}` on a part of its rows, each seen as often as in the whole ({seeds} seeds or more), "
        "and y = a ln x + b through the means, x the pairs shown:",
        "",
        *table(("", *(f"{n:,.0f} pairs" for n in pairs), "a", "b", "gain per 10 × data"), lines),
    ]


def report(told: dict[str, Any], rows: Sequence[dict[str, Any]], start: dict[str, float]) -> str:
    """The whole of it."""
    arms = by_arm(rows)
    arms = {name: arms[name] for name in told["arms"] if name in arms}
    sizes = {name: task["rows"] / task["batch"] for group in told["groups"] for name, task in told[group].items()}
    usual, changes = told["report"]["usual"], told["report"]["changes"]
    spread = [differences(arms, usual, name, "AVG-A") for name in arms if name != usual]
    least = [smallest(gaps) for gaps in spread if len(gaps) > 1]
    return (
        "\n".join(
            [
                f"# {told['report']['title']}",
                "",
                f"Made by `report.py` of the files in `{told['results']}/`. Means over seeds, ± half of the 95 % "
                "interval (Student's "
                "t). A seed decides which rows of the pool are trained on and how they are drawn; the "
                "start is the same.",
                "",
                "## What helps and what does not",
                "",
                "By AVG-A, the mean of abilities, seed against seed:",
                "",
                *verdicts(arms, changes),
                *(
                    [
                        f"The smallest effect on AVG-A that a comparison here sees in four of five cases: "
                        f"{min(least):.3f} "
                        f"to {max(least):.3f}, by the arm.",
                        "",
                    ]
                    if least
                    else []
                ),
                "## Abilities",
                "",
                *means(arms, start),
                "Chance is 0.23 on T, 0.1 on CMP, about 0.08 on PR and at most 0.05 on the others.",
                "",
                "## Differences, paired by seed",
                "",
                "Bold: the interval leaves 0 out. None is corrected for how many there are: of twenty "
                "that are nothing, "
                "one is bold.",
                "",
                *compared(arms, changes),
                "## What it cost",
                "",
                *costs(rows, list(arms), usual),
                *swallowed(rows, sizes),
                *scaling(rows, usual),
            ]
        ).rstrip("\n")
        + "\n"
    )


def plots(told: dict[str, Any], rows: Sequence[dict[str, Any]], output: Path) -> None:
    """The abilities by arm, or the changes; and, where there is a sweep, `scaling.svg`."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "reelspace"
    arms = by_arm(rows)
    if told["report"].get("shows") == "changes":
        figure = changes_drawn(arms, told["report"]["changes"])
    else:
        figure = abilities_drawn({name: arms[name] for name in told["arms"] if name in arms})
    figure.savefig(output / told["report"]["plot"], metadata={"Date": None})
    if told["report"].get("shows") != "changes" and len(fitted(rows, told["report"]["usual"])[0]) > 2:
        scaling_drawn(rows, told["report"]["usual"]).savefig(output / "scaling.svg", metadata={"Date": None})


ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False, "fontsize": "small"}
"""Where a legend hides nothing."""


def abilities_drawn(arms: dict[str, Scores]) -> Any:
    """Each arm's scores with their intervals."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(11, 4))
    for place, (name, scores) in enumerate(arms.items()):
        values = [[row[column] for row in scores.values()] for column in COLUMNS]
        x = np.arange(len(COLUMNS)) + (place - (len(arms) - 1) / 2) * 0.8 / len(arms)
        axis.errorbar(x, [np.mean(v) for v in values], [half(v) for v in values], fmt="o", markersize=3, label=name)
    axis.set_xticks(range(len(COLUMNS)), COLUMNS)
    axis.set_ylabel("score, 95 % interval over seeds")
    axis.grid(axis="y", alpha=0.3)
    axis.legend(**ABOVE, ncols=8)
    figure.tight_layout()
    return figure


def changes_drawn(arms: dict[str, Scores], changes: Changes) -> Any:
    """What each change makes of AVG-A: every seed, the mean and its interval."""
    from matplotlib import pyplot

    done = [(said, differences(arms, one, other, "AVG-A")) for one, other, said in changes if {one, other} <= set(arms)]
    figure, axis = pyplot.subplots(figsize=(9, 0.8 + 0.32 * len(done)))
    for place, (_, gaps) in enumerate(done):
        axis.plot(gaps, [place] * len(gaps), "|", color="C7")
        axis.errorbar(gaps.mean(), place, xerr=half(gaps), fmt="o", markersize=4, color="C0")
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(done)), [said for said, _ in done])
    axis.invert_yaxis()
    axis.set_xlabel("AVG-A: difference, 95 % interval over seeds; a stroke for each seed")
    axis.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    return figure


def scaling_drawn(rows: Sequence[dict[str, Any]], arm: str) -> Any:
    """Scores by the pairs shown, and what was fitted."""
    from matplotlib import pyplot

    parts, fits = fitted(rows, arm)
    pairs = [np.mean([r["pairs"] for r in rows if r["arm"] == arm and r["part"] == part]) for part in parts]
    figure, axis = pyplot.subplots(figsize=(8, 4.5))
    for colour, column in enumerate(("AVG-A", "CG", "S", "T", "PR", "LC", "CMP", "VIS")):
        middle, wide, slope, height = fits[column]
        beside = [x * 1.012 ** (colour - 3.5) for x in pairs]
        axis.errorbar(beside, middle, wide, fmt="o", markersize=3, label=column, color=f"C{colour}")
        axis.plot(pairs, [slope * log(x) + height for x in pairs], "--", linewidth=0.8, color=f"C{colour}")
    axis.set_xscale("log")
    axis.minorticks_off()
    axis.set_xticks(pairs, [f"{x:.0f}" for x in pairs])
    axis.set_xlabel("pairs shown")
    axis.set_ylabel("score, 95 % interval over seeds")
    axis.grid(alpha=0.3)
    axis.legend(**ABOVE, ncols=8)
    figure.tight_layout()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=Path, default=HERE / "ablation.toml")
    parser.add_argument("--plots", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    told = settings(asked.settings)
    folder = asked.results or HERE / told["results"]
    rows = found(folder)
    start = whole(json.loads((folder / "start.json").read_text("utf-8")))
    output = asked.output or HERE / told["report"]["file"]
    output.write_text(report(told, rows, start), "utf-8")
    if asked.plots:
        plots(told, rows, output.parent)


if __name__ == "__main__":
    main()
