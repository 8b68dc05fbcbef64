"""The commands on a library, with the built-in model and real videos."""

import json
import os
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest

from clips import write_clip
from reelspace.answers import Hit, IndexReport, Query, SearchReport, VerifyReport

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def schema(name):
    return json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))


# -- index ---------------------------------------------------------------------------------------------------------


def test_index_says_what_it_did_and_what_failed(reelspace, footage, tmp_path):
    shutil.copytree(footage, "videos")
    Path("videos/broken\x1b.mp4").write_bytes(b"junk" * 999)
    result = reelspace("index", "videos")
    assert result.exit_code == 1
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert first.startswith("Embedded 2 files: 5.0 s in ")
    assert first.endswith(" windows, 1 failed.")
    assert second.startswith("failed: videos/broken\\x1b.mp4: ")

    again = reelspace("index", "--json")
    assert again.exit_code == 0, again.output
    report = IndexReport.model_validate_json(again.stdout)
    assert (report.unchanged, report.embedded, report.failed) == (2, 0, 1)
    assert again.stderr.splitlines()[0] == "Nothing new, 2 unchanged, 1 failed."
    assert again.stderr.splitlines()[1].startswith("1 failed before and stay left alone")
    assert reelspace("index", "--retry").exit_code == 1
    Path("videos/red.mp4").unlink()
    assert "1 forgotten" in reelspace("index", "--prune").stderr


def test_index_takes_what_is_included_and_not_excluded(reelspace, footage):
    result = reelspace("index", footage, "--include", "*.mp4", "--exclude", "red*", "--windows", "fixed(2,1)", "--json")
    assert result.exit_code == 0, result.output
    report = IndexReport.model_validate_json(result.stdout)
    assert (report.embedded, report.windows) == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["gone"], "gone"),
        ([".", "--windows", "words(2)"], "no windowing"),
        ([".", "--model", "no-such-model"], "no-such-model"),
    ],
)
def test_index_refuses_what_makes_no_sense(reelspace, arguments, why):
    result = reelspace("index", *arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("reelspace: ")
    assert why in result.stderr


# -- search --------------------------------------------------------------------------------------------------------


def test_search_answers_with_a_table(asking, footage):
    result = asking("search", "something", "red", "-k", "1")
    assert result.exit_code == 0, result.output
    rows = result.stdout.splitlines()[-2:]
    assert rows[0].split() == ["time", "score", "video"]
    rank, time, score, path = rows[1].split(None, 3)
    assert (rank, time, path) == ("1", "0:00.0-0:02.0", str(footage / "red.mp4"))
    float(score)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["blue", "sky"], {"text": ["blue sky"]}),
        (["--text", "blue", "--text", "sky"], {"text": ["blue", "sky"]}),
        (["--image", "blue.png"], {"image": ["blue.png"]}),
        (["--video", "{footage}/blue sky.mp4@1-2.5"], {"video": ["{footage}/blue sky.mp4@1-2.5"]}),
        (["blue", "--image", "blue.png"], {"text": ["blue"], "image": ["blue.png"]}),
        (["blue", "--not", "red", "--not-image", "red.png"], {"text": ["blue"], "without": ["red", "red.png"]}),
    ],
)
def test_json_is_the_documented_report(asking, footage, arguments, parts):
    from PIL import Image

    Image.new("RGB", (64, 48), (20, 20, 220)).save("blue.png")
    Image.new("RGB", (64, 48), (200, 20, 20)).save("red.png")
    result = asking("search", *(a.format(footage=footage) for a in arguments), "--json")
    assert result.exit_code == 0, result.output
    jsonschema.validate(json.loads(result.stdout), schema("search"))
    report = SearchReport.model_validate_json(result.stdout)
    assert Path(report.hits[0].path) == footage / "blue sky.mp4"
    assert Path(report.hits[0].path).is_absolute()
    for part, values in parts.items():
        shown = [value.removeprefix(f"{Path.cwd()}/") for value in getattr(report.query, part)]
        assert shown == [value.format(footage=footage) for value in values]


def paths(result):
    assert result.exit_code == 0, result.output
    return [Path(hit.path).name for hit in SearchReport.model_validate_json(result.stdout).hits]


def test_filters_and_pages(asking):
    assert paths(asking("search", "red", "--json")) == ["red.mp4", "blue sky.mp4"]
    assert paths(asking("search", "red", "-k", "1", "--page", "2", "--json")) == ["blue sky.mp4"]
    assert paths(asking("search", "red", "--in", "blue*", "--json")) == ["blue sky.mp4"]
    assert paths(asking("search", "red", "--min-duration", "0:02.5", "--json")) == ["blue sky.mp4"]
    assert paths(asking("search", "blue", "--max-duration", "2.5", "--json")) == ["red.mp4"]
    assert paths(asking("search", "red", "--after", "2001-01-01", "--json")) == ["red.mp4", "blue sky.mp4"]
    assert paths(asking("search", "red", "--before", "2001-01-01", "--json")) == []
    assert "No video is left" in asking("search", "red", "--before", "2001-01-01").stderr
    assert "No more hits." in asking("search", "red", "--page", "9").stderr


def test_a_file_given_as_words_is_remarked_on(asking):
    Path("red.png").touch()
    result = asking("search", "red.png")
    assert result.exit_code == 0
    assert "to ask with the file itself: --image red.png" in result.stderr


def test_search_opens_the_first_hit(asking, footage, monkeypatch):
    Path("bin").mkdir()
    player = Path("bin/mpv")
    player.write_text(f"#!{sys.executable}\nimport sys\nopen('seen', 'w').write(sys.argv[-1])\n")
    player.chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd() / 'bin'}{os.pathsep}{os.environ['PATH']}")
    started = []
    from reelspace.cli import play

    monkeypatch.setattr(play.subprocess, "Popen", recording(started, play.subprocess.Popen))
    assert asking("search", "red", "--open").exit_code == 0
    assert started[-1].wait(timeout=10) == 0
    assert Path("seen").read_text() == str(footage / "red.mp4")


def recording(made, start):
    def popen(*arguments, **options):
        made.append(start(*arguments, **options))
        return made[-1]

    return popen


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "Nothing is asked"),
        (["x", "--after", "yesterday"], "--after: “yesterday” is not a date"),
        (["x", "--min-duration", "long"], "“long” is not a time"),
        (["--image", "gone.jpg"], "gone.jpg"),
        (["--video", "gone.mp4@1-2"], "gone.mp4"),
        (["x", "--model", "no-such-model"], "no-such-model"),
    ],
)
def test_search_refuses_what_it_cannot_do(asking, arguments, why):
    result = asking("search", *arguments)
    assert result.exit_code == 2, result.output
    assert why in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", [["search", "x"], ["status"], ["verify"], ["remove", "x"], ["use", "lite"]])
def test_without_a_library_it_says_how_to_make_one(reelspace, command, tmp_path):
    result = reelspace(*command)
    assert result.exit_code == 2
    assert "reelspace index" in result.stderr
    assert list(tmp_path.iterdir()) == []


def report(match, path="/v/a.mp4", **changes):
    hit = Hit(rank=1, path=path, start=0, end=4.2, score=0.5, video="ab", **changes)
    return SearchReport(query=Query(text=["x"]), model="lite", match=match, page=1, hits=[hit])


def test_the_table_says_whether_anything_fits(capsys):
    from reelspace.cli.search import show

    show(report(True), page=1)
    assert capsys.readouterr() == ("            time  score  video\n1  0:00.0-0:04.2  0.500  /v/a.mp4\n", "")
    show(report(False), page=1)
    out, err = capsys.readouterr()
    assert out.startswith("Nothing fits. The nearest there is:\n")
    assert err == ""
    show(report(None), page=1)
    assert "lite is not calibrated for this kind of query" in capsys.readouterr().err


def test_the_table_says_what_matched_and_what_is_the_same(capsys):
    from reelspace.cli.search import show

    show(report(True, "/v/a\x1b[2J\udcff.mp4", matched={"text": 0.25, "image": 0.5}, copies=["/v/b.mp4"]), page=1)
    assert "text 0.25 image 0.50  /v/a\\x1b[2J\\xff.mp4 (and 1 copy)" in capsys.readouterr().out


# -- the others ----------------------------------------------------------------------------------------------------


def test_status(asking, footage, made):
    shown = asking("status").stdout.splitlines()
    assert shown[0] == f"Library  {made}"
    assert shown[1] == f"Folders  {footage}"
    assert shown[2] == "Files    2 indexed (2 videos, 5.0 s)"
    assert any(line.split()[:1] == ["lite"] and "active" in line for line in shown)
    result = asking("status", "--json")
    jsonschema.validate(json.loads(result.stdout), schema("status"))


def test_status_lists_failed_files_and_on_demand_the_excluded(reelspace):
    Path("v").mkdir()
    Path("v/notes.txt").write_text("x")
    for number in range(25):
        Path(f"v/{number:02}.mp4").write_bytes(b"junk" * 100 + bytes([number]))
    assert reelspace("index", "v").exit_code == 1
    short, whole = reelspace("status").stdout, reelspace("status", "--all").stdout
    assert short.count("failed: v/") == 20
    assert "… and 5 more: reelspace status --all" in short
    assert whole.count("failed: v/") == 25
    assert "notes.txt" in whole
    assert "notes.txt" not in short


def test_verify(asking):
    result = asking("verify", "--json")
    assert result.exit_code == 0, result.output
    assert VerifyReport.model_validate_json(result.stdout).ok
    said = asking("verify", "--sample", "1")
    assert said.stdout.startswith("Checked 2 files and ")
    assert said.stderr == "Nothing is wrong.\n"


def test_remove(reelspace, footage):
    assert reelspace("index", footage).exit_code == 0
    result = reelspace("remove", footage / "red.mp4")
    assert (result.exit_code, result.stderr) == (0, "Forgot 1 file.\n")
    assert (footage / "red.mp4").exists()
    assert json.loads(reelspace("remove", footage, "--json").stdout) == {"removed": 1}
    assert reelspace("remove", footage / "red.mp4").exit_code == 2


def test_models_and_use(asking):
    shown = asking("models").stdout.splitlines()
    assert shown[0].split() == ["model", "in", "the", "library"]
    assert any(line.startswith("lite") and "active" in line for line in shown)
    (lite,) = (row for row in json.loads(asking("models", "--json").stdout) if row["model"] == "lite")
    assert lite["spaces"][0]["active"]
    result = asking("use", "lite")
    assert result.exit_code == 0
    assert result.stderr == f"Searches use lite ({lite['spaces'][0]['fingerprint']}) now.\n"
    assert asking("use", "").exit_code == 2
    assert "no model of that name" in asking("use", "nonesuch").stderr
    assert asking("use", "no-such-model").exit_code == 2


def test_models_are_listed_without_a_library(reelspace):
    assert ["lite", "-"] in [line.split() for line in reelspace("models").stdout.splitlines()]


def test_models_show(reelspace):
    form = json.loads(reelspace("models", "show", "lite", "--json").stdout)
    assert form["name"] == "lite"
    assert f"fingerprint  {form['fingerprint']}" in reelspace("models", "show", "lite").stdout
    assert reelspace("models", "show", "no-such-model").exit_code == 2


def test_models_check(reelspace, plugin, monkeypatch):
    good = reelspace("models", "check", "sketch", "--json")
    assert (good.exit_code, json.loads(good.stdout)) == (0, {"model": "sketch", "violations": []})
    import sketch

    monkeypatch.setattr(sketch.Sketch, "fingerprint", "")
    broken = reelspace("models", "check", "sketch")
    assert (broken.exit_code, broken.stdout) == (1, "the fingerprint is empty\n")
    assert broken.stderr == "sketch breaks its contract.\n"


def test_another_model_stands_beside_and_can_be_used(reelspace, footage, plugin):
    assert reelspace("index", footage, "--model", "sketch").exit_code == 0
    assert reelspace("index", "--model", "sketch2").exit_code == 0
    first = json.loads(reelspace("search", "red", "--json").stdout)
    assert json.loads(reelspace("search", "red", "--model", "sketch2", "--json").stdout)["model"] == "sketch2"
    assert reelspace("use", "sketch2").exit_code == 0
    assert json.loads(reelspace("search", "red", "--json").stdout)["model"] == "sketch2"
    assert reelspace("use", "sketch").exit_code == 0
    assert json.loads(reelspace("search", "red", "--json").stdout) == first


def test_schema(reelspace):
    for name in ("search", "status"):
        assert json.loads(reelspace("schema", name).stdout) == schema(name)
    for name in ("index", "verify"):
        assert json.loads(reelspace("schema", name).stdout)["type"] == "object"
    assert reelspace("schema", "nothing").exit_code == 2


def test_doctor(asking, monkeypatch):
    result = asking("doctor")
    assert result.exit_code == 0, result.output
    names = [line.split()[1] for line in result.stdout.splitlines()[1:]]
    assert {"Python", "av", "typer", "FFmpeg", "model", "disk", "database", "library", "terminal"} <= set(names)
    checks = json.loads(asking("doctor", "--json").stdout)
    assert all(check["state"] in ("ok", "warn") for check in checks)

    from reelspace.cli import doctor

    monkeypatch.setattr(doctor, "_decoders", lambda: [doctor.Check("FFmpeg", "fail", "none", "pip install av")])
    broken = asking("doctor")
    assert broken.exit_code == 2
    assert "fail  FFmpeg" in broken.stdout
    assert "-> pip install av" in broken.stdout


def test_doctor_finds_a_library_that_cannot_be_read(reelspace):
    Path("library").mkdir()
    Path("library/catalogue.sqlite").write_bytes(b"no database" * 99)
    result = reelspace("doctor", "--json")
    assert result.exit_code == 2
    assert [check["name"] for check in json.loads(result.stdout) if check["state"] == "fail"] == ["library"]


def test_names_of_any_kind_go_through(reelspace):
    write_clip("猫 [x] 👩\u200d👧 שלום.mp4", seconds=1, size=(64, 48))
    Path("猫 [x] 👩\u200d👧 שלום.mp4").rename(os.fsdecode(b"\xff \x1b[31m.mp4"))
    assert reelspace("index", ".").exit_code == 0
    table, found = reelspace("search", "x"), reelspace("search", "x", "--json")
    assert "\\xff \\x1b[31m.mp4" in table.stdout
    assert "\x1b" not in table.stdout + found.stdout
    (hit,) = json.loads(found.stdout)["hits"]
    assert hit["path"] == Path(os.fsdecode(b"\xff \x1b[31m.mp4")).absolute().as_uri()
    # What was printed names the file to the commands that read it.
    Path("found.json").write_text(found.stdout, encoding="utf-8")
    done = reelspace("cut", "--from", "found.json", "-o", "cut.mp4", "--json")
    assert done.exit_code == 0, done.output
    assert reelspace("export", "found.json", "--format", "edl", "--fps", "25").exit_code == 0
    assert hit["path"] in reelspace("export", "found.json", "--format", "m3u").stdout


def test_models_does_not_hide_a_damaged_library(reelspace, tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "catalogue.sqlite").write_bytes(b"no database " * 500)
    assert reelspace("models", "--library", tmp_path / "damaged").exit_code == 2
    assert reelspace("models", "--library", tmp_path / "none").exit_code == 0
