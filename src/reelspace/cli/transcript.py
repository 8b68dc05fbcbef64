"""`reelspace transcript`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reelspace.cli.terminal import LibraryOption, counted, fail, say, shown_path


class Form(StrEnum):
    """The forms of a transcript."""

    srt = "srt"
    vtt = "vtt"
    json = "json"


class Which(StrEnum):
    """The signals whose text can be had."""

    speech = "speech"
    ocr = "ocr"
    names = "names"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("transcript")(transcript)


def transcript(
    video: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    form: Annotated[
        Form | None, typer.Option("--format", help="Else told by the ending of the output's name.", show_default=False)
    ] = None,
    signal: Annotated[Which, typer.Option("--signal", help="What is said, written, or named.")] = Which.speech,
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Only lines in this language: en, de, …", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="Else standard output.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    library: LibraryOption = None,
) -> None:
    """Print what is said in a video, with its times.

    FILE is a video of the library, indexed with --signals speech (or ocr, or names).

    \b
    Forms
      srt   SubRip subtitles            json  everything known: words, sources, confidence
      vtt   WebVTT, for web pages

    \b
    Examples
      reelspace transcript talk.mp4 --format srt
      reelspace transcript talk.mp4 -o talk.vtt
      reelspace transcript talk.mp4 --signal ocr --format json
    """
    from reelspace.library import Library
    from reelspace.signals.transcript import transcript as write

    if form is None:
        ending = "" if output is None else output.suffix.lower().lstrip(".")
        if ending not in Form.__members__:
            raise fail(f"Which form? Give --format, one of {', '.join(Form.__members__)}.")
        form = Form(ending)
    with Library.open(library, create=False) as opened:
        report = opened.transcript(video, signal.value, language)
    text = report.model_dump_json(indent=2) + "\n" if form is Form.json else write(report.timed, form.value)
    if output is None:
        typer.echo(text.encode("utf-8", "surrogateescape"), nl=False)
        return
    if output.exists() and not force:
        raise fail(f"{output}: is there already; choose another name, or replace it with --force.")
    output.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
    say(f"{shown_path(output)}: {counted(len(report.lines), 'line')}.")
