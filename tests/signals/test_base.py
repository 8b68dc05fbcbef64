import pytest

from reelspace.signals.base import SignalError, installed, parse_by, parse_signals


def test_signals_come_once_in_their_order():
    assert parse_signals("ocr, names,ocr") == ("names", "ocr")
    assert parse_signals(["speech,ocr", "names"]) == ("names", "speech", "ocr")
    assert parse_signals("") == ()
    with pytest.raises(SignalError, match="smell"):
        parse_signals("smell")


def test_what_a_search_goes_by():
    assert parse_by("named,seen") == ("seen", "named")
    with pytest.raises(SignalError, match="felt"):
        parse_by("felt")
    with pytest.raises(SignalError, match="nothing"):
        parse_by("")


def test_what_is_not_installed_is_said_with_what_to_do():
    with pytest.raises(SignalError, match=r'pip install "reelspace\[speech\]"'):
        installed("no-such-package-anywhere", "speech")
