import io
import sys

import pytest
import typer

from reelspace.cli import terminal
from reelspace.errors import ExitCode, MediaError, ReelspaceError


def test_a_name_cannot_move_the_cursor_or_reorder_the_line():
    assert terminal.printable("a\x1b[31m\r\n\t\x07\x9bz") == r"a\x1b[31m\r\n\t\x07\x9bz"
    assert terminal.printable("gpj.\u202egnp\u2066\u2028") == r"gpj.\u202egnp\u2066\u2028"
    assert terminal.printable("bytes \udcff\udc80") == r"bytes \xff\x80"
    assert terminal.printable("\ud83d") == r"\ud83d"
    fine = "fête 猫\u3000カメラ סרטון 👩\u200d👩\u200d👧 a\u00a0b [bold] \\x1b"
    assert terminal.printable(fine) == fine


def test_a_path_is_relative_inside_the_current_folder_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert terminal.shown_path(tmp_path / "a" / "b.mp4") == "a/b.mp4"
    assert terminal.shown_path(tmp_path.parent / "b.mp4") == str(tmp_path.parent / "b.mp4")
    assert terminal.shown_path("new\nline.mp4") == r"new\nline.mp4"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0:00.0"),
        (4.24, "0:04.2"),
        (59.96, "1:00.0"),
        (750, "12:30.0"),
        (3599.97, "1:00:00.0"),
        (3723.5, "1:02:03.5"),
    ],
)
def test_clock(seconds, shown):
    from reelspace.item import parse_seconds

    assert terminal.clock(seconds) == shown
    assert parse_seconds(shown) == pytest.approx(seconds, abs=0.051)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0.0 s"), (59.96, "1 min 00 s"), (750, "12 min 30 s"), (3599.7, "1 h 00 min"), (36300, "10 h 05 min")],
)
def test_lasting(seconds, shown):
    assert terminal.lasting(seconds) == shown


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ReelspaceError("a: b.\x1b"), 2, "reelspace: a: b.\\x1b\n"),
        (MediaError("x.mp4: has no video in it."), 2, "reelspace: x.mp4: has no video in it.\n"),
        (PermissionError(13, "Permission denied", "/x"), 2, "reelspace: /x: Permission denied\n"),
        (KeyboardInterrupt(), 130, "reelspace: Interrupted.\n"),
        (typer.Exit(1), 1, ""),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(error, code, said, capsys):
    with pytest.raises(typer.Exit) as ended, terminal.answering():
        raise error
    assert ended.value.exit_code == code
    assert capsys.readouterr() == ("", said)


def test_a_bug_stays_a_bug():
    with pytest.raises(ZeroDivisionError), terminal.answering():
        raise ZeroDivisionError


def test_any_text_can_be_printed_whatever_the_encoding():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    terminal.robust(stream)
    stream.write("猫\udcff")
    stream.flush()
    assert raw.getvalue() == rb"\u732b\udcff"


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_lines_are_folded_on_a_terminal_only_and_paths_stay_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    for stream, folded in ((Screen(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stdout", stream)
        terminal.tell("failed: /a/very/long/path/of/a/file.mp4: cut off", indent="  ")
        expected = "failed:\n  /a/very/long/path/of/a/file.mp4:\n  cut off\n" if folded else None
        assert stream.getvalue() == (expected or "failed: /a/very/long/path/of/a/file.mp4: cut off\n")


def test_a_table_is_coloured_and_folded_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    name = "a-long-name-" * 5 + ".mp4"

    def printed(stream):
        monkeypatch.setattr(sys, "stdout", stream)
        made = terminal.table("n", "name", right=("n",))
        made.add_row("1", name)
        terminal.print_table(made)
        return stream.getvalue()

    assert printed(io.StringIO()) == f"n  name\n1  {name}\n"
    on_screen = printed(Screen())
    assert "\x1b[1m" in on_screen
    assert name not in on_screen
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(Screen())


def test_exit_codes_are_the_documented_ones():
    assert {code.name: int(code) for code in ExitCode} == {"OK": 0, "SOME_FAILED": 1, "UNUSABLE": 2, "INTERRUPTED": 130}
