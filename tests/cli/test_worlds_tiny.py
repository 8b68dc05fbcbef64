import json
import sys

from typer.testing import CliRunner

from reelspace.cli import app

RECIPE = """
steps = 1
exam = 4
vocabulary = 40

[shape]
hidden = 32
layers = 1
heads = 1
inner = 32
vision_hidden = 32
vision_layers = 1
vision_inner = 32

[batch]
video = 2
image = 1
text = 1
paired = 2

[[plan]]
until = 1.0
worlds = {easy = 1.0}
contrast = 1.0
judged = 0.3
turns = 2
"""


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
