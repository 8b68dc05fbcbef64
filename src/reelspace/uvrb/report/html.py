"""The report as one HTML page that needs nothing else: styles and pictures are in it, and no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from reelspace.uvrb.board import Difference, Entry
from reelspace.uvrb.findings import Part
from reelspace.uvrb.report import Report, marks
from reelspace.uvrb.report.svg import Bar, Square, differences, heat, radar, signed, unsigned
from reelspace.uvrb.report.text import kind, notes, p_shown, spread, title
from reelspace.uvrb.statistics import METHODS, Correlation
from reelspace.uvrb.tasks import ABILITIES, suite


def page(report: Report) -> str:
    """The whole page."""
    sections = [
        _overview(report),
        _scores(report, "abilities", "Abilities", report.abilities),
        _radar(report),
        _scores(report, "datasets", "Datasets", report.tasks),
        *_differences(report),
        _models_map(report),
        *_correlations(report),
        *_findings(report),
        _notes(report),
    ]
    style = resources.files(__package__).joinpath("page.css").read_text("utf-8")
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title(report))}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
    )
    return f"{head}<main>\n{''.join(filter(None, sections))}</main>\n</body>\n</html>\n"


def _overview(report: Report) -> str:
    rows = []
    for row in report.rows:
        n = sum(row.counts.get(task, 0) for task in row.scores)
        manifest = row.results.manifest if row.results else {}
        frames = (manifest.get("protocol") or {}).get("frames") or (manifest.get("model") or {}).get("sampling") or ""
        parameters = _count(row.parameters) if row.parameters else ""
        where = "published" if row.published else "run here"
        cells = [row.architecture or "", parameters, where, f"{len(row.scores)}", f"{n:,}" if n else "", str(frames)]
        rows.append((row, [_cell(cell) for cell in cells]))
    table = _table(["model", "kind", "parameters", "", "tasks", "queries", "frames"], rows)
    runs = f"{len(report.runs)} run here, " if report.runs else ""
    lead = f"<p>{len(report.rows)} models: {runs}{len(report.rows) - len(report.runs)} published.</p>"
    models = f"<details><summary>The models</summary>{table}</details>"
    return f"<header><h1>{escape(title(report))}</h1>{lead}</header>\n{models}\n"


def _count(number: float) -> str:
    return f"{number / 1e9:.1f}B" if number >= 1e8 else f"{number / 1e6:.0f}M"


def _scores(report: Report, key: str, heading: str, columns: Sequence[str]) -> str:
    if not columns:
        return ""
    found = {column: marks(report.rows, column) for column in columns}
    rows: list[tuple[Entry | None, list[str]]] = []
    for row in report.rows:
        cells = []
        for column in columns:
            value, mark = row.value(column), found[column].get(row.name, "")
            cells.append(_score(row, column, value, mark))
        rows.append((row, cells))
    if known := [name for name in columns if name in report.chance]:
        cells = [_cell(f"{report.chance[name]:.3f}" if name in known else "", "none") for name in columns]
        rows.append((None, ['<th scope="row" class="none">chance</th>', *cells]))
    legend = (
        '<p class="legend"><b class="best">Best</b> and <span class="second">second-best</span> of each column. '
        "Below the scores of a model that was run here, and when pointed at for the others: 95 % intervals.</p>"
    )
    table = _table(["model", *columns], rows, _hints(report, columns))
    return f'<section id="{key}"><h2>{heading}</h2>{legend}{table}</section>\n'


def _score(row: Entry, column: str, value: float | None, mark: str) -> str:
    if value is None:
        return '<td class="none">–</td>'
    shown = {"best": f'<b class="best">{value:.3f}</b>', "second": f'<span class="second">{value:.3f}</span>'}.get(
        mark, f"{value:.3f}"
    )
    interval = row.interval(column)
    if interval is None:
        return f"<td>{shown}</td>"
    span = f"{interval.low:.3f}–{interval.high:.3f}"
    below = "" if row.published else f"<small>{span}</small>"
    return f'<td title="{span}">{shown}{below}</td>'


def _hints(report: Report, columns: Sequence[str]) -> dict[str, str]:
    """What a column is, for its heading."""
    tasks = suite(report.suite)
    hints = {name: f"{task.dataset}, {task.metric}" for name, task in tasks.items() if name in columns}
    return hints | {name: _ABILITIES[name] for name in columns if name in _ABILITIES}


_ABILITIES = {
    "AVG-D": "mean of all datasets",
    "AVG-A": "mean of TXT, CMP, VIS, CG, FG, LC",
    "TXT": "asked with text",
    "CMP": "asked with text and a picture or clip",
    "VIS": "asked with a picture or clip",
    "CG": "coarse-grained",
    "FG": "fine-grained: S, T, PR",
    "LC": "long context",
    "S": "space",
    "T": "time",
    "PR": "partially relevant",
}


def _radar(report: Report) -> str:
    axes = [name for name in ABILITIES if name in report.abilities]
    if len(axes) < 3:
        return ""
    lines = [(row.name, [row.value(name) for name in axes]) for row in report.shown]
    named = "".join(
        f'<li class="line{number}"><svg viewBox="0 0 28 12" aria-hidden="true">'
        '<line class="line" x1="0" y1="6" x2="28" y2="6"/>'
        f'<circle class="dot" cx="14" cy="6" r="3.2"/></svg>{escape(name)}</li>'
        for number, (name, _) in enumerate(lines)
    )
    drawn = radar(axes, lines, f"Abilities of {', '.join(name for name, _ in lines)}")
    figure = f'<div class="figure">{drawn}<ul class="key">{named}</ul></div>'
    return f'<section id="radar"><h2>Shape of the abilities</h2>{figure}</section>\n'


def _differences(report: Report) -> Iterable[str]:
    for number, (name, other, found) in enumerate(report.differences):
        bars = [Bar(one.column, one.gap, *one.interval, one.significant, _hint(one)) for one in found]
        rows = [
            (
                None,
                [
                    f'<th scope="row">{escape(one.column)}</th>',
                    _cell(spread(one.gap, one.interval, 3), "strong" if one.significant else ""),
                    _cell(p_shown(one.p)),
                    _cell("" if one.exact is None else p_shown(one.exact)),
                    _cell(p_shown(one.adjusted)),
                    _cell(f"{one.n:,}"),
                    _cell(kind(one)),
                ],
            )
            for one in found
        ]
        table = _table(["", "difference", "p", "p, exact", "p, all together", "queries", ""], rows)
        lead = (
            f"<p>{escape(name)} less {escape(other)}, with 95 % intervals. A filled point is more than chance when all "
            "abilities, or all datasets, are looked at together (Holm). The width of an interval says what that many "
            "queries can tell apart.</p>"
        )
        yield (
            f'<section id="difference{number}"><h2>{escape(name)} against {escape(other)}</h2>{lead}'
            f'<div class="scroll">{differences(bars, f"{name} less {other}")}</div>'
            f"<details><summary>The numbers</summary>{table}</details></section>\n"
        )


def _hint(one: Difference) -> str:
    return (
        f"{one.column}: {spread(one.gap, one.interval, 3)}, p {p_shown(one.adjusted)}, {one.n:,} queries, {kind(one)}"
    )


def _models_map(report: Report) -> str:
    columns = [*report.abilities, *report.tasks]
    squares = [
        [
            Square(
                unsigned(value),
                _short(value),
                f"{row.name}, {column}: {_of(value)}",
            )
            for column in columns
            for value in [row.value(column)]
        ]
        for row in report.rows
    ]
    drawn = heat([row.name for row in report.rows], columns, squares, "Scores of models")
    return f'<section id="map"><h2>All scores</h2><div class="scroll">{drawn}</div></section>\n'


def _of(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _correlations(report: Report) -> Iterable[str]:
    if not report.correlated:
        return
    lead = (
        f"<p>Over {len(report.rows)} models, or those that have both columns. Point at a field for its interval "
        "and its n.</p>"
    )
    yield f'<section id="correlations"><h2>What goes with what</h2>{lead}'
    for heading, columns in (("Abilities", report.abilities), ("Datasets", report.tasks)):
        if len(columns) > 1:
            for method in METHODS:
                yield _matrix(f"{heading}, {method.capitalize()}", columns, report.matrix(columns, method))
    yield "</section>\n"


def _matrix(heading: str, columns: Sequence[str], matrix: Sequence[Sequence[Correlation]]) -> str:
    squares = [
        [
            Square(
                signed(one.value),
                _short(one.value),
                f"{x}, {y}: {spread(one.value, one.interval)}, n={one.n}",
            )
            for y, one in zip(columns, line, strict=True)
        ]
        for x, line in zip(columns, matrix, strict=True)
    ]
    return f'<h3>{escape(heading)}</h3><div class="scroll">{heat(columns, columns, squares, heading)}</div>'


def _short(value: float | None) -> str:
    """Two digits, without the 0 before the point: `.07`, `−.42`, `1.00`."""
    if value is None:
        return ""
    shown = f"{abs(value):.2f}"
    return ("−" if value < 0 and float(shown) else "") + shown.removeprefix("0")


def _findings(report: Report) -> Iterable[str]:
    if not report.findings:
        return
    yield (
        '<section id="findings"><h2>The paper’s findings, of these models</h2><p>A verdict is drawn from intervals '
        "alone: where they allow both, it cannot be told.</p>"
    )
    for finding in report.findings:
        yield f"<h3>{escape(finding.title)}</h3>"
        for part in finding.parts:
            yield _part(part)
    yield "</section>\n"


def _part(part: Part) -> str:
    rows = [
        (
            None,
            [
                f'<th scope="row">{escape(one.says)}</th>',
                _cell(one.over, "words"),
                _cell(f"{one.n}"),
                _cell(spread(*one.pearson)),
                _cell(spread(*one.spearman)),
                _cell(one.stated.replace("-", "−")),
            ],
        )
        for one in part.quantities
    ]
    verdict = part.verdict.replace(" ", "-")
    return (
        f'<p class="question">{escape(part.question)} <span class="verdict {verdict}">{part.verdict}</span></p>'
        + _table(["", "over", "n", "Pearson", "Spearman", "the paper"], rows)
    )


def _notes(report: Report) -> str:
    return (
        '<section id="notes"><h2>Notes</h2><ul>'
        + "".join(f"<li>{escape(note)}</li>" for note in notes(report))
        + "</ul></section>\n"
    )


def _cell(text: str, style: str = "") -> str:
    return f'<td class="{style}">{escape(text)}</td>' if style else f"<td>{escape(text)}</td>"


def _table(
    head: Sequence[str], rows: Sequence[tuple[Entry | None, Sequence[str]]], hints: dict[str, str] | None = None
) -> str:
    """A table that scrolls in its own frame; rows of models that were run here stand out."""
    heads = "".join(
        f'<th scope="col" title="{escape(hint)}">{escape(name)}</th>'
        if (hint := (hints or {}).get(name))
        else f'<th scope="col">{escape(name)}</th>'
        for name in head
    )
    lines = []
    for row, cells in rows:
        style = ' class="run"' if row is not None and not row.published else ""
        first = "" if row is None else f'<th scope="row">{escape(row.name)}</th>'
        lines.append(f"<tr{style}>{first}{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
