"""`reelspace search`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.progress import judging
from reelspace.cli.terminal import (
    JsonOption,
    LibraryOption,
    clock,
    console,
    fail,
    print_json,
    print_table,
    printable,
    say,
    shown_path,
    table,
)
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.answers import Evidence, SearchReport
    from reelspace.index.searchable import Searchable
    from reelspace.item import Item


_QUOTED = 160  # characters shown of a text
_ROOMY = 90  # columns from which a table says what matched


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("search")(search)


def search(
    words: Annotated[list[str] | None, typer.Argument(metavar="WORDS", hidden=True)] = None,
    text: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="A further text to match.")] = None,
    image: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A picture to match.")] = None,
    video: Annotated[
        list[str] | None, typer.Option(metavar="FILE[@START-END]", help="A clip, or a stretch of one, to match.")
    ] = None,
    without: Annotated[list[str] | None, typer.Option("--not", metavar="TEXT", help="What it should not be.")] = None,
    without_image: Annotated[
        list[Path] | None, typer.Option("--not-image", metavar="FILE", help="A picture it should not be like.")
    ] = None,
    without_video: Annotated[
        list[str] | None, typer.Option("--not-video", metavar="FILE[@START-END]", help="A clip it should not be like.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Moments a page.", show_default=True)] = 10,
    page: Annotated[int, typer.Option(min=1, metavar="N", help="Which page of the ranking.", show_default=True)] = 1,
    per_video: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most moments of one video.")] = None,
    within: Annotated[
        list[str] | None, typer.Option("--in", metavar="GLOB", help="Only videos whose path matches.")
    ] = None,
    min_duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only videos that run at least this long: 90 or 1:30.")
    ] = None,
    max_duration: Annotated[str | None, typer.Option(metavar="TIME", help="… at most this long.")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only videos of this day or later: 2024-05-31.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Only videos from before this day.")] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Search only by these: seen, said, written, named; else by all there are."),
    ] = None,
    instruction: Annotated[str | None, typer.Option(metavar="TEXT", help="For models that take one.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Search with this model, not the active one.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Search what was pushed there; no library is needed here. See push."),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Have a model that sees query and moment together order the best anew."),
    ] = None,
    rerank_k: Annotated[int, typer.Option(min=1, metavar="N", help="How many it looks at.", show_default=True)] = 10,
    fuse_with: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Ask the vectors of this model, too, and fuse both rankings."),
    ] = None,
    play: Annotated[bool, typer.Option("--open", help="Open the first hit, at its moment, in a player.")] = False,
    library: LibraryOption = None,
    json: JsonOption = False,
) -> None:
    """Find moments by words, pictures, clips, or any mix of them.

    WORDS are one text, quoted or not. Every part given counts; --not pushes away. A score ranks, it is no
    probability. When nothing fits, it says so and lists the nearest there is.

    \b
    Examples
      reelspace search "a dog jumps into a pool"
      reelspace search --image beach.jpg --not "at night"
      reelspace search --video clip.mp4@10-14.5 -k 20 --per-video 1
      reelspace search "the same place in winter" --image house.jpg
      reelspace search crowd --in "2024/*.mp4" --min-duration 1:00 --after 2024-05-31
      reelspace search "the part about pricing" --by said,written
      reelspace search '"terms and conditions"'         exactly these words
      reelspace search "a goal" --store qdrant://db.example/films
      reelspace search "she waves, then sits down" --rerank MODEL --rerank-k 20
      reelspace search "a red kite" --fuse-with OTHER-MODEL
      reelspace search "a goal" --open
      reelspace search "a goal" --json | reelspace export --format edl -o goals.edl
    """
    from reelspace.item import Item, parse_seconds

    texts = [" ".join(words), *(text or ())] if words else list(text or ())
    for word in filter(os.path.isfile, words or ()):
        say(f"“{word}” is taken as words; to ask with the file itself: --image {word} or --video {word}")
    query = compose(texts, list(image or ()), list(video or ()))
    if not query:
        raise fail('Nothing is asked: give words, --image FILE or --video FILE, as in: reelspace search "a red car"')
    avoid: list[str | Item] = [*(without or ())]
    avoid += [Item(image=one) for one in without_image or ()] + [Item(video=one) for one in without_video or ()]
    least, most = (None if one is None else parse_seconds(one) for one in (min_duration, max_duration))
    with _place(library, model, store) as opened:
        report = opened.search(
            query,
            without=avoid,
            k=k,
            page=page,
            per_video=per_video,
            within=within or (),
            duration=(least, most),
            dated=(_day(after, "--after"), _day(before, "--before")),
            instruction=instruction,
            fuse_with=fuse_with or (),
            rerank=rerank,
            rerank_k=rerank_k,
            progress=judging(),
            by=by,
        )
    if json:
        print_json(report)
    else:
        show(report, page)
    failed = report.rerank.failed if report.rerank else []
    for reason in failed:
        say(f"not judged: {reason}", indent="  ")
    if play and report.hits:
        from reelspace.cli.play import play as open_player

        open_player(report.hits[0])
    raise typer.Exit(ExitCode.SOME_FAILED if failed else ExitCode.OK)


def _place(library: Path | None, model: str | None, store: str | None) -> Searchable:
    """Where to search."""
    if store is None:
        from reelspace.library import Library

        return Library.open(library, create=False, model=model)
    from reelspace.index.remote.library import RemoteLibrary

    if library is not None:
        raise fail("--library and --store name two places to search; give one of them.")
    opened = RemoteLibrary.open(store)
    if model not in (None, opened.model):
        with opened:
            raise fail(f"--store: it holds vectors of {opened.model}, not of {model}.")
    return opened


def compose(texts: list[str], images: list[Path], videos: list[str]) -> list[Item]:
    """The first text, image and video are one composed item, the second ones the next, and so on."""
    from itertools import zip_longest

    from reelspace.item import Item

    return [Item(*parts) for parts in zip_longest(texts, images, videos)]


def _day(text: str | None, option: str) -> float | None:
    """Unix seconds of the local midnight (or the minute) that `text` names."""
    from datetime import datetime

    try:
        return None if text is None else datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise fail(f"{option}: “{text}” is not a date; write 2024-05-31, or 2024-05-31T18:30.") from None


def quote(found: Evidence) -> str:
    """What was said, written or named, in one line: `said 0:04.2: “…” (talk.srt)`."""
    text = printable(" ".join((found.text or "").split()))
    short = text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1].rsplit(' ', 1)[0]} …"
    doubt = ", unsure" if found.unsure else ""
    return f"{found.by} {clock(found.start)}: “{short}” ({printable(found.source or '')}{doubt})"


def show(report: SearchReport, page: int) -> None:
    """The table of hits, and what a person should know about it."""
    if not report.hits:
        empty = "No video is left to search in; see what is indexed: reelspace status"
        if report.by != ["seen"]:
            empty = "Nothing fits these words."
        say("No more hits." if page > 1 else empty)
        return
    if report.match is False:
        typer.echo("Nothing fits. The nearest there is:")
    several = len({part for hit in report.hits for part in hit.matched}) > 1 and console().width >= _ROOMY
    judged = any(hit.judged is not None for hit in report.hits)
    more = report.by != ["seen"]
    between = [*(["matched"] if several else []), *(["by"] if more else [])]
    columns = ["", "time", *(["judged"] if judged else []), "score", *between, "video"]
    made = table(*columns, right=("", "time", "judged", "score"))
    for hit in report.hits:
        matched = " ".join(f"{part} {score:.2f}" for part, score in hit.matched.items())
        time = f"{clock(hit.start)}-{clock(hit.end)}"
        copies = f" (and {len(hit.copies)} {'copy' if len(hit.copies) == 1 else 'copies'})" if hit.copies else ""
        second = ["" if hit.judged is None else f"{hit.judged:.3f}"] if judged else []
        told = [*([matched] if several else []), *([", ".join(one.by for one in hit.found)] if more else [])]
        words = "".join(f"\n{quote(one)}" for one in hit.found if one.text)
        score, path = f"{hit.score:.3f}", shown_path(hit.path) + copies + words
        made.add_row(str(hit.rank), time, *second, score, *told, path)
    print_table(made)
    if report.match is None:
        say(f"{report.model} is not calibrated for this kind of query: it cannot tell whether anything fits.")
