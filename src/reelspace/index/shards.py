"""Indexing by shares: each shard reads and embeds some of the files into a part of the library, which is merged later.

A file belongs to a shard by its path alone, so shards need not know of each other. A part is a catalogue of its own, in
`shards/2-of-8/` of the library's folder; what is in there is work done ahead of `merge`, and only that: the library's
own catalogue stays the one truth.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reelspace import embed
from reelspace.answers import IndexReport, Progress
from reelspace.errors import LibraryError, NoLibraryError
from reelspace.index.catalogue import Catalogue, ContentRow, unusable
from reelspace.index.identity import Stamp
from reelspace.index.indexer import Indexer, Options, check_canaries, good_enough
from reelspace.index.lock import sharding
from reelspace.index.thumbnails import Thumbnails
from reelspace.index.walk import Root
from reelspace.media.windows import Shots, Windowing, parse_windowing
from reelspace.shard import Shard

if TYPE_CHECKING:
    from reelspace.embed.base import Embedder

_NAME = re.compile(r"(\d+)-of-(\d+)")


def takes(shard: Shard, relative: str) -> bool:
    """Whether the file of this path, relative to its root, is of a share."""
    return shard.takes(int.from_bytes(hashlib.blake2b(os.fsencode(relative), digest_size=8).digest()))


def parts(library: Path) -> list[tuple[Shard, Path]]:
    """The parts in a library's folder, in order, with their folders."""
    try:
        names = os.listdir(library / "shards")
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        form, folder = _NAME.fullmatch(name), library / "shards" / name
        if form and (folder / "catalogue.sqlite").is_file():
            found.append((Shard(int(form[1]), int(form[2])), folder))
    return sorted(found, key=lambda one: (one[0].of, one[0].number))


def part_of(job: ShardJob) -> Path:
    """The folder of the part that a job makes."""
    return Path(job.library) / "shards" / job.shard.name


def owner(path: str, roots: Sequence[Root]) -> Root | None:
    """The outermost root that covers a file: by its path relative to this one it belongs to a shard."""
    return min((root for root in roots if root.covers(path)), key=lambda root: len(root.path), default=None)


def share_of(path: str, roots: Sequence[Root]) -> str:
    """What of a path tells its shard: the names below its root, or its own name where it is a root itself."""
    root = owner(path, roots)
    return os.path.basename(path) if root is None or root.path == path else path[len(root.path.rstrip("/")) + 1 :]


@dataclass(frozen=True)
class _Content:
    """What the library knows of a content that is not done in the space that is being built."""

    row: ContentRow
    windows: list[tuple[float, float]]
    found: bool
    """It has vectors in some space."""


class Share:
    """The files of one shard, and what the library knew when the shard began: nothing of that is done again."""

    def __init__(self, shard: Shard | None, roots: Sequence[Root]) -> None:
        """`shard`: `None` where the roots are its very files."""
        self._shard, self._roots = shard, roots
        self._files: dict[str, tuple[str, Stamp | None, str | None]] = {}  # path → state, stamp, hash of the content
        self.done: dict[str, bool] = {}
        """Hashes of the contents that need nothing more → whether they are partial."""
        self._contents: dict[str, _Content] = {}

    def learn(self, library: Catalogue, fingerprint: str, windowings: Sequence[str]) -> None:
        """Reads what the library knows."""
        space = next((space.id for space in library.spaces() if space.fingerprint == fingerprint), None)
        done = {} if space is None else library.done(space, windowings)
        contents = library.contents()
        self.done = {contents[id].hash: partial for id, partial in done.items()}
        self._files = {
            path: (file.state, file.stamp, contents[file.video].hash if file.video else None)
            for path, file in library.files().items()
            if self.takes(path)
        }
        self._contents = {
            row.hash: _Content(row, library.windows_of(id), library.has_vectors(id))
            for id, row in contents.items()
            if id not in done
        } | {contents[id].hash: _Content(contents[id], [], True) for id in done}

    def takes(self, path: str) -> bool:
        return self._shard is None or takes(self._shard, share_of(path, self._roots))

    def settled(self, path: str, stamp: Stamp, retry: bool) -> bool:
        state, known, hash = self._files.get(path, (None, None, None))
        if state is None or known != stamp:
            return False
        if state == "failed":
            return not retry
        return hash in self.done and not (retry and self.done[hash])

    def lend(self, part: Catalogue, hash: str) -> None:
        """Tells the part what the library knows of a content: another model's vectors are made of the same windows."""
        content = self._contents.get(hash)
        if content is not None and part.video(hash) is None:
            with part.transaction():
                video = part.put_video(hash, content.row, content.row.partial, content.row.windowing)
                part.put_windows(video, content.windows)

    def has_vectors(self, hash: str) -> bool:
        """Whether the library finds this content in some space."""
        return hash in self._contents and self._contents[hash].found


@dataclass(frozen=True)
class ShardJob:
    """All that a process must be told to index a shard: paths, never frames.

    Attributes:
        library: the library's folder; there need not be a library in it yet.
        shard: which share of the files to take.
        roots: where to look; none: the roots the library knows.
        files: the very files to take, where somebody has looked already; then `roots` do not matter.
        model, windowing, fast, retry, rehash: as of `Library.index`; the windowing by its declared form.
    """

    library: str
    shard: Shard
    roots: tuple[Root, ...] = ()
    files: tuple[str, ...] | None = None
    model: str | None = None
    windowing: str | None = None
    fast: bool = False
    retry: bool = False
    rehash: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data. Names that are no Unicode are lone surrogates in it, which JSON escapes."""
        plain = asdict(self)
        return plain | {"roots": [(root.path, root.include, root.exclude, root.hidden) for root in self.roots]}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ShardJob:
        """The job of that plain data."""
        roots = tuple(
            Root(path, tuple(include), tuple(exclude), hidden) for path, include, exclude, hidden in plain["roots"]
        )
        files = None if plain["files"] is None else tuple(plain["files"])
        return cls(**(dict(plain) | {"shard": Shard(*plain["shard"]), "roots": roots, "files": files}))


def index_shard(
    job: ShardJob, progress: Callable[[Progress], None] | None = None, patience: float = 0.1
) -> IndexReport:
    """Brings the part of one shard up to date; the library itself is read at the beginning, and never written.

    Args:
        job: what to do.
        progress: called after every window and file.
        patience: seconds to wait for another process that makes this part.

    Raises:
        LibraryError: another process makes this part; no root is known; a root is not there.
        ModelError: the model cannot be loaded, or is another than the library was indexed with.
    """
    from reelspace.media.reader import Reader

    for root in job.roots:
        if not os.path.lexists(root.path):
            raise LibraryError(f"{root.path} is not there.")
    folder = part_of(job)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LibraryError(f"{folder}: this part of the library cannot be made: {error.strerror}.") from error
    with sharding(folder, patience):
        folder.mkdir(exist_ok=True)  # a merge may just have taken it away
        plan = _plan(job)
        catalogue = folder / "catalogue.sqlite"
        try:
            with closing(Catalogue(catalogue)) as part, Reader() as reader:
                with part.transaction():
                    part.set("windowing", plan.windowing.form)
                    for root in job.roots:
                        part.put_root(root)
                options = Options(job.retry, job.rehash, named=True, progress=progress)
                thumbnails = Thumbnails(Path(job.library) / "cache" / "thumbnails")
                indexer = Indexer(part, plan.embedder, reader, thumbnails, plan.windowing, options, plan.share)
                return indexer.run(plan.roots)
        except sqlite3.Error as error:
            raise unusable(catalogue, error) from error


class _Plan(NamedTuple):
    embedder: Embedder
    windowing: Windowing
    roots: Sequence[Root]
    share: Share


def _plan(job: ShardJob) -> _Plan:
    """What is to be done, by what was asked for and by what the library says."""
    where = Path(job.library)
    with ExitStack() as opened:
        library = None
        with suppress(NoLibraryError):
            library = opened.enter_context(closing(Catalogue(where / "catalogue.sqlite", create=False)))
        spaces = library.spaces() if library else []
        active = next((space.model for space in spaces if space.active), None)
        embedder = embed.load(job.model or active or embed.DEFAULT_MODEL)
        form = job.windowing or (library.setting("windowing") if library else None)
        windowing = replace(parse_windowing(form) if form else Shots(), fast=job.fast)
        if job.files is not None:
            roots: Sequence[Root] = [Root(path) for path in job.files]
            share = Share(None, roots)
        else:
            roots = job.roots or (library.roots() if library else [])
            share = Share(job.shard, roots)
        if not roots:
            raise LibraryError(f"{where} knows no folders yet; name the folder to index.")
        if library:
            for space in spaces:
                if space.fingerprint == embedder.fingerprint:
                    check_canaries(library, space, embedder)
            share.learn(library, embedder.fingerprint, good_enough(windowing))
        return _Plan(embedder, windowing, roots, share)
