import re
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from reelspace.cli import app

COMMANDS = sorted(get_command(app).commands)
PAGES = [
    [],
    *([name] for name in COMMANDS),
    ["models", "show"],
    ["models", "check"],
    ["models", "parity"],
    ["models", "probe-layers"],
]
HEAVY = ("numpy", "av", "PIL", "onnxruntime", "rich", "torch", "transformers", "sqlite3", "platformdirs")


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), terminal_width=100)


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_every_command_has_help_with_examples(page):
    result = run(*page, "--help")
    assert result.exit_code == 0, result.output
    assert result.output == run(*page, "-h").output
    assert page == [] or re.search(r"^  Examples?$", result.output, re.MULTILINE)
    assert f"    reelspace {' '.join(page)}".rstrip() in result.output
    assert all(len(line) <= 100 for line in result.output.splitlines())


def test_the_front_page_lists_every_command_with_a_whole_sentence():
    lines = run("--help").output.split("Commands:\n")[1].splitlines()
    assert sorted(line.split()[0] for line in lines) == COMMANDS
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def test_without_a_command_the_front_page_is_shown():
    assert "Commands:" in run().output


def test_version():
    from reelspace import __version__

    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"reelspace {__version__}\n")


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_help_loads_nothing_heavy(page):
    heavy = HEAVY if page else (*HEAVY, "pydantic")  # Typer itself reads options by pydantic
    code = f"""
import sys
from reelspace.cli import main
sys.argv = ["reelspace", *{page!r}, "--help"]
try:
    main()
finally:
    print(*[name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: reelspace")
    assert done.stderr.split() == []


@pytest.mark.parametrize(
    "wrong", [["no-such-command"], ["search", "--no-such-option"], ["search", "x", "-k", "0"], ["remove"]], ids=" ".join
)
def test_wrong_usage_is_2(wrong):
    result = run(*wrong)
    assert result.exit_code == 2
    assert "Usage: " in result.output
