"""`reelspace models`: list, show, check."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from reelspace.cli.terminal import JsonOption, LibraryOption, print_json, print_table, printable, say, table
from reelspace.errors import ExitCode, NoLibraryError

models = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(models, name="models")


@models.callback()
def overview(ctx: typer.Context, library: LibraryOption = None, json: JsonOption = False) -> None:
    """List models, and those the library has vectors of.

    \b
    Examples
      reelspace models
      reelspace models show lite
      reelspace models check lite
    """
    if ctx.invoked_subcommand is not None:
        return
    from reelspace.embed import names

    spaces = _spaces(library)
    known = dict.fromkeys([*names(), *(space["model"] for space in spaces)])
    held = {name: [space for space in spaces if space["model"] == name] for name in known}
    if json:
        print_json([{"model": name, "spaces": own} for name, own in held.items()])
        return
    made = table("model", "in the library")
    for name, own in held.items():
        made.add_row(name, "; ".join(map(_state, own)) or "-")
    print_table(made)


def _spaces(library: Any) -> list[dict[str, Any]]:
    from reelspace.library import Library

    try:
        with Library.open(library, create=False) as opened:
            return [space.model_dump(mode="json") for space in opened.models()]
    except NoLibraryError:
        return []  # models are there without a library


def _state(space: dict[str, Any]) -> str:
    state = "active" if space["active"] else "ready" if space["complete"] else "incomplete"
    return f"{state}, {space['windows']:,} windows ({space['fingerprint']})"


@models.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)], json: JsonOption = False) -> None:
    """What a model declares: its dimension, what it takes, how it samples frames, its fingerprint.

    \b
    Example
      reelspace models show lite
    """
    from reelspace.embed import load
    from reelspace.embed.base import declared_form

    form = dict(declared_form(load(name)))
    if json:
        print_json(form)
        return
    for key, value in form.items():
        typer.echo(f"{key:12} {', '.join(value) if isinstance(value, list) else value}")


@models.command()
def check(name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)], json: JsonOption = False) -> None:
    """Load a model and look for promises it breaks: unit vectors, no dependence on the batch, failures named.

    The exit code is 1 when it breaks one.

    \b
    Example
      reelspace models check lite
    """
    from reelspace.embed import load
    from reelspace.embed.conformance import violations

    found = violations(load(name))
    if json:
        print_json({"model": name, "violations": found})
    else:
        for violation in found:
            typer.echo(printable(violation))
        say(f"{name} breaks its contract." if found else f"{name} keeps its contract.")
    raise typer.Exit(ExitCode.SOME_FAILED if found else ExitCode.OK)
