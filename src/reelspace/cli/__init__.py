"""The `reelspace` command: one thin module a subcommand.

Command modules import what is heavy (pydantic, numpy, av, the library) when they run, so that help stays quick.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from reelspace.cli import (
    bench,
    check,
    cut,
    doctor,
    export,
    index,
    merge,
    models,
    push,
    remove,
    schema,
    search,
    status,
    synth,
    train,
    transcript,
    use,
    uvrb,
    verify,
    worlds,
)
from reelspace.cli.terminal import answering, robust


class _Commands(TyperGroup):
    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with answering():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    index,
    merge,
    search,
    status,
    verify,
    remove,
    models,
    use,
    push,
    cut,
    export,
    transcript,
    check,
    doctor,
    schema,
    worlds,
    uvrb,
    bench,
    synth,
    train,
):
    module.register(app)


def _version(asked: bool) -> None:
    if asked:
        from reelspace import __version__

        typer.echo(f"reelspace {__version__}")
        raise typer.Exit


@app.callback()
def reelspace(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Index a folder of videos; ask with words, a picture, a clip or any mix; get the moment.

    \b
    Begin with
      reelspace index ~/Videos
      reelspace search "a dog jumps into a pool"

    Every command has --help with examples. Exit codes: 0 done, 1 done but some items failed, 2 wrong usage or
    something unusable, 130 interrupted.
    """


def main() -> None:
    """The entry point of the `reelspace` command."""
    robust(sys.stdout, sys.stderr)
    app(prog_name="reelspace")
