"""What the commands share: what they print, how they fail, and the options that mean the same everywhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from reelspace.errors import ExitCode, ReelspaceError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.table import Table

LibraryOption = Annotated[
    Path | None,
    typer.Option(
        "--library",
        metavar="DIR",
        help="The library's folder; else $REELSPACE_LIBRARY, else one in your data directory.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer as JSON on standard output.")]

_WIDE = 10_000  # columns of what is not a terminal: nothing is folded there
_BIDI = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # reorder the text around them


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Turns what can go wrong in a command into one line on stderr and an exit code."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except ReelspaceError as error:
        raise fail(str(error), error.exit_code) from None
    except BrokenPipeError:  # the reader has seen what it wanted: `reelspace … | head`
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.OK) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise fail(f"{where}{error.strerror or error}", ExitCode.UNUSABLE) from None
    except KeyboardInterrupt:
        raise fail("Interrupted.", ExitCode.INTERRUPTED) from None


def fail(message: str, code: ExitCode = ExitCode.UNUSABLE) -> typer.Exit:
    """Prints why on stderr; raise what it returns."""
    say(f"reelspace: {message}")
    return typer.Exit(code)


def say(message: str, indent: str = "") -> None:
    """A line for the person, on stderr; `indent` stands before what does not fit in the first line."""
    typer.echo(_wrapped(printable(message, keep="\n"), indent, sys.stderr), err=True)


def tell(message: str, indent: str = "") -> None:
    """A line of the answer, on stdout."""
    typer.echo(_wrapped(printable(message, keep="\n"), indent, sys.stdout))


def _wrapped(text: str, indent: str, stream: TextIO) -> str:
    """Folded between words on a terminal; a longer word, such as a path, stays whole for copying."""
    if not stream.isatty():
        return text
    import textwrap

    width = max(20, shutil.get_terminal_size().columns)
    folded = (
        textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
    return "\n".join("\n".join(lines) for lines in folded)


def robust(*streams: TextIO) -> None:
    """Lets a stream print any text: what its encoding lacks comes out as an escape instead of an error."""
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def printable(text: str, keep: str = "") -> str:
    r"""`text` without what would move a cursor or reorder a line: such characters as `\x1b`, bytes as `\xff`."""

    def escape(c: str) -> str:
        if c in keep or not (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in _BIDI):
            return c
        if "\udc80" <= c <= "\udcff":
            return f"\\x{ord(c) - 0xDC00:02x}"
        return c.encode("unicode_escape").decode()

    return "".join(map(escape, text))


def shown_path(path: str | Path) -> str:
    """A path as a person reads it: relative when it is inside the current folder, and printable."""
    with contextlib.suppress(ValueError, OSError):
        path = Path(path).relative_to(Path.cwd())
    return printable(str(path))


def clock(seconds: float) -> str:
    """`0:04.2`, `12:30.0`, `1:02:03.5`."""
    tenths = round(seconds * 10)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02d}" if hours else f"{minutes}") + f":{rest // 10:02d}.{rest % 10}"


def lasting(seconds: float) -> str:
    """`4.2 s`, `12 min 30 s`, `3 h 05 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def counted(number: int, noun: str) -> str:
    """`1 file`, `12,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def console(stderr: bool = False) -> Console:
    """Where tables and progress go: in colour and folded to the width on a terminal, plain and unfolded elsewhere."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines; its last column takes what is left and folds."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        last = name == columns[-1]
        made.add_column(name, justify="right" if name in right else "left", no_wrap=not last, overflow="fold")
    return made


def print_table(made: Table) -> None:
    """Prints a table on stdout, without blanks at the ends of lines where it is not a terminal."""
    screen = console()
    if screen.is_terminal:
        screen.print(made)
        return
    with screen.capture() as capture:
        screen.print(made)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def print_json(report: BaseModel | Any) -> None:
    """A report (or plain data) as indented JSON on stdout."""
    import json

    typer.echo(report.model_dump_json(indent=2) if hasattr(report, "model_dump_json") else json.dumps(report, indent=2))
