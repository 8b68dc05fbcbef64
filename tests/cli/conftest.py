import pytest
from typer.testing import CliRunner

from clips import Scene, write_clip
from reelspace.cli import app

SIZE = (256, 144)


@pytest.fixture
def reelspace(monkeypatch, tmp_path):
    """Runs a command in `tmp_path`, on a library of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REELSPACE_LIBRARY", str(tmp_path / "library"))

    def run(*arguments, stdin=None):
        return CliRunner().invoke(app, list(map(str, arguments)), input=stdin)

    return run


@pytest.fixture(scope="session")
def footage(tmp_path_factory):
    """Two short videos that a colour word tells apart."""
    folder = tmp_path_factory.mktemp("footage")
    write_clip(folder / "red.mp4", scenes=[Scene(2, (200, 20, 20))], size=SIZE, fps=10, barcode=False)
    write_clip(folder / "blue sky.mp4", scenes=[Scene(3, (20, 20, 220))], size=SIZE, fps=10, barcode=False)
    return folder


@pytest.fixture(scope="session")
def made(footage, tmp_path_factory):
    """A library of `footage`."""
    library = tmp_path_factory.mktemp("made") / "library"
    result = CliRunner().invoke(app, ["index", str(footage), "--library", str(library)])
    assert result.exit_code == 0, result.output
    return library


@pytest.fixture
def asking(reelspace, made, monkeypatch):
    """Runs a command on the library of `footage`."""
    monkeypatch.setenv("REELSPACE_LIBRARY", str(made))
    return reelspace
