import csv
import json
import shutil
from functools import cache
from importlib import resources

import pytest
from typer.testing import CliRunner

from reelspace.cli import app
from reelspace.errors import ReelspaceError
from reelspace.uvrb import published
from reelspace.uvrb.audit import Cell, Grain, Row, audit, checks, cures, printed
from reelspace.uvrb.claims import correlations, judge, statements


@cache
def mended():
    """The tables with one cure for each row that does not follow: what a reader might think was meant."""
    cells = printed()
    for row in dict.fromkeys(finding.row for finding in audit(cells)):
        for finding in audit(cells):
            if row.part == "Table 8" and finding.row == row:
                cells[finding.cell] = finding.implied
        for cure in cures(row, cells)[:1]:
            cells[cure.cell] = round((cure.low + cure.high) / 2, 3)
    # The total is of the parts: it follows the mended one.
    for size, more in (("3b", 90_000), ("7b", 170_000)):
        cells[Cell("8", "total", size)] += more
    return cells


def rows_of(findings):
    return {finding.row for finding in findings}


PARTS = {f"{line['dataset']} {line['task']}": line["part"] for line in published.rows("table6")}


def home(cell):
    """The row that a cell belongs to: the line of the sums it enters."""
    return {
        "6": Row("Table 8", PARTS.get(cell.row, "")),
        "7": Row("Table 8", "UVRD"),
        "8": Row("Table 8", cell.row),
        "11": Row("Table 11", cell.row),
    }.get(cell.table, Row("models", cell.row))


def step(cell):
    """Just more than rounding can hide of a change: twice the slack of a check, by what reaches it of the change."""
    reach = [
        (1.0 if cell == check.cell else check.ways[0].get(cell, 0.0)) / check.slack
        for check in checks()
        if not isinstance(check, Grain) and check.row == home(cell)
    ]
    return 2.0001 / max(reach)


EVERY = sorted(printed())


def test_what_does_not_follow():
    found = {str(finding.cell): (finding.printed, round(finding.implied, 4)) for finding in audit()}
    assert found == {
        "Table 1, VLM2Vec-V2, AVG-D": (0.508, 0.5056),
        "Table 2, VLM2Vec-V2, CG": (0.498, 0.4857),
        "Table 2, VLM2Vec-V2, TXT": (0.587, 0.5829),
        "Table 2, VLM2Vec-V2, AVG-A": (0.538, 0.5345),
        "Table 2, GME-2B, AVG-A": (0.416, 0.5161),
        "Table 8, image, 3b": (1_820_000, 1_910_000),
        "Table 8, image, 7b": (2_800_000, 2_970_000),
    }


def test_a_single_cell_explains_each_wrong_model():
    """The paper's VLM2Vec-V2 is short in one of the datasets of CG; its GME-2B has one wrong digit."""
    row = Row("models", "VLM2Vec-V2")
    assert {cure.cell.column for cure in cures(row)} == {"MSRVTT", "DiDeMo", "CRB-G"}
    assert all(cure.low - cure.printed > 0.0339 and cure.high - cure.printed < 0.041 for cure in cures(row))
    (cure,) = cures(Row("models", "GME-2B"))
    assert cure.cell == Cell("2", "GME-2B", "AVG-A")
    assert cure.low < 0.516 < cure.high


def test_every_cell_takes_part():
    parts = (cell for check in checks() if not isinstance(check, Grain) for cell in (check.cell, *check.ways[0]))
    assert set(parts) == set(EVERY)


def test_a_change_of_a_hundredth_shows_almost_everywhere():
    """Only CMP and VIS of the ablation's own rows reach nothing but an average of six."""
    least = {cell: step(cell) for cell in EVERY if cell.table in ("1", "2", "3", "11")}
    hidden = {cell for cell, change in least.items() if change > 0.01001}
    assert {cell.column for cell in hidden} == {"CMP", "VIS"}
    assert {cell.table for cell in hidden} == {"3"}
    assert max(least.values()) < 0.0121


def test_the_mended_tables_follow_wholly():
    assert audit(mended()) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_any_one_wrong_cell_flags_its_row_and_no_other(sign):
    """Over every cell of every table, and by the least change that rounding cannot hide."""
    cells = mended()
    for cell in EVERY:
        wrong = cells | {cell: cells[cell] + sign * step(cell)}
        assert rows_of(audit(wrong)) == {home(cell)}, cell


@pytest.mark.parametrize("change", [0.013, -0.07])
def test_in_the_tables_as_printed_only_its_row_joins_those_that_are_flagged(change):
    cells = printed()
    before = rows_of(audit(cells))
    for cell in EVERY:
        if cell.table in ("1", "2", "3"):
            after = rows_of(audit(cells | {cell: cells[cell] + change}))
            assert after == before | {home(cell)}, cell


def test_a_wrong_ability_is_found_where_it_stands():
    """It does not spread to what the paper made of it: that is derived from the datasets too."""
    cells = mended()
    for name in ("S", "FG", "TXT", "AVG-A"):
        cell = Cell("2", "B3-7B", name)
        assert [finding.cell for finding in audit(cells | {cell: cells[cell] + 0.02})] == [cell]


def test_a_share_of_queries_is_a_multiple():
    """LoVR-V has 100 queries: 0.361 is no share of them, although it lies within what rounding hides of a mean."""
    wrong = mended() | {Cell("1", "CLIP4Clip", "LoVR-V"): 0.361}
    (finding,) = audit(wrong)
    assert (finding.cell.column, finding.implied) == ("LoVR-V", 0.36)
    assert "100 queries" in finding.how


# The text


def test_what_the_text_states_and_the_tables_do_not():
    wrong = {claim.says: claim for claim in judge() if claim.verdict == "does not follow"}
    assert "0.702 is UniME-7B's" in wrong["VIS of CLIP4Clip is 0.714, of Unite-7B 0.702"].gives
    assert "GME-2B has 0.345" in wrong["GVE-7B leads, of all models, in TXT, CMP, CG, FG, LC, S and T"].gives
    assert "pearson 0.614 [0.17, 0.85] over all 16 (n=16)" in wrong["ρ(S, T) is 0.12 over all models"].gives
    (missing,) = (claim for claim in judge() if claim.verdict == "cannot be derived")
    assert "LanguageBind" in missing.says


def test_most_stated_correlations_are_of_ranks_or_of_other_rows():
    by = {claim.says: claim for claim in judge() if claim.says.startswith("ρ")}
    assert len(by) == 16
    assert "but spearman 0.464" in by["ρ(T, CG) is 0.46 over CLIP-based models"].gives
    assert by["ρ(PR, AVG) is 0.97 over all models"].verdict == "follows"
    assert sum(claim.verdict == "follows" for claim in by.values()) == 4


@pytest.mark.parametrize("place", range(len(statements())))
def test_a_statement_with_any_number_wrong_does_not_follow(place):
    claim, cells = statements()[place], mended()
    for at, number in enumerate(claim.stated):
        for wrong in (number * 1.2 + 0.01, number * 0.8 - 0.01):
            stated = (*claim.stated[:at], wrong, *claim.stated[at + 1 :])
            holds, _ = claim.test(cells, stated)
            assert holds in (False, None)
            assert (holds is None) == ("LanguageBind" in claim.says)


@pytest.mark.parametrize("claim", correlations(), ids=lambda claim: f"{claim.x}-{claim.y}-{claim.rows}")
def test_a_correlation_far_from_all_readings_does_not_follow(claim):
    from dataclasses import replace

    cells = printed()
    worst = min(reading.value for reading in claim.readings(cells)) - 0.2
    best = max(reading.value for reading in claim.readings(cells)) + 0.2
    assert replace(claim, value=best).judge(cells).verdict == "does not follow"
    if not claim.at_least:
        assert replace(claim, value=worst).judge(cells).verdict == "does not follow"
    first = claim.readings(cells)[0]
    assert replace(claim, value=round(first.value, 2), at_least=False).judge(cells).verdict == "follows"


# The command


def run(*arguments):
    return CliRunner().invoke(app, ["uvrb", "audit", *map(str, arguments)])


def test_the_command_lists_them():
    done = run()
    assert done.exit_code == 0
    assert "Table 2, GME-2B, AVG-A          0.416     0.5161  mean of TXT" in done.stdout
    assert "Derived 456 printed values: 7 do not follow." in done.stderr
    assert "GVE-3B scores 0.571" not in done.stdout
    assert "GVE-3B scores 0.571" in run("--all").stdout


def test_as_json():
    found = json.loads(run("--json").stdout)
    assert len(found["findings"]) == 7
    assert {"table": "2", "row": "GME-2B", "column": "AVG-A"}.items() <= found["findings"][1].items()
    assert len(found["claims"]) == 38


def copied(folder, table, line, column, value):
    """A folder with one table, a cell of it changed."""
    source = resources.files("reelspace.uvrb.published").joinpath(f"{table}.csv")
    rows = list(csv.DictReader(source.read_text("utf-8").splitlines()))
    next(row for row in rows if row["model"] == line)[column] = value
    with (folder / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_tables_of_ones_own(tmp_path):
    given = copied(tmp_path, "table2", "GME-2B", "AVG-A", "0.516")
    found = json.loads(run("--json", "--tables", given).stdout)
    assert {finding["row"] for finding in found["findings"]} == {"VLM2Vec-V2", "image"}


def test_tables_that_are_none(tmp_path):
    given = copied(tmp_path, "table2", "GME-2B", "AVG-A", "about .5")
    with pytest.raises(ReelspaceError, match=r"GME-2B, AVG-A: “about \.5” is no number"):
        printed(given)
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    (tmp_path / "table1.csv").write_text("model,AVG\nme,1\n", "utf-8")
    with pytest.raises(ReelspaceError, match="its lines and columns must be"):
        printed(tmp_path)
    assert run("--tables", tmp_path).exit_code == 2
