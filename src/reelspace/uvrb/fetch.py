"""Tasks' data from the hub: sizes first, only what is missing, resumed, verified; nothing is re-hosted.

What has been fetched is remembered in `fetched.json` of the folder, with the commit it came from: the hub is asked
again only for tasks that are not whole. The hub's own client does the transfer; `HF_ENDPOINT`, `HF_HUB_OFFLINE` and
tokens mean what they mean there.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

from reelspace.errors import ReelspaceError
from reelspace.uvrb.data import find
from reelspace.uvrb.results import write_text

REPOSITORY = "Alibaba-NLP/UVRB"
TRIES = 5
_RECORD = "fetched.json"
_ARCHIVE = re.compile(
    r"(?P<base>.+\.(?:tar|tar\.gz|tgz|zip))(?P<part>[._-](?!md5|sha|txt|json)(?:part)?[-_.]?[0-9a-z]{1,4})?"
)
Result = TypeVar("Result")

NOTES = {
    "LoVR": "The source videos of LoVR may be used to build an index, and not be passed on. Keep them to yourself.",
}
"""Beginning of a task's name → what its sources' licence asks for, where that is known to be more than usual."""
USUAL = (
    "UVRB is made of other data sets, each under terms of its own, mostly for research alone. The terms are those of "
    "the sources: read them on the pages of the repository and of each data set before you use or pass on a file."
)


@dataclass(frozen=True)
class Remote:
    """A file of the repository.

    Attributes:
        name: its path there.
        size: bytes.
        sha256: of the content; None of small files, which have `blob`.
        blob: git's hash of them.
    """

    name: str
    size: int
    sha256: str | None
    blob: str | None


@dataclass
class Plan:
    """What is to be fetched for a task.

    Attributes:
        task: its name.
        commit: of the repository; empty where the task is whole already.
        files: all that belong to it.
        missing: those that are not there and verified.
    """

    task: str
    commit: str = ""
    files: list[Remote] = field(default_factory=list)
    missing: list[Remote] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes to transfer."""
        return sum(file.size for file in self.missing)


class Fetcher:
    """Fetches tasks into a folder.

    Args:
        folder: where to.
        repository: on the hub.
        revision: a branch, tag or commit of it.
        endpoint: the hub's address; None: the usual one.
        wait: called with the seconds to wait before another try.
    """

    def __init__(
        self,
        folder: Path,
        repository: str = REPOSITORY,
        revision: str = "main",
        endpoint: str | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder, self._repository, self._revision = folder, repository, revision
        self._endpoint, self._wait = endpoint, wait
        self._record: dict[str, Any] = {"repository": repository, "files": {}, "tasks": {}}
        path = folder / _RECORD
        if path.exists():
            self._record = json.loads(path.read_text("utf-8"))
        if self._record["repository"] != repository:
            raise ReelspaceError(f"{folder} holds data of {self._record['repository']}, not of {repository}.")

    def plan(self, tasks: Sequence[str]) -> list[Plan]:
        """What is to be fetched. The hub is asked only if a task is not whole.

        Raises:
            ReelspaceError: the hub cannot be reached, or has no such task.
        """
        plans = {task: Plan(task) for task in tasks}
        lacking = [task for task in tasks if not self._whole(task)]
        if not lacking:
            return list(plans.values())
        commit, files = self._tried(self._listed)
        for task in lacking:
            own = [file for file in files if belongs(file.name, task)]
            if not own:
                raise ReelspaceError(f"{self._repository} has no files of {task}; is that how it is called there?")
            missing = [file for file in own if not self._known(file)]
            plans[task] = Plan(task, commit, own, missing)
        return list(plans.values())

    def fetch(self, plan: Plan, step: Callable[[str, int, int], None] = lambda name, done, total: None) -> Path:
        """Fetches, verifies and unpacks a task. Returns its folder.

        Args:
            plan: from `plan`.
            step: called with a file's name, bytes done and bytes in all.

        Raises:
            ReelspaceError: there is no room, the hub fails again and again, or a file comes out wrong.
        """
        if not plan.commit:
            return find(self._folder, plan.task)
        self._folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder).free
        if plan.size > free:
            raise ReelspaceError(
                f"{plan.task} needs {plan.size / 1e9:.1f} GB, but there are {free / 1e9:.1f} GB free in {self._folder}."
            )
        done = 0
        for file in plan.missing:
            step(file.name, done, plan.size)
            self._tried(lambda file=file: self._got(file, plan.commit))  # type: ignore[misc]
            self._record["files"][file.name] = self._stamp(file)
            self._save()
            done += file.size
            step(file.name, done, plan.size)
        self._unpack(plan)
        folder = find(self._folder, plan.task)
        self._record["tasks"][plan.task] = {"commit": plan.commit, "files": [file.name for file in plan.files]}
        self._save()
        return folder

    # What is there.

    def _whole(self, task: str) -> bool:
        """Whether a task was fetched to the end, and its files are as they were then."""
        known = self._record["tasks"].get(task)
        if known is None:
            return False
        try:
            find(self._folder, task)
        except ReelspaceError:
            return False
        return all(self._unchanged(name) for name in known["files"])

    def _unchanged(self, name: str) -> bool:
        path, stamp = self._folder / name, self._record["files"].get(name)
        if stamp is None or not path.is_file():
            return False
        status = path.stat()
        return bool([status.st_size, status.st_mtime_ns] == stamp["stamp"])

    def _known(self, file: Remote) -> bool:
        known = self._record["files"].get(file.name, {})
        return self._unchanged(file.name) and known["digest"] == (file.sha256 or file.blob)

    def _stamp(self, file: Remote) -> dict[str, Any]:
        status = (self._folder / file.name).stat()
        return {"digest": file.sha256 or file.blob, "stamp": [status.st_size, status.st_mtime_ns]}

    def _save(self) -> None:
        write_text(self._folder / _RECORD, json.dumps(self._record, indent=1) + "\n")

    # The hub.

    def _listed(self) -> tuple[str, list[Remote]]:
        from huggingface_hub import HfApi

        info = HfApi(endpoint=self._endpoint).dataset_info(
            self._repository, revision=self._revision, files_metadata=True
        )
        files = []
        for sibling in info.siblings or []:
            sha256 = None if sibling.lfs is None else sibling.lfs.sha256
            files.append(Remote(sibling.rfilename, sibling.size or 0, sha256, sibling.blob_id))
        return str(info.sha), sorted(files, key=lambda file: file.name)

    def _got(self, file: Remote, commit: str) -> None:
        """Fetches a file; what an earlier try left is gone on with."""
        from huggingface_hub import hf_hub_download

        path = Path(
            hf_hub_download(
                self._repository,
                file.name,
                repo_type="dataset",
                revision=commit,
                local_dir=self._folder,
                endpoint=self._endpoint,
            )
        )
        if (wrong := _wrong(path, file)) is not None:
            path.unlink()
            raise _DamagedError(f"{file.name}: {wrong}")

    def _tried(self, action: Callable[[], Result]) -> Result:
        """Tries again what a network may spoil: after 1, 2, 4 … seconds.

        Raises:
            ReelspaceError: it failed `TRIES` times, or in a way that trying again will not mend.
        """
        try:
            import huggingface_hub.errors as hub
        except ImportError:
            raise ReelspaceError("Fetching needs huggingface_hub: pip install 'reelspace[bench]'.") from None
        final = (
            hub.RepositoryNotFoundError,
            hub.RevisionNotFoundError,
            hub.EntryNotFoundError,
            hub.GatedRepoError,
            hub.OfflineModeIsEnabled,
        )
        for number in range(TRIES):
            try:
                return action()
            except final as error:
                if isinstance(error, hub.LocalEntryNotFoundError) and number < TRIES - 1:
                    self._wait(2.0**number)  # the hub's client says so of a connection that failed, too
                    continue
                raise ReelspaceError(f"{self._repository}: {str(error).strip().splitlines()[0]}") from None
            except Exception as error:  # whatever its HTTP library raises
                if number == TRIES - 1:
                    what = f"{type(error).__name__}: {error}".strip().splitlines()[0]
                    raise ReelspaceError(f"{self._repository} could not be reached in {TRIES} tries: {what}") from None
                self._wait(2.0**number)
        raise AssertionError("unreachable")

    # Archives.

    def _unpack(self, plan: Plan) -> None:
        for base, parts in archives([file.name for file in plan.files]).items():
            mark = self._record["files"][parts[0]].get("unpacked")
            if mark == [self._record["files"][part]["digest"] for part in parts]:
                continue
            beside = PurePosixPath(base).parent  # in the task's folder it is unpacked where it is
            target = self._folder / (beside if plan.task in beside.parts else beside / plan.task)
            with _joined([self._folder / part for part in parts]) as file:
                unpack(file, base, target)
            digests = [self._record["files"][part]["digest"] for part in parts]
            self._record["files"][parts[0]]["unpacked"] = digests
            self._save()


class _DamagedError(Exception):
    """A file came out wrong; another try may mend it."""


def fetched_commit(folder: Path, task: str) -> str | None:
    """The commit that a task in a folder was fetched from; None if it came in another way."""
    path = folder / _RECORD
    if not path.exists():
        return None
    known = json.loads(path.read_text("utf-8"))["tasks"].get(task)
    return None if known is None else str(known["commit"])


def belongs(name: str, task: str) -> bool:
    """Whether a file of the repository belongs to a task: it lies in its folder, or is its archive."""
    parts = PurePosixPath(name).parts
    if task in parts[:-1]:
        return True
    match = _ARCHIVE.fullmatch(parts[-1])
    return match is not None and re.split(r"\.(?:tar|tgz|zip)", match["base"])[0] == task


def archives(names: Sequence[str]) -> dict[str, list[str]]:
    """Archive → the files that are it: itself, or its parts in order."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        if match := _ARCHIVE.fullmatch(name):
            found.setdefault(match["base"], []).append(name)
    return found


def unpack(file: IO[bytes], name: str, target: Path) -> None:
    """Unpacks a tar or zip file; nothing is written outside `target`.

    Raises:
        ReelspaceError: it is damaged, or has something in it that would be written elsewhere.
    """
    target.mkdir(parents=True, exist_ok=True)
    try:
        if name.endswith(".zip"):
            with TemporaryFile() as whole:  # zip files are read from the end
                shutil.copyfileobj(file, whole)
                with zipfile.ZipFile(whole) as archive:
                    for member in archive.infolist():
                        plain = PurePosixPath(member.filename)
                        if plain.is_absolute() or ".." in plain.parts:
                            raise ReelspaceError(f"{name} holds {member.filename}, which leads out of the folder.")
                    archive.extractall(target)
        else:
            with tarfile.open(fileobj=file, mode="r|*") as stream:
                stream.extractall(target, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise ReelspaceError(f"{name} cannot be unpacked: {error}") from None


@contextmanager
def _joined(paths: Sequence[Path]) -> Iterator[IO[bytes]]:
    """Files one after the other, as one."""
    joined = _Joined(paths)
    try:
        yield joined  # type: ignore[misc]
    finally:
        joined.close()


class _Joined:
    def __init__(self, paths: Sequence[Path]) -> None:
        self._rest = list(paths)
        self._file: IO[bytes] | None = None

    def read(self, size: int = -1) -> bytes:
        got = b""
        while size < 0 or len(got) < size:
            if self._file is None:
                if not self._rest:
                    break
                self._file = self._rest.pop(0).open("rb")
            part = self._file.read(-1 if size < 0 else size - len(got))
            if not part:
                self._file.close()
                self._file = None
            got += part
        return got

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _wrong(path: Path, file: Remote) -> str | None:
    """Why a file is not what the hub says it is, or None."""
    size = path.stat().st_size
    if size != file.size:
        return f"has {size:,} bytes instead of {file.size:,}"
    with path.open("rb") as content:
        if file.sha256 is not None:
            found, expected = hashlib.file_digest(content, "sha256").hexdigest(), file.sha256
        elif file.blob is not None:
            made = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
            made.update(content.read())
            found, expected = made.hexdigest(), file.blob
        else:
            return None
    return None if found == expected else "does not have the content that the hub says it has"


def notes(tasks: Sequence[str]) -> list[str]:
    """What the licences of tasks' sources ask for."""
    special = [note for start, note in NOTES.items() if any(task.startswith(start) for task in tasks)]
    return [USUAL, *special]
