import unicodedata

import pytest

from reelspace.errors import ItemError
from reelspace.index.globs import matcher


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.mov", "a/b.mov", True),
        ("*.mov", "a/b.mov.txt", False),
        ("*.mov", "a.mov/b.mp4", True),  # a folder covers what is in it
        ("rushes", "2024/rushes/a.mp4", True),
        ("rushes", "2024/rushes2/a.mp4", False),
        ("2024/*/raw", "x/2024/may/raw/a.mp4", True),
        ("2024/*/raw", "x/2024/may/june/raw/a.mp4", False),
        ("2024/**/raw", "x/2024/may/june/raw/a.mp4", True),
        ("2024/**/raw", "x/2024/raw/a.mp4", True),
        ("2024/**", "2024/a.mp4", True),
        ("/home", "/home/me/a.mp4", True),
        ("/home", "/srv/home/a.mp4", False),
        ("home/", "/srv/home/a.mp4", True),
        ("a?c.mp4", "abc.mp4", True),
        ("a?c.mp4", "a/c.mp4", False),
        ("[!a]b", "xb", True),
        ("[!a]b", "a/b", False),  # never across a slash
        ("*.MOV", "a.mov", False),
        ("a.mp4", "axmp4", False),
    ],
)
def test_patterns(pattern, path, expected):
    assert matcher([pattern])(path) is expected


def test_any_pattern_suffices_and_none_matches_nothing():
    assert matcher(["x", "*.mp4"])("a.mp4")
    assert not matcher([])("a.mp4")


def test_accents_match_however_they_are_encoded():
    composed, decomposed = (unicodedata.normalize(form, "été.mp4") for form in ("NFC", "NFD"))
    assert composed != decomposed
    assert matcher([composed])(f"a/{decomposed}")
    assert matcher([decomposed])(f"a/{composed}")


def test_a_name_may_hold_a_newline():
    assert matcher(["a*.mp4"])("a\nb.mp4")
    assert not matcher(["b*"])("a\nb.mp4")


@pytest.mark.parametrize("pattern", ["", "/", ".", "./", "//"])
def test_pattern_that_names_nothing_is_refused(pattern):
    with pytest.raises(ItemError, match="names nothing"):
        matcher(["*.mp4", pattern])


def test_repeated_double_stars_are_one():
    assert matcher(["/a/**/**/**/b"])("/a/x/y/b")
    assert not matcher(["**/" * 30 + "nowhere"])("/a" * 40)
