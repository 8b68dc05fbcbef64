"""`reelspace uvrb`: the benchmark, and what its results say."""

from __future__ import annotations

import typer

from reelspace.cli import uvrb_audit

uvrb = typer.Typer(rich_markup_mode=None, no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(uvrb, name="uvrb")
    uvrb_audit.register(uvrb)


@uvrb.callback()
def overview() -> None:
    """Read the universal video retrieval benchmark.

    \b
    Examples
      reelspace uvrb audit
    """
