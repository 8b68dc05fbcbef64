import json
import re
from functools import cache
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from reelspace.cli import app
from reelspace.errors import ReelspaceError
from reelspace.uvrb.board import of_papers
from reelspace.uvrb.findings import findings
from reelspace.uvrb.report import best_first, build, marks
from reelspace.uvrb.report.html import page
from reelspace.uvrb.report.svg import Bar, differences, radar, signed
from reelspace.uvrb.report.text import data, latex, markdown, p_shown, spread
from reelspace.uvrb.statistics import Interval
from reelspace.uvrb.tasks import suite
from runs import answers, whole, write_run


class Elements(HTMLParser):
    """What a page consists of; complains of tags that are not closed in order."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.said = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.said.append(text)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A whole run and one that resembles it, both of 60 queries a task."""
    folder = tmp_path_factory.mktemp("runs")
    first = whole(0.5, n=60)
    second = {task: answers(0.6, 60, 90 + k, like=first[task], change=0.1) for k, task in enumerate(first)}
    return [
        write_run(folder / "one", "first <b>|_&", first, limit=60),
        write_run(folder / "two", "second", second, model={"architecture": "MLLM", "parameters": 2e9}),
    ]


@pytest.fixture(scope="module")
def made(runs):
    return build(runs)


@pytest.fixture(scope="module")
def text(made):
    """Its page."""
    return page(made)


@cache
def papers():
    return build([])


# What is compared


def test_runs_are_compared_with_the_best_published_and_with_the_first(made):
    assert [(one, other) for one, other, _ in made.differences] == [
        ("first <b>|_&", "GVE-7B"),
        ("second", "GVE-7B"),
        ("second", "first <b>|_&"),
    ]
    assert [paired for *_, found in made.differences for paired in {one.paired for one in found}] == [
        False,
        False,
        True,
    ]


def test_or_with_whom_one_names(runs):
    assert [(a.name, b.name) for a, b in build(runs, "ViCLIP").pairs] == [
        ("first <b>|_&", "ViCLIP"),
        ("second", "ViCLIP"),
    ]
    assert [(a.name, b.name) for a, b in build([], "ViCLIP").pairs] == [("GVE-7B", "ViCLIP")]
    with pytest.raises(ReelspaceError, match="no model “nobody” to compare with; there are CLIP4Clip, "):
        build(runs, "nobody")


def test_without_papers_and_of_another_suite(tmp_path):
    run = write_run(tmp_path / "w", "lite", whole(0.4, n=12), suite_name="worlds")
    report = build([run])
    assert ([row.name for row in report.rows], report.pairs, report.findings) == (["lite"], (), [])
    assert "do not compare with published ones" in markdown(report)
    assert f"| *chance* | {' | '.join(['0.100'] * 16)} |" in markdown(report)
    text = page(report)
    assert 'id="correlations"' not in text
    assert 'id="radar"' in text
    assert text.count('<td class="none">0.100</td>') == 16
    with pytest.raises(ReelspaceError, match="nothing to report"):
        build([], with_papers=False)


def test_a_part_of_a_run_is_compared_in_what_it_has(tmp_path):
    run = write_run(tmp_path / "p", "part", {"CRB-T": answers(0.4, 50), "CMRB": answers(0.4, 50)})
    report = build([run])
    ((_, other, found),) = report.differences
    assert (other, [one.column for one in found]) == ("GVE-7B", ["T", "CRB-T", "CMRB"])
    assert "part" in page(report)


@pytest.mark.parametrize("name", ["classification", "text-video"])
def test_suites_without_abilities(name, tmp_path):
    run = write_run(tmp_path / "c", "mine", {task: answers(0.5, 30) for task in suite(name)}, suite_name=name)
    report = build([run])
    assert report.abilities == ("AVG-D",)
    assert report.findings == []
    Elements(page(report))
    assert "mine" in latex(report)


def test_the_best_come_first():
    assert [row.name for row in best_first(papers().rows)][:3] == ["GVE-7B", "GVE-3B", "GME-7B"]


def test_marks_are_of_what_is_printed():
    assert marks(papers().rows, "CMP") == {"GME-2B": "best", "GME-7B": "second"}
    assert marks(papers().rows, "MSRVTT") == {"InternVideo2-6B": "best", "LanguageBind": "second"}
    assert marks(papers().rows, "VDC-D") == {"GVE-7B": "best", "GVE-3B": "second"}


def test_equal_scores_share_a_mark(tmp_path):
    scores = {"CMRB": answers(0.5, 40)}
    rows = build([write_run(tmp_path / n, n, scores) for n in "ab"], with_papers=False).rows
    assert marks(rows, "CMRB") == {"a": "best", "b": "best"}


# The page


def test_the_page_is_one_file_that_asks_for_nothing(text):
    elements = Elements(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(elements.tags)
    assert "http-equiv" in text
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?://", text)
    assert not [value for name, value in elements.attributes if name in ("href", "src") or name.startswith("on")]
    assert {"svg", "table", "details"} <= set(elements.tags)


def test_names_cannot_break_the_page(text):
    assert "first <b>" not in text
    assert "first &lt;b&gt;|_&amp;" in text


def test_the_page_has_every_part(text):
    for part in ("abilities", "radar", "datasets", "difference2", "map", "correlations", "findings", "notes"):
        assert f'id="{part}"' in text
    assert '<b class="best">0.714</b>' in text
    assert '<span class="second">' in text
    assert "only the first 60 queries of each task" in text
    assert text.count('class="heat"') == 5
    assert text.count("Does PR go better with overall performance than MSRVTT?") == 1


def test_the_same_results_give_the_same_bytes(runs, made, text):
    again = build(runs)
    assert page(again) == text
    assert markdown(again) == markdown(made)
    assert latex(again) == latex(made)


def test_values_on_the_page_are_those_of_the_report(made, text):
    numbers = data(made)
    said = " ".join(Elements(text).said)
    second = next(model for model in numbers["models"] if model["name"] == "second")
    for column, value in second["scores"].items():
        assert f"{value:.3f}" in said, column
        low, high = second["intervals"][column]
        assert f"{low:.3f}–{high:.3f}" in said
        assert low <= value <= high


# Markdown, LaTeX, JSON


def test_markdown_has_whole_tables(made):
    lines = markdown(made).splitlines()
    widths = {}
    for line in lines:
        if line.startswith("|"):
            cells = len(re.findall(r"(?<!\\)\|", line))
            widths.setdefault(cells, 0)
        elif not line and widths:
            assert len(widths) == 1, line
            widths = {}
    assert "| first &lt;b>\\|_& |" in markdown(made)
    assert "| CLIP4Clip | 0.390 | 0.416 | 0.401 | 0.178 | **0.714** |" in markdown(papers())
    assert "<u>0.341</u>" in markdown(papers())


def test_latex_is_balanced_and_escaped(made):
    text = latex(made)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2 + 3
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert r"first $<$b$>$|\_\&" in text
    assert r"\textbf{0.714}" in text
    assert r"\underline{" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and line.startswith("GVE-7B")]
    assert [row.count("&") for row in rows] == [11, 16]
    assert "−" not in text


def test_data_is_json_and_complete(made):
    numbers = json.loads(json.dumps(data(made)))
    assert len(numbers["models"]) == 18
    assert len(numbers["correlations"]) == 2 * (11 * 10 // 2 + 16 * 15 // 2)
    assert {one["n"] for one in numbers["correlations"]} == {18}
    assert len(numbers["differences"]) == 3 * 27
    assert [finding["title"][0] for finding in numbers["findings"]] == list("1234")


@pytest.mark.parametrize(
    ("value", "interval", "shown"),
    [
        (0.123, None, "0.12"),
        (-0.004, Interval(-0.1, 0.05), "0.00 [−0.10, 0.05]"),
        (None, None, "–"),
    ],
)
def test_numbers_as_shown(value, interval, shown):
    assert spread(value, interval) == shown


def test_small_p_are_bounds():
    assert (p_shown(0.0002), p_shown(0.0312)) == ("< 0.001", "0.031")


# Pictures


def test_a_line_breaks_where_a_value_is_missing():
    whole_line = radar(["a", "b", "c", "d"], [("m", [0.1, 0.2, 0.3, 0.4])], "l")
    broken = radar(["a", "b", "c", "d"], [("m", [0.1, None, 0.3, 0.4])], "l")
    assert (whole_line.count('polygon class="line"'), whole_line.count("<circle")) == (1, 4)
    assert (broken.count('polygon class="line"'), broken.count("<polyline"), broken.count("<circle")) == (0, 2, 3)
    assert radar(["a", "b", "c"], [("m", [None, None, None])], "l").count("<circle") == 0


def test_a_bar_lies_within_the_picture():
    drawn = differences([Bar("x", 0.9, 0.7, 1.0, True, ""), Bar("y", -0.01, -0.03, 0.01, False, "")], "l")
    width = float(re.search(r'viewBox="0 0 (\d+)', drawn)[1])
    assert all(0 <= float(x) <= width for x in re.findall(r'(?:x1|x2|cx|x)="([\d.]+)"', drawn))
    assert drawn.count("unsure") == 1


def test_colours_are_steps():
    assert [signed(value) for value in (-1.0, -0.05, 0.0, 0.5, 1.0, None)] == ["n5", "p0", "p0", "p2", "p5", "none"]


# The findings


def test_the_findings_of_the_published_models():
    """What their own tables say of them, by intervals."""
    verdicts = {part.question: part.verdict for finding in findings(of_papers("uvrb")) for part in finding.parts}
    assert verdicts["Does PR go better with overall performance than MSRVTT?"] == "holds"
    assert verdicts["Do FG, PR and LC go together?"] == "holds"
    assert verdicts["Do CLIP-based models trade composition for vision?"] == "cannot be told"
    assert "does not hold" not in verdicts.values()
    (both,) = findings(of_papers("uvrb"))[1].parts[0].quantities
    assert (both.n, round(both.pearson[0], 2), both.stated) == (16, 0.61, "0.12")


def test_a_finding_that_is_not_there_does_not_hold():
    """Models made so that space and time go together, and MSRVTT tells all of the rest."""
    from dataclasses import replace

    rows = [
        replace(row, scores=dict.fromkeys(row.scores, k / 20) | {"DREAM-E": (k * 7 % 5) / 9, "PEV-K": (k * 3 % 7) / 9})
        for k, row in enumerate(of_papers("uvrb"))
    ]
    verdicts = {part.question: part.verdict for finding in findings(rows) for part in finding.parts}
    assert verdicts["Are S and T unrelated?"] == "cannot be told"  # they are one: no interval
    assert verdicts["Does PR go better with overall performance than MSRVTT?"] == "does not hold"
    noisy = [
        replace(row, scores=row.scores | {"CMRB": row.scores["CMRB"] + (k * 5 % 7) / 1000})
        for k, row in enumerate(rows)
    ]
    verdicts = {part.question: part.verdict for finding in findings(noisy) for part in finding.parts}
    assert verdicts["Are S and T unrelated?"] == "does not hold"


def test_few_models_tell_nothing():
    verdicts = {part.verdict for finding in findings(of_papers("uvrb")[:4]) for part in finding.parts}
    assert verdicts <= {"cannot be told", "holds"}
    assert len(findings(of_papers("uvrb")[:1])) == 4


# The command


def test_the_command_writes_them(runs, tmp_path, text):
    folders = [str(run.folder) for run in runs]
    done = CliRunner().invoke(app, ["uvrb", "report", *folders, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["report.html", "tables.md", "tables.tex"]
    assert (tmp_path / "out" / "report.html").read_text("utf-8") == text


def test_wrong_usage(tmp_path):
    assert CliRunner().invoke(app, ["uvrb", "report"]).exit_code == 2
    done = CliRunner().invoke(app, ["uvrb", "report", str(tmp_path), "--json"])
    assert done.exit_code == 2
    assert "no results here" in done.stderr
