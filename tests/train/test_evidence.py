"""Reports of committed results are what the commands that they name make of them, byte for byte."""

import json
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"


def test_the_ablations_report_is_made_of_its_results(tmp_path):
    readme = (RECIPES / "pyramid-ablation" / "README.md").read_text("utf-8")
    (line,) = (line for line in readme.splitlines() if line.startswith("report: "))
    python, *rest = shlex.split(line.removeprefix("report: "))
    assert python == "python"
    subprocess.run([sys.executable, *rest, "--output", str(tmp_path / "report.md")], cwd=ROOT, check=True)
    assert (tmp_path / "report.md").read_bytes() == (RECIPES / "pyramid-ablation" / "report.md").read_bytes()


@pytest.mark.parametrize("name", ["stages", "further"])
def test_the_other_reports_are_made_of_their_results(tmp_path, name):
    folder = RECIPES / "pyramid-ablation"
    command = [folder / "report.py", "--settings", folder / f"{name}.toml", "--output", tmp_path / "made.md"]
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    assert (tmp_path / "made.md").read_bytes() == (folder / f"{name}.md").read_bytes()


def test_vidvecs_run_is_the_papers():
    from reelspace.embed.presets import contract
    from reelspace.train.config import read

    made = read(RECIPES / "vidvec-o" / "run.yaml")
    assert (made.lora.rank, made.lora.alpha, made.epochs, made.loss.kind) == (64, 128, 1, "dual-softmax")
    told = contract(made.model)
    assert told["position"] == -1 and told["layer"] == 24
    assert all("in one word" in told["user"][kind] for kind in ("text", "video"))


def test_text_only_tunings_table_is_made_of_its_ranks():
    made = runpy.run_path(str(RECIPES / "vidvec-o" / "worlds.py"))
    found = json.loads((RECIPES / "vidvec-o" / "worlds.json").read_text("utf-8"))
    assert made["report"](found) == (RECIPES / "vidvec-o" / "worlds.md").read_text("utf-8")
