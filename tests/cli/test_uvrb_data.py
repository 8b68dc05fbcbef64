"""`reelspace uvrb fetch`, `check` and `sweep`."""

import json
import os
import subprocess
import sys

import pytest

from uvrb.conftest import clips, data, write_task  # noqa: F401
from uvrb.hub import Hub


def test_check_lists_what_is_wrong(reelspace, data):  # noqa: F811
    done = reelspace("uvrb", "check", "MSRVTT", "--data", data)
    assert done.exit_code == 0, done.output  # short clips can be used
    (data / "MSRVTT" / "videos" / "red.mp4").unlink()
    done = reelspace("uvrb", "check", "MSRVTT", "--data", data, "--json")
    assert done.exit_code == 1
    (report,) = json.loads(done.stdout)
    missing = [problem for problem in report["problems"] if problem["kind"] == "missing"]
    assert [(problem["file"], problem["used"]) for problem in missing] == [("videos/red.mp4", ["v-red"])]


def test_fetch_says_how_much_it_is_and_gets_it(clips, tmp_path):  # noqa: F811
    pytest.importorskip("huggingface_hub")
    folder = write_task(tmp_path / "hub", clips, "MSRVTT", ("red", "blue"))
    files = {str(path.relative_to(folder.parent)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    hub = Hub("someone/UVRB", files)
    environment = os.environ | {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

    def fetch(*more):
        command = [sys.executable, "-m", "reelspace", "uvrb", "fetch", "MSRVTT", "--repository", "someone/UVRB"]
        ran = subprocess.run(
            [*command, "-o", str(tmp_path / "data"), "--json", *more],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout), ran.stderr

    size = sum(map(len, files.values()))
    told, said = fetch("--dry-run")
    assert told["tasks"] == [{"task": "MSRVTT", "bytes": size, "files": len(files)}]
    assert "terms" in said and not (tmp_path / "data").exists()
    assert fetch()[0]["fetched"] is True
    assert (tmp_path / "data" / "MSRVTT" / "videos" / "red.mp4").read_bytes() == files["MSRVTT/videos/red.mp4"]
    hub.close()
    assert fetch()[0]["tasks"] == [{"task": "MSRVTT", "bytes": 0, "files": 0}]


def test_sweep(reelspace, data, tmp_path):  # noqa: F811
    options = ("--data", data, "--model", "lite", "--tasks", "MSRVTT", "--limit", "2", "-o", "out", "--cache", "cache")
    done = reelspace("uvrb", "sweep", *options, "--frames", "2,1")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0].split() == ["frames", "1", "2"]
    assert (tmp_path / "out" / "sweep.svg").read_text().startswith("<svg")
    for wrong, message in (([], "What is varied"), (["--frames", "a"], "no list"), (["--tokens", "100"], "no budget")):
        done = reelspace("uvrb", "sweep", *options, *wrong)
        assert done.exit_code == 2
        assert message in done.output
