"""The report's tables as Markdown and as LaTeX (booktabs): the best is bold, the second-best underlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from reelspace.uvrb.board import Difference, Entry
from reelspace.uvrb.findings import Quantity
from reelspace.uvrb.report import Report, marks
from reelspace.uvrb.statistics import METHODS

_LATEX = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}
_MARKDOWN = {"best": "**%s**", "second": "<u>%s</u>", "": "%s"}


def markdown(report: Report) -> str:
    """All tables of a report."""
    parts = [f"# {title(report)}", ""]
    for heading, columns in _tables(report):
        parts += [f"## {heading}", "", *_markdown_scores(report.rows, columns), *_chance(report, columns), ""]
    for name, other, differences in report.differences:
        parts += [f"## {_plain(name)} less {_plain(other)}", "", *_markdown_gaps(differences), ""]
    for finding in report.findings:
        parts += [f"## Finding {finding.title}", ""]
        for part in finding.parts:
            parts += [
                f"{part.question} **{part.verdict.capitalize()}.**",
                "",
                "| | over | n | Pearson | Spearman | the paper |",
                "|---|---|---:|---|---|---:|",
                *map(_markdown_quantity, part.quantities),
                "",
            ]
    return "\n".join([*parts, *(f"* {note}" for note in notes(report))]) + "\n"


def latex(report: Report) -> str:
    """The tables of scores and differences; they need the package booktabs."""
    parts = ["% Needs \\usepackage{booktabs}.", ""]
    for heading, columns in _tables(report):
        parts += [*_latex_scores(report.rows, columns, heading), ""]
    for name, other, differences in report.differences:
        parts += [*_latex_gaps(differences, f"{name} less {other}"), ""]
    return "\n".join(parts)


def data(report: Report) -> dict[str, Any]:
    """All numbers of a report, for a program."""
    return {
        "suite": report.suite,
        "models": [_model(report, row) for row in report.rows],
        "differences": [
            {"model": name, "against": other, **asdict(one), "significant": one.significant}
            for name, other, differences in report.differences
            for one in differences
        ],
        "correlations": [
            {"x": x, "y": y, **one._asdict()}
            for columns in (report.abilities, report.tasks)
            for method in METHODS
            if report.correlated
            for number, (x, line) in enumerate(zip(columns, report.matrix(columns, method), strict=True))
            for y, one in list(zip(columns, line, strict=True))[number + 1 :]
        ],
        "findings": [asdict(finding) for finding in report.findings],
        "notes": notes(report),
    }


def _model(report: Report, row: Entry) -> dict[str, Any]:
    columns = [*report.abilities, *report.tasks]
    return {
        "name": row.name,
        "published": row.published,
        "architecture": row.architecture,
        "parameters": row.parameters,
        "scores": {column: row.value(column) for column in columns},
        "intervals": {column: row.interval(column) for column in columns},
        "queries": {task: row.counts.get(task) for task in row.scores},
    }


def title(report: Report) -> str:
    """What the report is of."""
    runs = ", ".join(row.name for row in report.runs)
    names = {
        "uvrb": "UVRB",
        "worlds": "UVRB-Worlds",
        "classification": "Video classification",
        "text-video": "Text and video",
    }
    return f"{names[report.suite]}: {runs or 'the published models'}"


def notes(report: Report) -> list[str]:
    """What a reader should know of the numbers."""
    said = ["Intervals are of 95 %, over queries; 10,000 draws from a fixed seed."]
    if any(row.published for row in report.rows):
        said.append(
            "Of published models only the mean is known: their intervals are binomial, and a comparison with them is "
            "not paired, hence cautious. The paper's authors ran them; what the paper does not say of data and "
            "protocol may differ. Their abilities and averages are derived from their scores, as all others': the "
            "paper prints some otherwise (`reelspace uvrb audit`)."
        )
    if report.correlated:
        said.append(
            "Correlations take the models as drawn independently; many are relatives, so the intervals are too narrow."
        )
    if report.suite == "worlds":
        said.append("UVRB-Worlds is drawn by this package; its scores do not compare with published ones.")
    said += [f"{_plain(row.name)}: {note}." for row in report.rows for note in row.notes]
    return said


def spread(value: float | None, interval: tuple[float, float] | None, digits: int = 2) -> str:
    """A value and its interval; a dash where there is none."""
    if value is None:
        return "–"
    shown = _signed(value, digits)
    return shown if interval is None else f"{shown} [{_signed(interval[0], digits)}, {_signed(interval[1], digits)}]"


def p_shown(p: float) -> str:
    """A p-value; small ones as a bound."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def kind(difference: Difference) -> str:
    """How the queries of a difference were compared."""
    return "paired" if difference.paired else "not paired"


def _signed(value: float, digits: int) -> str:
    shown = f"{value:.{digits}f}"
    return shown.replace("-", "−") if float(shown) else shown.replace("-", "")


def _tables(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    tables = [("Abilities", report.abilities), ("Datasets", report.tasks)]
    return [(heading, columns) for heading, columns in tables if columns]


def _marked(rows: Sequence[Entry], columns: Sequence[str], styles: dict[str, str]) -> list[list[str]]:
    """The scores, marked; a row a model."""
    found = {column: marks(rows, column) for column in columns}
    return [
        [
            "–" if (value := row.value(column)) is None else styles[found[column].get(row.name, "")] % f"{value:.3f}"
            for column in columns
        ]
        for row in rows
    ]


def _markdown_scores(rows: Sequence[Entry], columns: Sequence[str]) -> list[str]:
    lines = [f"| model | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for row, cells in zip(rows, _marked(rows, columns, _MARKDOWN), strict=True):
        lines.append(f"| {_plain(row.name)} | {' | '.join(cells)} |")
    return lines


def _chance(report: Report, columns: Sequence[str]) -> list[str]:
    if not any(column in report.chance for column in columns):
        return []
    shown = [f"{report.chance[column]:.3f}" if column in report.chance else "" for column in columns]
    return [f"| *chance* | {' | '.join(shown)} |"]


def _markdown_gaps(differences: Sequence[Difference]) -> list[str]:
    lines = ["| | difference | p | p, all together | queries | |", "|---|---|---:|---:|---:|---|"]
    for one in differences:
        shown = spread(one.gap, one.interval, 3)
        shown = f"**{shown}**" if one.significant else shown
        lines.append(
            f"| {one.column} | {shown} | {p_shown(one.p)} | {p_shown(one.adjusted)} | {one.n:,} | {kind(one)} |"
        )
    return lines


def _markdown_quantity(one: Quantity) -> str:
    cells = (one.says, one.over, str(one.n), spread(*one.pearson), spread(*one.spearman), one.stated)
    return f"| {' | '.join(cells)} |"


def _latex_scores(rows: Sequence[Entry], columns: Sequence[str], heading: str) -> list[str]:
    body = [
        f"{_tex(row.name)} & {' & '.join(cell.replace('–', '--') for cell in cells)} \\\\"
        for row, cells in zip(rows, _marked(rows, columns, _LATEX), strict=True)
    ]
    return _latex_table(f"l{'r' * len(columns)}", ["Model", *map(_tex, columns)], body, heading)


def _latex_gaps(differences: Sequence[Difference], heading: str) -> list[str]:
    body = [
        f"{_tex(one.column)} & {_tex(spread(one.gap, one.interval, 3))} & {_tex(p_shown(one.adjusted))} & {one.n} \\\\"
        for one in differences
    ]
    return _latex_table("llrr", ["", "Difference", "$p$ (Holm)", "Queries"], body, heading)


def _latex_table(form: str, head: Sequence[str], body: Sequence[str], heading: str) -> list[str]:
    return [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(heading)}}}",
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        f"{' & '.join(head)} \\\\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "<": "$<$", ">": "$>$",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text)


def _plain(text: str) -> str:
    """A name that cannot end a table's cell."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
