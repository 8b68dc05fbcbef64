"""`reelspace uvrb`: the benchmark, and what its results say."""

from __future__ import annotations

import typer

from reelspace.cli import uvrb_audit, uvrb_data, uvrb_moments, uvrb_report, uvrb_run, uvrb_sweep

uvrb = typer.Typer(rich_markup_mode=None, no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(uvrb, name="uvrb")
    for module in (uvrb_run, uvrb_sweep, uvrb_data, uvrb_moments, uvrb_report, uvrb_audit):
        module.register(uvrb)


@uvrb.callback()
def overview() -> None:
    """Run the universal video retrieval benchmark, and read its results.

    \b
    Examples
      reelspace uvrb run --suite worlds --model lite
      reelspace uvrb fetch MSRVTT --output data/
      reelspace uvrb report --output report/
      reelspace uvrb audit
    """
