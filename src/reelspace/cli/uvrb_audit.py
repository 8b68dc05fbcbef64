"""`reelspace uvrb audit`: what the paper prints and what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import JsonOption, print_json, print_table, say, table, tell

if TYPE_CHECKING:
    from reelspace.uvrb.audit import Finding
    from reelspace.uvrb.claims import Judged


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("audit")(audit)


def audit(
    tables: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Read table1.csv and so on from here; else the published ones."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="List also the statements of the text that follow.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List what the paper prints and what does not follow from its own tables.

    Table 2 is derived from Table 1; sums and averages of the others from their parts; the correlations and numbers of
    the text from the tables. What does not follow is listed with the value that does, and how it was computed.

    \b
    Examples
      reelspace uvrb audit
      reelspace uvrb audit --json | jq '.findings[]'
    """
    from reelspace.uvrb.audit import audit as find
    from reelspace.uvrb.audit import checks, cures, printed
    from reelspace.uvrb.claims import judge

    cells = printed(tables)
    found, claims = find(cells), judge(cells)
    ways = {row: cures(row, cells) for row in dict.fromkeys(finding.row for finding in found)}
    if json:
        print_json(
            {
                "checked": len(checks()),
                "findings": [
                    {**one.cell._asdict(), "printed": one.printed, "implied": one.implied, "how": one.how}
                    for one in found
                ],
                "cures": [
                    {**c.cell._asdict(), "low": c.low, "high": c.high} for of_row in ways.values() for c in of_row
                ],
                "claims": [claim._asdict() for claim in claims],
            }
        )
        return
    _show_findings(found)
    for row, of_row in ways.items():
        if of_row:
            alone = "; or ".join(
                f"{c.cell} were {_span(c.low, c.high)} (printed: {_number(c.printed)})" for c in of_row
            )
            tell(f"All of {row.name} would follow if {alone}.", indent="  ")
    wrong = [claim for claim in claims if claim.verdict != "follows"]
    _show_claims(claims if everything else wrong)
    say(
        f"Derived {len(checks()):,} printed values: {len(found)} do not follow. "
        f"Checked {len(claims)} statements of the text: {len(wrong)} are not as the tables have it."
    )


def _show_findings(found: list[Finding]) -> None:
    if found:
        made = table("where", "printed", "implied", "how", right=("printed", "implied"))
        for one in found:
            made.add_row(str(one.cell), _number(one.printed), _number(one.implied), one.how)
        print_table(made)
        typer.echo()


def _show_claims(claims: list[Judged]) -> None:
    for claim in claims:
        typer.echo()
        tell(f"{claim.where}: {claim.says}: {claim.verdict}.", indent="  ")
        tell(f"  {claim.gives}", indent="  ")


def _number(value: float) -> str:
    return f"{value:.4f}".removesuffix("0") if value < 100 else f"{value:,.0f}"


def _span(low: float, high: float) -> str:
    return f"between {_number(low)} and {_number(high)}"
