"""`reelspace use`."""

from __future__ import annotations

from typing import Annotated

import typer

from reelspace.cli.terminal import LibraryOption, say


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("use")(use)


def use(model: Annotated[str, typer.Argument(metavar="MODEL", hidden=True)], library: LibraryOption = None) -> None:
    """Search with another model from now on.

    The library must have its vectors. MODEL is a name, or the beginning of a fingerprint (`reelspace models`).
    Going back is the same command.

    \b
    Examples
      reelspace index --model NAME         builds its vectors beside the others
      reelspace use NAME
      reelspace use lite                   and back
    """
    from reelspace.library import Library

    with Library.open(library, create=False) as opened:
        opened.use(model)
        active = next(space for space in opened.models() if space.active)
    say(f"Searches use {active.model} ({active.fingerprint}) now.")
