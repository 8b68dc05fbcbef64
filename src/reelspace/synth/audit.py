"""A page to look at: the funnel with its counts, and samples of what was kept and what was not beside their frames.

One HTML file that needs nothing else: pictures are in it, nothing is loaded, nothing is run.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from reelspace.errors import MediaError
from reelspace.item import Span
from reelspace.media.policy import Centres, Sampling, Uniform
from reelspace.media.reader import Reader
from reelspace.media.thumbnails import jpeg
from reelspace.synth import schema
from reelspace.synth.card import stats
from reelspace.synth.schema import Clip, Part, Picture, Rejection, Row
from reelspace.synth.shards import write_text
from reelspace.worlds.sample import generator

EDGE = 96
FRAMES = 4

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --kept: #2a7d4f; --lost: #b3452f; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { font-weight: 600; line-height: 1.2; }
h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.bar { background: var(--line); width: 18rem; height: .8rem; }
.bar div { background: var(--kept); height: 100%; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(26rem, 1fr)); gap: 1rem; }
.card { border: 1px solid var(--line); border-left: 4px solid var(--kept); border-radius: 4px; }
.card { padding: .6rem .8rem; overflow-wrap: anywhere; }
.card.lost { border-left-color: var(--lost); }
.card p { margin: .3rem 0; }
.card img { height: 72px; margin: 0 2px 2px 0; }
.small { font-size: 12px; opacity: .75; }
.reason { color: var(--lost); font-weight: 600; }
nav a { margin-right: 1rem; }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class _Pictures:
    """Frames as data URLs, each decoded once."""

    def __init__(self, root: Path, reader: Reader) -> None:
        self._root, self._reader = root, reader
        self._made: dict[str, str] = {}

    def html(self, shown: Clip | Picture | None) -> str:
        """The frames of a clip, or a picture; a note where they cannot be read."""
        if shown is None:
            return ""
        key = repr(shown)
        if key not in self._made:
            self._made[key] = self._draw(shown)
        return self._made[key]

    def _draw(self, shown: Clip | Picture) -> str:
        try:
            if isinstance(shown, Clip):
                span = Span(self._root / shown.path, shown.start, shown.end)
                frames = self._reader.sample(span, Sampling(Centres(FRAMES), EDGE))
                return "".join(map(_img, frames.pixels, [f"{time:.2f} s" for time in frames.times]))
            if shown.time is None:
                return _img(self._reader.image(self._root / shown.path), shown.path)
            span = Span(self._root / shown.path, shown.time)
            return _img(self._reader.sample(span, Sampling(Uniform(1), EDGE)).pixels[0], f"{shown.time:.2f} s")
        except MediaError as error:
            return f'<p class="small">{escape(str(error))}</p>'


def _img(pixels: Any, title: str) -> str:
    data = base64.b64encode(jpeg(pixels, EDGE)).decode()
    return f'<img src="data:image/jpeg;base64,{data}" title="{escape(title)}" alt="{escape(title)}">'


def page(folder: Path, each: int = 6, seed: int = 0) -> str:
    """The page of a dataset.

    Args:
        each: how many samples of every task, and of every reason to turn something down.
        seed: of the draw.

    Raises:
        ReelspaceError: there is no finished dataset.
    """
    figures = stats(folder)
    with Reader(workers=1) as reader:
        pictures = _Pictures(folder, reader)
        kept = {task: _drawn(schema.rows(folder, task), each, seed) for task in schema.tasks(folder)}
        lost: dict[str, list[Rejection]] = defaultdict(list)
        for rejection in schema.rejections(folder):
            lost[f"{rejection.stage} / {rejection.block}: {rejection.reason}"].append(rejection)
        parts = [
            f"<h1>{escape(str(figures['name']))}</h1>",
            f"<p>{figures['rows']:,} rows. Written by {_who(figures['mllm'])}, judged by {_who(figures['verifier'])}, "
            f"embedded by {escape(str(figures['embedder']))}; seed {figures['seed']}.</p>",
            '<nav><a href="#funnel">Funnel</a><a href="#kept">Kept</a><a href="#lost">Turned down</a></nav>',
            '<h2 id="funnel">Funnel</h2>',
            _funnel(figures["funnel"]),
            _tasks(figures["tasks"]),
            '<h2 id="kept">Kept</h2>',
            *(_section(f"{task}", [_row(row, pictures) for row in rows]) for task, rows in kept.items()),
            '<h2 id="lost">Turned down</h2>',
            *(
                _section(f"{reason} ({len(found)})", [_lost(one, pictures) for one in _drawn(found, each, seed)])
                for reason, found in sorted(lost.items())
            ),
        ]
    title = escape(f"{figures['name']}: audit")
    head = f'<meta charset="utf-8"><title>{title}</title><meta name="viewport" content="width=device-width">'
    head += f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def write(folder: Path, to: Path, each: int = 6, seed: int = 0) -> None:
    """Writes the page to a file."""
    write_text(page(folder, each, seed), to)


def _drawn(rows: Iterable[Any], each: int, seed: int) -> list[Any]:
    """Some of the rows, drawn alike however many there are; in their order."""
    kept: list[tuple[int, Any]] = []
    random = generator("audit", seed)
    for number, row in enumerate(rows):
        if len(kept) < each:
            kept.append((number, row))
        elif (place := int(random.integers(number + 1))) < each:
            kept[place] = (number, row)
    return [row for _, row in sorted(kept, key=lambda pair: pair[0])]


def _who(who: dict[str, str]) -> str:
    return escape(" ".join(filter(None, (who["kind"], who["model"], who["revision"]))))


def _funnel(lines: Sequence[dict[str, Any]]) -> str:
    most = max((line["out"] for line in lines), default=1) or 1
    rows = []
    for line in lines:
        lost = "" if line["block"] == "source" else line["out"] - line["in"]
        numbers = "".join(f'<td class="n">{value}</td>' for value in (f"{line['in']:,}", f"{line['out']:,}", lost))
        bar = f'<div class="bar"><div style="width:{100 * line["out"] / most:.1f}%"></div></div>'
        rows.append(f"<tr><td>{escape(line['step'])}</td><td>{escape(line['block'])}</td>{numbers}<td>{bar}</td></tr>")
    head = "<tr><th>step</th><th>block</th><th>videos in</th><th>out</th><th></th><th></th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _tasks(tasks: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{escape(task)}</td><td class="n">{data["rows"]:,}</td><td class="n">{data["negatives"]:,}</td></tr>'
        for task, data in tasks.items()
    )
    return f"<h3>Rows</h3><table><tr><th>task</th><th>rows</th><th>hard negatives</th></tr>{rows}</table>"


def _section(title: str, cards: Sequence[str]) -> str:
    return f'<h3>{escape(title)}</h3><div class="cards">{"".join(cards)}</div>'


def _part(part: Part, pictures: _Pictures) -> str:
    text = f"<p>{escape(part.text)}</p>" if part.text else ""
    return pictures.html(part.image) + pictures.html(part.clip) + text


def _row(row: Row, pictures: _Pictures) -> str:
    from_ = row.provenance
    words = (from_.style, from_.profile, from_.relation, from_.readability, from_.education, from_.model)
    scores = ", ".join(f"{name} {value:g}" for name, value in from_.scores.items())
    negatives = "".join(
        f'<p class="small">hard negative, {negative.score:g}</p>{_part(negative.part, pictures)}'
        for negative in row.negatives
    )
    told = f"{escape(from_.source)} · {escape(', '.join(filter(None, words)))} {escape(scores)}"
    asked, answer = _part(row.query, pictures), _part(row.candidate, pictures)
    return f'<div class="card">{asked}<p class="small">→</p>{answer}{negatives}<p class="small">{told}</p></div>'


def _lost(found: Rejection, pictures: _Pictures) -> str:
    value = "" if found.value is None else f" {found.value:g}"
    return (
        f'<div class="card lost">{pictures.html(found.image)}{pictures.html(found.clip)}<p>{escape(found.text)}</p>'
        f'<p><span class="reason">{escape(found.reason)}{value}</span> <span class="small">{escape(found.detail)} · '
        f"{escape(found.id)}</span></p></div>"
    )
