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
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; }
td.why { font-size: 12px; max-width: 26rem; min-width: 9rem; }
.bar { background: var(--line); width: clamp(3rem, 20vw, 16rem); height: .8rem; margin-top: .3rem; }
.bar div { background: var(--kept); height: 100%; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
.card { border: 1px solid var(--line); border-left: 4px solid var(--kept); border-radius: 4px; }
.card { padding: .6rem .8rem; overflow-wrap: anywhere; }
.card.lost { border-left-color: var(--lost); }
.card p { margin: .3rem 0; }
.card img { height: 72px; margin: 0 2px 2px 0; vertical-align: top; }
.card .said { max-height: 12rem; overflow-y: auto; }
.small { font-size: 12px; opacity: .75; }
.reason { color: var(--lost); font-weight: 600; }
nav a { margin-right: 1rem; }
@media (max-width: 40rem) { .drawn { display: none; } }
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
        videos = _videos(folder)
        lost: dict[str, list[Rejection]] = defaultdict(list)
        for rejection in schema.rejections(folder):
            lost[f"{rejection.stage} / {rejection.block}: {rejection.reason}"].append(rejection)
        parts = [
            f"<h1>{escape(str(figures['name']))}</h1>",
            f"<p>{figures['rows']:,} rows. Written by {_who(figures['mllm'])}, judged by {_who(figures['verifier'])}, "
            f"embedded by {escape(str(figures['embedder']))}; seed {figures['seed']}.</p>",
            '<nav><a href="#funnel">Funnel</a><a href="#kept">Kept</a><a href="#lost">Turned down</a></nav>',
            '<h2 id="funnel">Funnel</h2>',
            _funnel(figures["funnel"], figures["rejected"]),
            _tasks(figures["tasks"]),
            '<h2 id="kept">Kept</h2>',
            *(_section(f"{task}", [_row(row, videos, pictures) for row in rows]) for task, rows in kept.items()),
            '<h2 id="lost">Turned down</h2>',
            *(
                _section(
                    f"{reason} ({len(found)})", [_lost(one, videos, pictures) for one in _drawn(found, each, seed)]
                )
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


def _videos(folder: Path) -> dict[str, Clip]:
    """Id of a raw pair → its video, of those that rows lead to: to be shown where a text alone is kept of it."""
    found: dict[str, Clip] = {}
    for task in schema.tasks(folder):
        if task.endswith("2V"):
            found |= {
                row.provenance.source: row.candidate.clip for row in schema.rows(folder, task) if row.candidate.clip
            }
    return found


def _who(who: dict[str, str]) -> str:
    return escape(" ".join(filter(None, (who["kind"], who["model"], who["revision"]))))


def _funnel(lines: Sequence[dict[str, Any]], rejected: dict[str, dict[str, int]]) -> str:
    """Videos in and out, block by block; and what was turned down, videos and single texts, by reason."""
    most = max((line["out"] for line in lines), default=1) or 1
    told = {(line["step"], line["block"]): line for line in lines}
    names = list(told)
    for name in ((step, block) for step, _, block in (name.partition("/") for name in rejected)):
        if name not in told:  # such as the rules, which are no block: after what they were applied in
            names.insert(next((k + 1 for k, (step, _) in enumerate(names) if step == name[0]), 0), name)
    rows = []
    for step, block in names:
        line = told.get((step, block))
        why = ", ".join(f"{reason} {count:,}" for reason, count in rejected.get(f"{step}/{block}", {}).items())
        cells, bar = ["", "", ""], ""
        if line is not None:
            lost = line["in"] - line["out"]
            first = block == "source"
            cells = ["" if first else f"{line['in']:,}", f"{line['out']:,}", f"−{lost:,}" if lost > 0 else ""]
            bar = f'<div class="bar"><div style="width:{100 * line["out"] / most:.1f}%"></div></div>'
        numbers = "".join(f'<td class="n">{cell}</td>' for cell in cells)
        rows.append(
            f'<tr><td>{escape(step)}</td><td>{escape(block)}</td>{numbers}<td class="drawn">{bar}</td>'
            f'<td class="why">{escape(why)}</td></tr>'
        )
    numbers = "".join(f'<th class="n">{name}</th>' for name in ("in", "out", "lost"))
    ends = '<th class="drawn">videos</th><th>turned down: videos and texts</th>'
    head = f"<tr><th>step</th><th>block</th>{numbers}{ends}</tr>"
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _tasks(tasks: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{escape(task)}</td><td class="n">{data["rows"]:,}</td><td class="n">{data["negatives"]:,}</td></tr>'
        for task, data in tasks.items()
    )
    head = '<tr><th>task</th><th class="n">rows</th><th class="n">hard negatives</th></tr>'
    return f"<h3>Rows</h3><table>{head}{rows}</table>"


def _section(title: str, cards: Sequence[str]) -> str:
    return f'<h3>{escape(title)}</h3><div class="cards">{"".join(cards)}</div>'


def _part(part: Part, pictures: _Pictures) -> str:
    text = f"<p>{escape(part.text)}</p>" if part.text else ""
    return pictures.html(part.image) + pictures.html(part.clip) + text


def _note(text: str) -> str:
    return f'<p class="small">{escape(text)}</p>'


def _row(row: Row, videos: dict[str, Clip], pictures: _Pictures) -> str:
    from_ = row.provenance
    words = (from_.style, from_.profile, from_.relation, from_.readability, from_.education, from_.model)
    scores = ", ".join(f"{name} {value:g}" for name, value in from_.scores.items())
    asked = _note("query") + _part(row.query, pictures) + _note("target") + _part(row.candidate, pictures)
    for negative in row.negatives:
        asked += _note(f"hard negative, {negative.score:g}") + _part(negative.part, pictures)
    if not (row.candidate.clip or row.candidate.image):
        asked += _note("both of") + pictures.html(videos.get(from_.source))
    told = " · ".join(filter(None, (from_.source, ", ".join(filter(None, words)), scores)))
    return f'<div class="card">{asked}{_note(told)}</div>'


def _lost(found: Rejection, videos: dict[str, Clip], pictures: _Pictures) -> str:
    shown = pictures.html(found.image) + pictures.html(found.clip)
    video = videos.get(found.id)
    if video is not None and found.stage in ("enrich", "extend") and found.clip != video:
        if found.stage == "extend":
            shown = _note("reference") + shown
        shown += _note("of" if found.stage == "enrich" else "target") + pictures.html(video)
    value = "" if found.value is None else f" {found.value:g}"
    reason = f'<span class="reason">{escape(found.reason)}{value}</span>'
    told = f'<span class="small">{escape(" · ".join(filter(None, (found.detail, found.id))))}</span>'
    return f'<div class="card lost">{shown}<p class="said">{escape(found.text)}</p><p>{reason} {told}</p></div>'
