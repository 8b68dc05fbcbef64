"""The pictures of the page on worlds."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "worlds.md"


def test_pictures_are_there_and_small():
    pictures = [PAGE.parent / name for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE.read_text())]
    assert len(pictures) == 6
    assert sum(picture.stat().st_size for picture in pictures) < 1_000_000
