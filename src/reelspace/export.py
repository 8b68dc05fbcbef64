"""Hits in the forms other programs read: JSON, CSV, OpenTimelineIO, an edit decision list (CMX 3600), M3U."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from reelspace.answers import Hit, SearchReport
from reelspace.errors import MediaError, ReelspaceError

FORMATS = ("json", "csv", "otio", "edl", "m3u")
RATES = tuple(
    Fraction(*rate)
    for rate in ((24000, 1001), (24, 1), (25, 1), (30000, 1001), (30, 1), (48, 1), (50, 1), (60000, 1001), (60, 1))
)
_DROP = {Fraction(30000, 1001): 2, Fraction(60000, 1001): 4}  # frame numbers left out each minute but the tenth
_NEAR = Fraction(1, 1000)  # rates written as 29.97 or measured are taken for the standard one within this


class ExportError(ReelspaceError):
    """Hits that cannot be said in the form asked for."""


def export(report: SearchReport, form: str, rate: Fraction | None = None) -> str:
    """The hits of a report in one of `FORMATS`.

    Args:
        report: an answer of `Library.search`, or what `reelspace search --json` printed.
        form: `json`, `csv`, `otio`, `edl` or `m3u`.
        rate: frames a second of the timeline, for `otio` and `edl`; `None` takes that of the videos.

    Raises:
        ExportError: no such form; or an EDL of videos whose rates differ or have no timecode.
        MediaError: a video that must tell its rate cannot be read.
    """
    if form not in _WRITERS:
        raise ExportError(f"“{form}” is no form of export; there are {', '.join(FORMATS)}.")
    return _WRITERS[form](report, rate)


def frame_rate(path: str | Path) -> Fraction | None:
    """Frames a second of a video with a constant rate, the standard rate where it is near one; else None.

    Raises:
        MediaError: the video cannot be read.
    """
    from reelspace.media.container import open_video
    from reelspace.media.files import regular

    container, stream = open_video(regular(Path(path)))
    with container:
        average, base = stream.average_rate, stream.base_rate
    if not average or not base or abs(average - base) > base / 200:
        return None
    return standard_rate(average)


def standard_rate(rate: Fraction | float) -> Fraction:
    """The rate itself, or the standard one it stands for: 29.97 → 30000/1001."""
    rate = Fraction(rate)
    nearest = min(RATES, key=lambda known: abs(known - rate))
    return nearest if abs(nearest - rate) <= rate * _NEAR else rate


def _json(report: SearchReport, rate: Fraction | None) -> str:
    return report.model_dump_json(indent=2) + "\n"


def _csv(report: SearchReport, rate: Fraction | None) -> str:
    """With a byte order mark, or spreadsheets misread what is not ASCII; and nothing that they take for a formula."""
    parts = sorted({part for hit in report.hits for part in hit.matched})
    out = io.StringIO()
    out.write("\ufeff")
    writer = csv.writer(out)
    writer.writerow(["rank", "path", "start", "end", "score", "video", *(_no_formula(f"matched {p}") for p in parts)])
    for hit in report.hits:
        matched = [hit.matched.get(part, "") for part in parts]
        writer.writerow([hit.rank, _no_formula(hit.path), hit.start, hit.end, hit.score, hit.video, *matched])
    return out.getvalue()


def _no_formula(cell: str) -> str:
    return "'" + cell if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _m3u(report: SearchReport, rate: Fraction | None) -> str:
    """VLC plays each hit from its start to its end; other players play the files."""
    lines = ["#EXTM3U"]
    for hit in report.hits:
        title = f"{hit.rank}. {_one_line(Path(hit.path).name)} {hit.start:g}-{hit.end:g} s"
        lines += [f"#EXTINF:{max(1, round(hit.end - hit.start))},{title}"]
        lines += [f"#EXTVLCOPT:start-time={hit.start:.3f}", f"#EXTVLCOPT:stop-time={hit.end:.3f}"]
        lines += [Path(hit.path).as_uri()]
    return "\n".join(lines) + "\n"


class _Event(NamedTuple):
    """A hit in whole frames of its timeline."""

    hit: Hit
    rate: Fraction
    start: int
    length: int


def _event(hit: Hit, rate: Fraction) -> _Event:
    start = round(Fraction(hit.start) * rate)
    return _Event(hit, rate, start, max(1, round(Fraction(hit.end) * rate) - start))


def _otio(report: SearchReport, rate: Fraction | None) -> str:
    """A timeline with the hits one after another, each in the rate of its own video; milliseconds where it has none."""
    rates = {path: rate or _rate_if_any(path) for path in dict.fromkeys(hit.path for hit in report.hits)}
    clips = [_clip(_event(hit, rates[hit.path]), report) for hit in report.hits]
    track = _otio_object("Track.1", name="hits", kind="Video", source_range=None, children=clips)
    stack = _otio_object("Stack.1", name="tracks", source_range=None, children=[track])
    timeline = _otio_object("Timeline.1", name=_title(report), global_start_time=None, tracks=stack)
    timeline["metadata"] = {"reelspace": report.model_dump(mode="json", exclude={"hits"})}
    return json.dumps(timeline, indent=2, ensure_ascii=False) + "\n"


def _rate_if_any(path: str) -> Fraction:
    try:
        return frame_rate(path) or Fraction(1000)
    except MediaError:
        return Fraction(1000)


def _clip(event: _Event, report: SearchReport) -> dict[str, object]:
    name = Path(event.hit.path).name
    media = _otio_object("ExternalReference.1", name=name, available_range=None, available_image_bounds=None)
    media["target_url"] = Path(event.hit.path).as_uri()
    clip = _otio_object(
        "Clip.2", name=name, source_range=_time_range(event), active_media_reference_key="DEFAULT_MEDIA"
    )
    clip["media_references"] = {"DEFAULT_MEDIA": media}
    clip["metadata"] = {"reelspace": event.hit.model_dump(mode="json")}
    return clip


def _time_range(event: _Event) -> dict[str, object]:
    start, duration = (
        {"OTIO_SCHEMA": "RationalTime.1", "rate": float(event.rate), "value": float(value)}
        for value in (event.start, event.length)
    )
    return {"OTIO_SCHEMA": "TimeRange.1", "start_time": start, "duration": duration}


def _otio_object(schema: str, **fields: object) -> dict[str, object]:
    common: dict[str, object] = {"OTIO_SCHEMA": schema, "metadata": {}}
    if schema.startswith(("Clip", "Track", "Stack")):
        common |= {"effects": [], "markers": [], "enabled": True}
    return common | fields


def _edl(report: SearchReport, rate: Fraction | None) -> str:
    """One event a hit, recorded one after another from 01:00:00:00; drop-frame where the rate has it."""
    rate = _timecode_rate(report.hits, rate)
    drop = rate in _DROP
    lines = [f"TITLE: {_title(report)[:70]}", f"FCM: {'DROP' if drop else 'NON-DROP'} FRAME"]
    record = _frame_of_hour(rate)
    for number, hit in enumerate(report.hits, start=1):
        event = _event(hit, rate)
        times = (event.start, event.start + event.length, record, record + event.length)
        lines += ["", f"{number:03d}  AX       V     C        {' '.join(timecode(t, rate) for t in times)}"]
        lines += [f"* FROM CLIP NAME: {_one_line(Path(hit.path).name)}", f"* SOURCE FILE: {_one_line(hit.path)}"]
        record += event.length
    return "\n".join(lines) + "\n"


def _timecode_rate(hits: Sequence[Hit], rate: Fraction | None) -> Fraction:
    """The one rate of an EDL, which can count only in whole standard rates."""
    if len(hits) > 999:
        raise ExportError(f"An EDL holds at most 999 events, not {len(hits)}; ask for fewer hits, or export as otio.")
    if rate is None:
        rates = {path: frame_rate(path) for path in dict.fromkeys(hit.path for hit in hits)}
        if len(set(rates.values())) > 1 or None in rates.values():
            shown = "; ".join(
                f"{Path(p).name} {'variable' if r is None else f'{float(r):.5g}'}" for p, r in rates.items()
            )
            raise ExportError(
                f"An EDL has one frame rate, and these have not ({shown}); choose it: --fps 25. Or export as otio."
            )
        rate = next(iter(rates.values()), None) or Fraction(25)
    rate = standard_rate(rate)
    if rate not in RATES:
        known = ", ".join(f"{float(r):.5g}" for r in RATES)
        raise ExportError(
            f"There is no timecode at {float(rate):.5g} frames a second; choose one of {known} with --fps."
        )
    return rate


def _frame_of_hour(rate: Fraction) -> int:
    """The frame whose timecode is 01:00:00:00."""
    return 3600 * round(rate) - 54 * _DROP.get(rate, 0)


def timecode(frame: int, rate: Fraction) -> str:
    """`HH:MM:SS:FF` of a frame, or `HH:MM:SS;FF` drop-frame at 29.97 and 59.94 (SMPTE ST 12-1).

    Drop-frame leaves out the first two (four) numbers of every minute but each tenth, and so keeps to the clock.
    """
    nominal = round(rate)
    dropped = _DROP.get(rate, 0)
    if dropped:
        tens, rest = divmod(frame, 600 * nominal - 9 * dropped)
        minutes = max(0, rest - dropped) // (60 * nominal - dropped)
        frame += dropped * (9 * tens + minutes)
    seconds, frames = divmod(frame, nominal)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{';' if dropped else ':'}{frames:02d}"


def _title(report: SearchReport) -> str:
    query = report.query
    return _one_line(" + ".join([*query.text, *(Path(p).name for p in (*query.image, *query.video))])) or "reelspace"


def _one_line(text: str) -> str:
    return "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)


_WRITERS: dict[str, Callable[[SearchReport, Fraction | None], str]] = {
    "json": _json,
    "csv": _csv,
    "otio": _otio,
    "edl": _edl,
    "m3u": _m3u,
}
