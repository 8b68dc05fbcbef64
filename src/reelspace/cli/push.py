"""`reelspace push`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import JsonOption, LibraryOption, counted, fail, print_json, say
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.answers import PushReport


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("push")(push)


def push(
    store: Annotated[str, typer.Argument(metavar="URL", hidden=True)],
    approximate: Annotated[
        bool | None,
        typer.Option(
            "--approximate/--exact",
            help="Have the server build an index for approximate search from now on, or search through all vectors.",
        ),
    ] = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Compare with all that is there; do not trust what the last push noted.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Push this model's vectors, not the active one's.")
    ] = None,
    library: LibraryOption = None,
    json: JsonOption = False,
) -> None:
    """Bring a vector database in step with the library.

    Other machines can then search it. URL is qdrant://HOST[:PORT]/COLLECTION[?tls=true] or
    postgresql://HOST/DATABASE[?collection=NAME], the latter with the extension pgvector. Keys and passwords come
    from $QDRANT_API_KEY, $PGPASSWORD and the like, or stand in the URL. Only what has changed travels; a push that was
    ended goes on when it is run again.

    \b
    Examples
      reelspace push qdrant://db.example/films
      reelspace push "postgresql://me@db.example/video?collection=films"
      reelspace search "a red car" --store qdrant://db.example/films
    """
    from reelspace.cli.progress import pushed
    from reelspace.library import Library

    with Library.open(library, create=False, model=model) as opened:
        try:
            with pushed() as progress:
                report = opened.push(store, approximate, recheck, progress)
        except KeyboardInterrupt:
            raise fail(
                "Interrupted. What has arrived stays; run the same command again to go on.", ExitCode.INTERRUPTED
            ) from None
    if json:
        print_json(report)
    _summary(report)


def _summary(report: PushReport) -> None:
    counts = {"added": report.added, "updated": report.updated, "removed": report.removed}
    done = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number) or "nothing new"
    how = " Searches are approximate." if report.approximate else ""
    say(f"{report.store} holds {counted(report.windows, 'window')} of {report.model}: {done}.{how}")
