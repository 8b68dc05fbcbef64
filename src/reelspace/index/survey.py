"""What is on disk against what is catalogued: which files need work, and which need only a note."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from reelspace.index.catalogue import Catalogue, FileRow
from reelspace.index.identity import Stamp
from reelspace.index.walk import Found, Root


class Candidate(NamedTuple):
    """A file to be read: new, changed, or not yet done in the space that is being built."""

    path: str
    size: int
    known: FileRow | None


@dataclass
class Survey:
    """The outcome. Counts are of files."""

    work: list[Candidate] = field(default_factory=list)
    unchanged: int = 0
    returned: int = 0
    """Known contents that are searchable again: found after having been missing or excluded."""
    failed: list[FileRow] = field(default_factory=list)
    """Failed before, unchanged since."""
    excluded: int = 0
    missing: list[str] = field(default_factory=list)
    unreadable: list[Found] = field(default_factory=list)
    absent: list[Root] = field(default_factory=list)
    """Roots that are not there, or empty where files were known: perhaps a disk that is not mounted."""


class Share(Protocol):
    """A share of the files, and what is done of them elsewhere."""

    def takes(self, path: str) -> bool:
        """Whether a file is of this share."""

    def settled(self, path: str, stamp: Stamp, retry: bool) -> bool:
        """Whether nothing is left to be done for this state of a file (`retry`: unless it is failed or partial)."""


def survey(
    catalogue: Catalogue,
    roots: Sequence[Root],
    done: Mapping[int, bool],
    retry: bool = False,
    rehash: bool = False,
    share: Share | None = None,
) -> Survey:
    """Walks `roots` and writes down what needs no reading: excluded, missing and returned files.

    Args:
        done: contents that need nothing more → whether they are partial.
        retry: failed and partial files are work again.
        rehash: every file is work.
        share: look at these files alone.
    """
    return _Surveyor(catalogue, roots, done, retry, rehash, share).survey()


class _Surveyor:
    def __init__(
        self,
        catalogue: Catalogue,
        roots: Sequence[Root],
        done: Mapping[int, bool],
        retry: bool,
        rehash: bool,
        share: Share | None,
    ) -> None:
        self._catalogue, self._roots, self._done = catalogue, roots, done
        self._retry, self._rehash, self._share = retry, rehash, share
        self._known = catalogue.files()
        self._all_roots = catalogue.roots()
        self._changes: list[FileRow] = []
        self._forgotten: list[str] = []
        self._result = Survey()

    def survey(self) -> Survey:
        found = self._walk()
        for one in found.values():
            if one.reason is None:
                self._wanted(one)
            else:
                self._left_out(one)
        for path, file in self._known.items():
            if path not in found and any(root.covers(path) for root in self._roots):
                self._not_found(file)
        with self._catalogue.transaction():
            for file in self._changes:
                self._catalogue.put_file(file)
            for path in self._forgotten:
                self._catalogue.forget_file(path)
        return self._result

    def _walk(self) -> dict[str, Found]:
        """By path; where roots overlap, a file is left out only if every one of them leaves it out."""
        found: dict[str, Found] = {}
        for root in self._roots:
            if self._is_absent(root):
                self._result.absent.append(root)
            if not os.path.lexists(root.path):
                continue
            for one in root.walk():
                if one.unreadable:
                    self._result.unreadable.append(one)
                elif self._share is not None and not self._share.takes(one.path):
                    continue
                elif one.path not in found or one.reason is None:
                    found[one.path] = one
        return found

    def _is_absent(self, root: Root) -> bool:
        if not os.path.lexists(root.path):
            # A single file may just have been deleted; where its folder is gone too, or it was a folder, who knows.
            return root.path not in self._known or not os.path.isdir(os.path.dirname(root.path))
        if not os.path.isdir(root.path) or not any(
            root.covers(file.path) and file.path != root.path and file.video for file in self._known.values()
        ):
            return False
        try:
            with os.scandir(root.path) as entries:
                return next(entries, None) is None
        except OSError:
            return False  # there, but unreadable

    def _left_out(self, one: Found) -> None:
        others = [root for root in self._all_roots if root not in self._roots]
        if any(root.wants(one.path) for root in others):
            return
        self._result.excluded += 1
        known = self._known.get(one.path)
        if known is None or (known.state, known.reason) != ("excluded", one.reason):
            stamp = known.stamp if known else None  # of when it was read, for when it returns
            self._changes.append(FileRow(one.path, "excluded", one.reason, known.video if known else None, stamp))

    def _wanted(self, one: Found) -> None:
        assert one.stat is not None
        known = self._known.get(one.path)
        stamp = Stamp.of(one.stat)
        if known is None or self._rehash or known.stamp != stamp:
            if self._share is not None and not self._rehash and self._share.settled(one.path, stamp, self._retry):
                self._result.unchanged += 1
            else:
                self._work(one)
        elif known.state == "failed":
            if self._retry:
                self._work(one)
            else:
                self._result.failed.append(known)
        elif known.video is None or known.video not in self._done or (self._retry and self._done[known.video]):
            self._work(one)
        elif known.state == "indexed":
            self._result.unchanged += 1
        else:
            self._result.returned += 1
            self._changes.append(FileRow(one.path, "indexed", None, known.video, known.stamp))

    def _work(self, one: Found) -> None:
        assert one.stat is not None
        self._result.work.append(Candidate(one.path, one.stat.st_size, self._known.get(one.path)))

    def _not_found(self, file: FileRow) -> None:
        path = file.path
        if any(Root(folder.path).covers(path) for folder in self._result.unreadable):
            return  # it may be there: searches look for themselves
        absent = any(root.covers(path) for root in self._result.absent)
        if file.video is None:
            if not absent:
                self._forgotten.append(path)
        elif not absent and os.path.lexists(path) and not any(root.wants(path) for root in self._all_roots):
            self._result.excluded += 1
            self._changes.append(file._replace(state="excluded", reason="in a folder that is left out"))
        else:
            self._result.missing.append(path)
            if file.state != "missing":
                self._changes.append(file._replace(state="missing", reason=None))
