"""`reelspace export`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reelspace.cli.terminal import counted, fail, say, shown_path


class Form(StrEnum):
    """The forms of export, as `reelspace.export.FORMATS`."""

    json = "json"
    csv = "csv"
    otio = "otio"
    edl = "edl"
    m3u = "m3u"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("export")(export)


def export(
    source: Annotated[Path | None, typer.Argument(metavar="FILE", hidden=True)] = None,
    form: Annotated[
        Form | None, typer.Option("--format", help="Else told by the ending of the output's name.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Else standard output.", show_default=False)
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(min=1, metavar="RATE", help="Frames a second of the timeline; else that of the videos."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
) -> None:
    """Turn hits into a table, playlist or timeline.

    FILE is what `reelspace search --json` printed; without it, that is read from the pipe.

    \b
    Forms
      json  as it came, indented        otio  OpenTimelineIO, the hits one after another
      csv   for spreadsheets            edl   CMX 3600, which most editing programs read
      m3u   playlist; VLC plays the moments

    \b
    Examples
      reelspace search "a goal" --json | reelspace export --format csv
      reelspace search "a goal" --json | reelspace export -o goals.m3u
      reelspace export goals.json -o goals.edl --fps 25
    """
    from fractions import Fraction

    from reelspace.cli.report import read_report
    from reelspace.export import export as write
    from reelspace.export import standard_rate

    if form is None:
        ending = "" if output is None else output.suffix.lower().lstrip(".").replace("m3u8", "m3u")
        if ending not in Form.__members__:
            raise fail(f"Which form? Give --format, one of {', '.join(Form.__members__)}.")
        form = Form(ending)
    report = read_report(source)
    text = write(report, form.value, None if fps is None else standard_rate(Fraction(str(fps))))
    written = text.encode("utf-8", "surrogateescape")  # names of files may be no text
    if output is None:
        typer.echo(written, nl=False)
        return
    if output.exists() and not force:
        raise fail(f"{output}: is there already; choose another name, or replace it with --force.")
    output.write_bytes(written)
    say(f"{shown_path(output)}: {counted(len(report.hits), 'hit')}.")
