"""`reelspace cut`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import JsonOption, clock, fail, print_json, say, shown_path
from reelspace.errors import ExitCode, ReelspaceError

if TYPE_CHECKING:
    from reelspace.item import Span


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("cut")(cut)


def cut(
    hits: Annotated[list[str] | None, typer.Argument(metavar="FILE@START-END", hidden=True)] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PATH", help="The new file, or a folder for one or more.")
    ] = ".",
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Hits that `search --json` printed; - is a pipe.")
    ] = None,
    rank: Annotated[list[int] | None, typer.Option(metavar="N", help="Of those, only the hit of this rank.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Begin and end on the very frames, by encoding again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
    json: JsonOption = False,
) -> None:
    """Cut moments out of videos into files of their own. The videos are never changed.

    Without --exact, packets are copied: fast and lossless, but the file begins at the key frame before the
    moment; where that is, is printed. With --exact, picture and sound are encoded again (H.264 and AAC; VP9 and
    Opus into .webm). The ending of a name chooses the container: .mp4, .mov, .mkv or .webm.

    \b
    Examples
      reelspace cut holiday.mp4@1:04.5-1:10 -o jump.mp4
      reelspace cut holiday.mp4@1:04.5-1:10 -o jump.mp4 --exact
      reelspace search "a goal" --json > goals.json
      reelspace cut --from goals.json --rank 1 -o best.mp4
      reelspace cut --from goals.json -o clips/
    """
    from reelspace.answers import json_path
    from reelspace.media.cut import cut as cut_out
    from reelspace.media.reader import Reader

    spans = _spans(hits or [], source, rank or [])
    targets = _targets(spans, output)
    made, failed = [], 0
    with Reader(workers=1) as reader:
        for span, target in zip(spans, targets, strict=True):
            try:
                done = cut_out(span, target, exact=exact, overwrite=force, reader=reader)
            except (ReelspaceError, OSError) as error:
                if len(spans) == 1:
                    raise
                failed += 1
                say(f"reelspace: {error}")
                continue
            begins = "" if abs(done.start - span.start) < 0.05 else f" (the key frame before {clock(span.start)})"
            say(f"{shown_path(done.path)}: {clock(done.start)}-{clock(done.end)}{begins}")
            path = json_path(str(done.path.absolute()))
            made.append({"path": path, "source": str(span), "start": done.start, "end": done.end})
    if json:
        print_json(made)
    raise typer.Exit(ExitCode.SOME_FAILED if failed else ExitCode.OK)


def _spans(hits: list[str], source: Path | None, ranks: list[int]) -> list[Span]:
    from reelspace.cli.report import read_report
    from reelspace.item import Span

    spans = [Span.parse(hit) for hit in hits]
    if source is not None:
        found = read_report(source).hits
        if missing := set(ranks) - {hit.rank for hit in found}:
            have = f"{found[0].rank} to {found[-1].rank}" if found else "none"
            raise fail(f"There is no hit of rank {min(missing)} in {source}; it has {have}.")
        spans += [Span(Path(hit.path), hit.start, hit.end) for hit in found if not ranks or hit.rank in ranks]
    elif ranks:
        raise fail("--rank chooses from hits; give them with --from FILE.")
    if not spans:
        raise fail("There is nothing to cut; give FILE@START-END, or hits with --from FILE.")
    return spans


def _targets(spans: list[Span], output: str) -> list[Path]:
    """One file a span: `output` itself, or names of their own in it where it is a folder."""
    from reelspace.media.cut import SUFFIXES, cut_name

    path = Path(output)
    if path.suffix.lower() in SUFFIXES and not path.is_dir() and not output.endswith("/"):
        if len(spans) > 1:
            raise fail(f"{output}: {len(spans)} moments do not fit in one file; give a folder: -o clips/")
        return [path]
    if path.suffix and not path.is_dir() and not output.endswith("/"):
        raise fail(f"{output}: cannot tell the container; let the name end in one of {' '.join(SUFFIXES)}.")
    path.mkdir(parents=True, exist_ok=True)
    numbers = [f"{number:02d} " if len(spans) > 1 else "" for number in range(1, len(spans) + 1)]
    return [path / (number + cut_name(span)) for number, span in zip(numbers, spans, strict=True)]
