"""`reelspace remove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reelspace.cli.terminal import JsonOption, LibraryOption, counted, fail, print_json, say


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("remove")(remove)


def remove(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", hidden=True)],
    library: LibraryOption = None,
    json: JsonOption = False,
) -> None:
    """Forget files, and all below folders. The files themselves are not touched.

    \b
    Examples
      reelspace remove ~/Videos/old
      reelspace remove ~/Videos/a.mp4 ~/Videos/b.mp4
    """
    from reelspace.library import Library

    with Library.open(library, create=False) as opened:
        number = opened.remove(*paths)
    if json:
        print_json({"removed": number})
    if not number:
        raise fail("Nothing there is in the library; see what is: reelspace status")
    say(f"Forgot {counted(number, 'file')}.")
