"""`reelspace doctor`."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

import typer

from reelspace.cli.terminal import JsonOption, LibraryOption, counted, print_json, print_table, printable, say, table
from reelspace.errors import ExitCode, ReelspaceError

_LITTLE = 2 * 10**9  # bytes free at the library below which to warn
_DECODERS = {"H.264": ("h264",), "HEVC": ("hevc",), "VP9": ("vp9",), "AV1": ("libdav1d", "libaom-av1")}
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


class Check(NamedTuple):
    """One thing looked at: how it is, and what to do when it is not well."""

    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str = ""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor")(doctor)


def doctor(library: LibraryOption = None, json: JsonOption = False) -> None:
    """Check that everything needed is here and works.

    Says what to do where it does not. The exit code is 2 when a check fails; warnings leave it 0.

    \b
    Examples
      reelspace doctor
      reelspace doctor --json
    """
    checks = [check for examine in examinations(library) for check in examine()]
    if json:
        print_json([check._asdict() for check in checks])
    else:
        from rich.text import Text

        made = table("", "check", "found")
        for check in checks:
            remedy = f" -> {check.remedy}" if check.remedy else ""
            made.add_row(Text(check.state, style=_COLOURS[check.state]), check.name, printable(check.detail + remedy))
        print_table(made)
        failed = sum(check.state == "fail" for check in checks)
        say(f"{counted(failed, 'check')} failed." if failed else "All is well enough to work.")
    raise typer.Exit(ExitCode.UNUSABLE if any(check.state == "fail" for check in checks) else ExitCode.OK)


def examinations(library: Path | None) -> list[Callable[[], list[Check]]]:
    """The checks, in the order they are printed."""
    return [_python, _packages, _decoders, _model, lambda: _place(library), lambda: _library(library), _terminal]


def _python() -> list[Check]:
    machine = f"{platform.system()} {platform.machine()}, {counted(os.cpu_count() or 1, 'CPU')}"
    return [Check("Python", "ok", f"{platform.python_version()} on {machine}")]


def _packages() -> list[Check]:
    """The packages that the base install asks for, by its own metadata."""
    try:
        wanted = requires("reelspace") or []
    except PackageNotFoundError:
        return [Check("packages", "warn", "reelspace is not installed, only importable", "pip install reelspace")]
    from packaging.requirements import Requirement

    checks = []
    for requirement in map(Requirement, wanted):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            checks.append(Check(requirement.name, "fail", "missing", f"pip install '{requirement}'"))
            continue
        good = requirement.specifier.contains(found, prereleases=True)
        remedy = "" if good else f"pip install '{requirement}'"
        checks.append(Check(requirement.name, "ok" if good else "fail", found, remedy))
    return checks


def _decoders() -> list[Check]:
    try:
        import av
    except ImportError as error:
        return [Check("FFmpeg", "fail", str(error), "pip install --force-reinstall av")]
    lacking = [name for name, codecs in _DECODERS.items() if not any(c in av.codecs_available for c in codecs)]
    if lacking:
        remedy = "pip install --force-reinstall --only-binary av av"
        return [Check("FFmpeg", "warn", f"{av.ffmpeg_version_info} cannot decode {', '.join(lacking)}", remedy)]
    return [Check("FFmpeg", "ok", f"{av.ffmpeg_version_info}, decodes {', '.join(_DECODERS)}")]


def _model() -> list[Check]:
    """Loads all parts of the built-in model, which checks its data, and asks it for vectors."""
    import numpy as np

    from reelspace.embed import DEFAULT_MODEL, load
    from reelspace.item import Item

    try:
        model = load()
        model.encode_query([Item("a dog"), Item(image=np.zeros((8, 8, 3), dtype=np.uint8))])
    except (ReelspaceError, OSError, ImportError) as error:
        return [Check("model", "fail", f"{DEFAULT_MODEL}: {error}", "pip install --force-reinstall reelspace")]
    return [Check("model", "ok", f"{model.name}, {model.dim} dimensions, fingerprint {model.fingerprint}")]


def _place(library: Path | None) -> list[Check]:
    """Disk space and the database's journal where the library is, or would be made."""
    from reelspace.library import default_location

    place = library or default_location()
    there = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    state: Literal["ok", "warn"] = "ok" if free >= _LITTLE else "warn"
    space = Check("disk", state, f"{free / 1e9:.1f} GB free at {there}", "" if state == "ok" else "make room")
    return [space, _database(there)]


def _database(folder: Path) -> Check:
    import sqlite3

    found = f"SQLite {sqlite3.sqlite_version}"
    try:
        with (
            tempfile.TemporaryDirectory(dir=folder, prefix=".reelspace-doctor-") as trial,
            closing(sqlite3.connect(Path(trial) / "trial.sqlite")) as connection,
        ):
            journal = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
    except (OSError, sqlite3.Error) as error:
        return Check(
            "database", "fail", f"{found}: {folder} cannot be used for a library ({error})", "choose a --library DIR"
        )
    if journal != "wal":
        remedy = "choose a --library DIR on a local disk"
        return Check("database", "fail", f"{found} has no write-ahead log at {folder}", remedy)
    return Check("database", "ok", f"{found}, write-ahead log")


def _library(library: Path | None) -> list[Check]:
    from reelspace.errors import LibraryError
    from reelspace.library import Library, default_location

    place = library or default_location()
    if not place.exists():
        return [Check("library", "ok", f"none yet at {place}", "reelspace index PATH makes it")]
    try:
        with Library.open(library, create=False) as opened:
            report = opened.status()
    except LibraryError as error:
        return [Check("library", "fail", str(error))]
    found = f"{place}: {counted(report.indexed, 'file')} indexed, {report.failed} failed, {report.missing} missing"
    if report.failed or report.missing:
        return [Check("library", "warn", found, "reelspace status; reelspace index --retry --prune")]
    return [Check("library", "ok", found)]


def _terminal() -> list[Check]:
    encoding = (sys.stdout.encoding or "unknown").lower()
    found = (
        f"{encoding}, {shutil.get_terminal_size().columns} columns, {'' if sys.stdout.isatty() else 'not '}a terminal"
    )
    if encoding.replace("-", "") != "utf8":
        return [Check("terminal", "warn", found, "set PYTHONUTF8=1, or a UTF-8 locale")]
    return [Check("terminal", "ok", found)]
