"""Every Python block in the documentation runs: per page from top to bottom, beside the samples, the talks and
`holiday.mp4`."""

import re
from pathlib import Path

import pytest

from clips import Scene, write_clip

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for page in (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")) if "```python\n" in page.read_text("utf-8")
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REELSPACE_LIBRARY", str(tmp_path / "users-library"))
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    (tmp_path / "talks").symlink_to(ROOT / "docs" / "talks")
    write_clip(tmp_path / "holiday.mp4", scenes=[Scene(3, seed=1), Scene(4, seed=2)], audio=True)
    text, names = page.read_text("utf-8"), {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(page), "exec"), names)
