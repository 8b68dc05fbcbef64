"""The ```console blocks of the docs: real commands with real output.

`python tests/e2e/console.py docs/cli.md …` runs them again and writes what they print now into the page.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A command line, and what the page says it prints."""

    command: str
    output: str


def examples(page: str) -> Iterator[Example]:
    """The commands of a page, in order: the lines that begin with `$`."""
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Example(command, output.rstrip("\n"))


class Desk:
    """A folder with the samples and the talks, a library of its own, and `reelspace` on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "samples", folder / "samples", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "docs" / "talks", folder / "talks", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        program = folder / "bin" / "reelspace"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m reelspace "$@"\n')
        program.chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "REELSPACE_LIBRARY": str(folder / "library"),
        }

    def run(self, command: str, both: bool = False) -> subprocess.CompletedProcess[str]:
        """Runs a command line in the shell; `both` joins standard error to standard output, as a terminal does."""
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            check=False,
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if both else subprocess.PIPE,
        )

    def plain(self, printed: str) -> str:
        """What was printed, as on a page: the folder has a name, and what cannot be seen is left out."""
        return printed.replace(str(self.folder), "/home/me").replace("\ufeff", "")

    def rewritten(self, page: str) -> str:
        """The page with the output that its commands have now."""

        def block(match: re.Match[str]) -> str:
            ran = []
            for part in re.split(r"^\$ ", match[0], flags=re.MULTILINE)[1:]:
                command = part.partition("\n")[0]
                printed = self.plain(self.run(command, both=True).stdout)
                ran.append(f"$ {command}\n{printed}")
            return "\n".join(ran)

        return _BLOCK.sub(block, page)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(name)
            path.write_text(Desk(Path(temporary)).rewritten(path.read_text("utf-8")), "utf-8")
