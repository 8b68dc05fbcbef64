import json
import sys

from typer.testing import CliRunner

from recipe import RECIPE
from reelspace.cli import app


def test_a_recipe_is_trained_and_examined(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    made = CliRunner().invoke(app, ["worlds", "train", str(recipe), "--output", str(tmp_path / "tiny")])
    assert made.exit_code == 0, made.output
    done = CliRunner().invoke(app, ["worlds", "exam", str(tmp_path / "tiny"), "--world", "easy", "--count", "4"])
    assert done.exit_code == 0, done.output
    scores = json.loads(done.stdout)
    assert scores["captions"]["colour"]["n"] == 4
    assert scores["retrieval"]["layer 1"]["chance"] == 0.25


def test_without_torch_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["worlds", "exam", str(tmp_path)])
    assert "reelspace[torch]" in (str(done.exception) + done.output)
