"""Every command of the docs runs, and prints what its page says: the same lines, the same best hit."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("console", Path(__file__).with_name("console.py"))
console = importlib.util.module_from_spec(_spec)
sys.modules["console"] = console
_spec.loader.exec_module(console)

PAGES = ("docs/bench.md", "docs/cli.md", "docs/search.md", "docs/signals.md", "docs/embedders.md")
_PASSING = re.compile(r"^\s*([2-9]|\d\d+)\s+\d+:\d\d|^\d+ of \d+ files")  # lower ranks, and progress when slow


def plain(line):
    """A line without what a better model changes: numbers, hashes, and the width of columns."""
    return re.sub(r"\b[0-9a-f]{16,}\b|-?\d+(\.\d+)?(e-\d+)?", "N", " ".join(line.split()))


def lasting(text):
    """The lines that a page must have, whatever the model and the machine."""
    return {plain(line) for line in text.splitlines() if not _PASSING.match(line)}


@pytest.mark.skipif(sys.platform == "win32", reason="the examples are written for a POSIX shell")
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of(page, tmp_path):
    desk = console.Desk(tmp_path)
    shown = list(console.examples((console.ROOT / page).read_text("utf-8")))
    assert shown
    for example in shown:
        done = desk.run(example.command, both=True)
        assert done.returncode == 0, f"$ {example.command}\n{done.stdout}"
        printed, said = (lasting(text) for text in (desk.plain(done.stdout), example.output))
        assert printed == said, f"$ {example.command}: run `python tests/e2e/console.py {page}`"
