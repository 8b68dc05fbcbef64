import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reelspace.answers import Hit
from reelspace.cli import app
from reelspace.errors import ReelspaceError
from reelspace.uvrb.footage import Answer, Question, bench, data, read, write
from reelspace.uvrb.labelling import HELP, StoppedError, candidates, label, understand

CSV = """\
query,path,start,end
red,red.mp4,0,3
green,green.mp4,,
green,red-green.mp4,3,0:06
"a thing, not there",-,,
later,,,
"""


@pytest.fixture
def questions(folder):
    """A file of questions beside the clips."""
    (folder / "queries.csv").write_text(CSV, "utf-8")
    return folder / "queries.csv"


@pytest.fixture
def indexed(library, folder):
    library.index(folder)
    return library


# Files


def test_csv(questions, folder):
    assert read(questions) == [
        Question("red", answers=(Answer(str(folder / "red.mp4"), 0, 3),)),
        Question(
            "green",
            answers=(Answer(str(folder / "green.mp4")), Answer(str(folder / "red-green.mp4"), 3, 6)),
        ),
        Question("a thing, not there", answers=()),
        Question("later"),
    ]


@pytest.mark.parametrize("name", ["back.csv", "back.json"])
def test_what_is_written_is_read_back(questions, folder, name):
    asked = [*read(questions), Question(None, "a.jpg", "b.mp4@1-2", (Answer("/else/where.mp4", 1.25, 9),))]
    write(folder / name, asked)
    assert read(folder / name) == asked
    assert str(folder) not in (folder / name).read_text("utf-8")


def test_json(tmp_path):
    rows = [
        {"query": "a", "answers": [{"path": "x.mp4", "start": "1:02", "end": 63.5}, {"path": "/y.mp4"}]},
        {"query": "b", "answers": []},
        {"query": "c", "path": "z.mp4"},
        {"query": "d", "path": None},
        {"query": "e"},
    ]
    path = tmp_path / "q.json"
    path.write_text(json.dumps(rows), "utf-8")
    found = read(path)
    assert found[0].answers == (Answer(str(tmp_path / "x.mp4"), 62, 63.5), Answer("/y.mp4"))
    assert [one.answers for one in found[1:]] == [(), (Answer(str(tmp_path / "z.mp4")),), (), None]


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("q.csv", "question,file\nx,y\n", "its first line must name columns"),
        ("q.csv", "query,path\nx,y,z\n", "line 2: more fields than columns"),
        ("q.csv", "query,path\n,y\n", "line 2: asks nothing"),
        ("q.csv", "query,path,start,end\nx,y,3,\n", "line 2: start and end belong together"),
        ("q.csv", "query,path,start,end\nx,y,3,2\n", "line 2: start and end belong together"),
        ("q.csv", "query,path,start,end\nx,y,now,2\n", "line 2: “now” is not a time"),
        ("q.csv", "query,path\nx,-\nx,y\n", "line 3: says that nothing answers"),
        ("q.csv", "query,path\n", "no questions in it"),
        ("q.json", "{", "is no JSON"),
        ("q.json", "{}", "must be a list"),
        ("q.json", '[{"text": "x"}]', "question 1: has other fields"),
    ],
)
def test_damaged_files(tmp_path, name, text, match):
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ReelspaceError, match=match):
        read(tmp_path / name)


# Measuring


def test_figures(indexed, questions, folder):
    """`sketch` knows colours, and finds the clips of one exactly."""
    result = bench(indexed, read(questions), folder, (1, 2))
    value = {name: (one.value, one.n) for name, one in result.figures.items()}
    assert value["recall@2"] == (pytest.approx(1), 2)
    assert value["recall@1"] == (pytest.approx((1 + 1 / 2) / 2), 2)  # of two right files one is first
    assert value["mean rank"] == (1, 2)
    assert result.figures["mean rank"].interval.low == 1
    assert value["moments R1@0.5"][1] == 2
    assert value["moments in the right video R1@0.7"] == (1, 1)  # the question with one video
    assert [(one.rank, one.failed) for one in result.outcomes] == [(1, None), (1, None), (None, None)]
    assert (result.unlabelled, result.videos, result.model, result.failures) == (1, 6, "sketch", [])
    assert json.loads(json.dumps(data(result)))["figures"]["recall@2"]["questions"] == 2


def test_a_moment_in_another_video_is_wrong(indexed, folder):
    """Red is found, from 0 to 3 s, in red.mp4 and in red-green.mp4; only one of them is said to answer."""
    asked = [Question("green", answers=(Answer(str(folder / "blue.mp4"), 0, 3),))]
    figures = bench(indexed, asked, folder).figures
    assert figures["moments R1@0.5"].value == 0
    assert figures["moments mAP"].value <= 0.5
    assert figures["moments in the right video R1@0.5"].value == 1
    assert figures["mean rank"].value > 2


def test_a_copy_answers_as_well(indexed, folder):
    shutil.copy(folder / "red.mp4", folder / "another.mp4")
    indexed.index(folder)
    result = bench(indexed, [Question("red", answers=(Answer(str(folder / "red.mp4"), 0, 3),))], folder)
    assert result.outcomes[0].rank == 1


def test_names_that_look_like_patterns(indexed, folder):
    (folder / "red.mp4").rename(folder / "[r]e*d?.mp4")
    indexed.index(folder)
    asked = [Question("red", answers=(Answer(str(folder / "[r]e*d?.mp4"), 0, 3),))]
    assert bench(indexed, asked, folder).figures["moments in the right video R1@0.7"].value == 1


def test_what_is_not_indexed_is_a_failure_not_a_miss(indexed, folder):
    asked = [
        Question("red", answers=(Answer(str(folder / "gone.mp4")),)),
        Question("red", image="no.jpg", answers=(Answer(str(folder / "red.mp4")),)),
        Question("blue", answers=(Answer(str(folder / "blue.mp4")),)),
    ]
    result = bench(indexed, asked, folder)
    assert [bool(one.failed) for one in result.outcomes] == [True, True, False]
    assert "gone.mp4 is not indexed" in result.outcomes[0].failed
    assert result.figures["recall@1"].n == 1


def test_nothing_labelled(indexed, folder):
    with pytest.raises(ReelspaceError, match="label them first"):
        bench(indexed, [Question("red")], folder)


# Labelling


def test_candidates_take_turns_and_come_once(indexed, folder):
    from reelspace import Item

    hits = candidates([indexed, indexed], Item(text="red"), 5)
    assert len(hits) == len({(hit.path, hit.start) for hit in hits}) == 5
    assert Path(hits[0].path).name in ("red.mp4", "red-green.mp4")


@pytest.fixture
def hits():
    return [
        Hit(rank=k + 1, path=f"/videos/{name}.mp4", start=k, end=k + 2.5, score=0.9 - k / 10, video=name)
        for k, name in enumerate("abc")
    ]


def test_what_is_said(hits):
    first, second = hits[0], hits[1]
    assert understand("1 2", hits).answers == (
        Answer(first.path, first.start, first.end),
        Answer(second.path, second.start, second.end),
    )
    assert understand("2v", hits).answers == (Answer(second.path),)
    assert understand(" 1@0:01-2.5 ", hits).answers == (Answer(first.path, 1, 2.5),)
    assert understand("0", hits).answers == ()
    assert understand("", hits).answers is None
    assert understand("m", hits).more
    assert understand("o3", hits).opened == 3
    with pytest.raises(StoppedError):
        understand("q", hits)


@pytest.mark.parametrize("line", ["9", "o9", "x", "1@3-2", "1 0", "-1", "1@", "o"])
def test_what_cannot_be_meant(hits, line):
    with pytest.raises(ReelspaceError):
        understand(line, hits)


def test_answers_are_recorded_as_they_come(hits):
    lines = iter(["?", "huh", "o1", "m", "1", "", "0", "q"])
    told, played, kept, asked = [], [], [], []

    def ask(question, shown):
        asked.append(question.text)
        return next(lines)

    questions = [Question("a"), Question("done", answers=()), Question("b"), Question("c"), Question("d")]
    found = label(
        questions, lambda q, many: hits[: many - 6], ask, told.append, played.append, lambda q: kept.append(list(q))
    )
    assert asked == ["a"] * 5 + ["b", "c", "d"]
    assert [one.answers for one in found] == [
        (Answer(hits[0].path, hits[0].start, hits[0].end),), (), None, (), None
    ]  # fmt: skip
    assert told[0] == HELP
    assert "“huh” is not understood" in told[1]
    assert [hit.path for hit in played] == [hits[0].path]
    assert [sum(one.answers is not None for one in state) for state in kept] == [2, 3]


# The command


def run(*arguments, **options):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)], **options)


def test_the_command(indexed, questions):
    done = run(indexed.path, "--queries", questions, "-k", "1,2")
    assert done.exit_code == 0, done.output
    assert "recall@2" in done.stdout
    assert "1 question not labelled yet" in done.stderr
    found = json.loads(run(indexed.path, "--queries", questions, "--json").stdout)
    assert {"recall@1", "recall@5", "recall@10", "mean rank"} <= found["figures"].keys()


def test_the_command_labels(indexed, questions, folder):
    done = run(indexed.path, "--queries", questions, "--label", input="2\n")
    assert done.exit_code == 0, done.output
    later = read(questions)[-1]
    assert (later.text, len(later.answers)) == ("later", 1)
    assert "later" in done.stderr
    assert "Every question has its answer" in run(indexed.path, "--queries", questions, "--label").stderr


def test_wrong_usage(indexed, questions, tmp_path):
    assert run(indexed.path, "--queries", questions, "-k", "one").exit_code == 2
    assert run(tmp_path / "none", "--queries", questions).exit_code == 2
    (questions.parent / "gone.csv").write_text("query,path\nx,gone.mp4\n", "utf-8")
    assert run(indexed.path, "--queries", questions.parent / "gone.csv").exit_code == 1
