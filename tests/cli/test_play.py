import sys
from pathlib import Path

import pytest

from reelspace.answers import Hit
from reelspace.cli import play


@pytest.fixture
def player(tmp_path, monkeypatch):
    """Makes a program of that name, the only ones there are, that writes down its arguments."""

    def make(name):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f'#!{sys.executable}\nimport sys\nopen({str(tmp_path / "seen")!r}, "a").write(repr(sys.argv[1:]))\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))

    return make


def hit(path="/v/-odd name.mp4"):
    return Hit(rank=1, path=path, start=64.25, end=70, score=0.5, video="ab")


@pytest.mark.skipif(sys.platform != "linux", reason="what opens files is named otherwise elsewhere")
def test_the_best_player_there_is_starts_at_the_moment(player):
    player("xdg-open")
    assert play.command(hit())[1:] == ["/v/-odd name.mp4"]
    player("vlc")
    assert play.command(hit())[1:] == ["--start-time=64.250", "--", "/v/-odd name.mp4"]
    player("mpv")
    assert Path(play.command(hit())[0]).name == "mpv"
    assert play.command(hit())[1:] == ["--start=64.250", "--", "/v/-odd name.mp4"]


def test_it_is_started(player, tmp_path, capsys):
    player("mpv")
    started = play.play(hit())
    assert started is not None
    assert started.wait(timeout=10) == 0
    assert "at 1:04.2." in capsys.readouterr().err
    assert (tmp_path / "seen").read_text() == repr(["--start=64.250", "--", "/v/-odd name.mp4"])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows always has a player")
def test_without_a_player_it_says_which_to_install(tmp_path, monkeypatch, capsys):
    import typer

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        play.play(hit())
    assert ended.value.exit_code == 2
    assert "install mpv or VLC" in capsys.readouterr().err
