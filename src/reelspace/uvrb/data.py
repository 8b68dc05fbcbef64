r"""A task's data: a corpus, queries, and which answers are right. Every suite's tasks are of these three parts.

`Dataset` asks a subclass for the three and for nothing else. What a query is made of is one method, so that a text task
becomes an image task by overriding it: `MSRVTTI2V` is `MSRVTT` and three lines.

The released layout, which a folder of your own may have too:

    X/jsonl/queries.jsonl      {"id", "text"?, "image"?, "video"?} a line
    X/jsonl/corpus.jsonl       {"id", "video"} a line ("text" where texts are the answers)
    X/jsonl/instances.jsonl    {"qid", "pos": [ids], "neg"?: [ids], "candidates"?: [ids]} a line
    X/videos/, X/images/       what the lines name, or folders of it
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np

from reelspace.errors import ReelspaceError
from reelspace.item import Item, Span
from reelspace.uvrb.results import Failure
from reelspace.uvrb.tasks import TaskFacts, suite
from reelspace.worlds.film import cached
from reelspace.worlds.tasks import QUERIES, RECIPES, Size
from reelspace.worlds.tasks import task as drawn_task

Pools = dict[str, tuple[str, ...]]

MENDED = "mended"
"""Folder of mended copies in a task's folder; they go before the files they were made from."""


@dataclass(frozen=True)
class Loaded:
    """A task's data, whole.

    Attributes:
        task: what it is.
        queries, corpus: id → item.
        right: query id → ids of its right answers; some of them may not be in the corpus.
        pools: query id → ids of what it is asked among; None: the whole corpus.
        faults: items that are none: their lines name no text and no file.
        chance: what a random ranking is expected to score.
    """

    task: TaskFacts
    queries: Mapping[str, Item]
    corpus: Mapping[str, Item]
    right: dict[str, frozenset[str]]
    pools: Pools | None
    faults: tuple[Failure, ...] = ()

    @property
    def chance(self) -> float:
        """What a random ranking is expected to score: of n candidates, min(k, n) are among the first k."""
        total = 0.0
        for query, right in self.right.items():
            count = len(self.corpus) if self.pools is None else len(self.pools[query])
            reached = sum(answer in self.corpus for answer in right) * min(self.task.depth, count) / max(1, count)
            total += reached / (len(right) if self.task.measure == "recall" else self.task.depth)
        return total / max(1, len(self.right))

    def limited(self, count: int | None) -> Loaded:
        """The first `count` queries, asked among their right answers (and pools) and the first others, `count` in all.

        A smaller corpus is an easier task: such scores compare with nothing but others of the same limit.
        """
        if count is None or count >= len(self.right):
            return self
        right = dict(list(self.right.items())[:count])
        pools = None if self.pools is None else {query: self.pools[query] for query in right}
        kept = {answer for answers in right.values() for answer in answers} & set(self.corpus)
        if pools is not None:
            kept |= {name for pool in pools.values() for name in pool}
        else:
            rest = [name for name in self.corpus if name not in kept]
            kept |= set(rest[: max(0, count - len(kept))])
        return replace(
            self,
            queries=restricted(self.queries, right),
            corpus=restricted(self.corpus, kept),
            right=right,
            pools=pools,
            faults=tuple(fault for fault in self.faults if fault.id in right or fault.id in kept),
        )


class Dataset(ABC):
    """A task's data before it is loaded."""

    def __init__(self, task: TaskFacts) -> None:
        self.task = task

    @abstractmethod
    def queries(self) -> Mapping[str, Item | str]:
        """Id → item, or why there is none."""

    @abstractmethod
    def corpus(self) -> Mapping[str, Item | str]:
        """Id → item, or why there is none."""

    @abstractmethod
    def relevance(self) -> Mapping[str, frozenset[str]]:
        """Query id → ids of its right answers. Queries without any are not asked."""

    def pools(self) -> Mapping[str, Sequence[str]] | None:
        """Query id → ids of what it is asked among; None: the whole corpus."""
        return None

    def load(self) -> Loaded:
        """All of it, checked.

        Raises:
            ReelspaceError: there is nothing to ask, or ids do not fit together.
        """
        asked, among = self.queries(), self.corpus()
        right = {query: answers for query, answers in self.relevance().items() if answers}
        pools = self.pools()
        if self.task.pooled and pools is None:
            raise ReelspaceError(f"{self.task.name}: every query of this task needs candidates of its own.")
        if unknown := [query for query in right if query not in asked]:
            raise ReelspaceError(f"{self.task.name}: there are answers to {len(unknown)} unknown queries: {unknown[0]}")
        if not right:
            raise ReelspaceError(f"{self.task.name}: there is no query with an answer.")
        right = {query: right[query] for query in asked if query in right}  # in the order of the queries
        kept = None if pools is None else {query: tuple(dict.fromkeys(pools[query])) for query in right}
        names = set(among)
        for query, answers in right.items():
            known = names if kept is None else set(kept[query]) & names
            if not answers & known:
                raise ReelspaceError(f"{self.task.name}: no right answer to query {query} is among its candidates.")
            if kept is not None and (lost := set(kept[query]) - names):
                raise ReelspaceError(f"{self.task.name}: query {query} is asked among {min(lost)}, which is unknown.")
        faults = (
            Failure(self.task.name, side, name, item)
            for side, items in (("query", asked), ("candidate", among))
            for name, item in items.items()
            if isinstance(item, str)
        )
        return Loaded(
            self.task,
            {query: item for query in right if isinstance(item := asked[query], Item)},
            {name: item for name, item in among.items() if isinstance(item, Item)},
            right,
            kept,
            tuple(fault for fault in faults if fault.side == "candidate" or fault.id in right),
        )


class Worlds(Dataset):
    """A task of UVRB-Worlds. A film or picture is drawn into the folder when it is first asked for, and then kept."""

    def __init__(self, task: TaskFacts, folder: Path, size: Size = "mini", seed: int = 0) -> None:
        super().__init__(task)
        self._folder, self._drawn = folder, drawn_task(task.name, size, seed)

    def queries(self) -> Mapping[str, Item]:
        return _Drawn(self._drawn.queries, lambda query: query.item(self._folder))

    def corpus(self) -> Mapping[str, Item]:
        return _Drawn(self._drawn.corpus, lambda scene: Item(video=cached(scene, self._folder)))

    def relevance(self) -> Mapping[str, frozenset[str]]:
        return self._drawn.relevant

    def pools(self) -> Mapping[str, Sequence[str]] | None:
        return self._drawn.pools

    def load(self) -> Loaded:
        """Nothing is drawn yet: the parts are as they should be by construction."""
        pools = None if self._drawn.pools is None else dict(self._drawn.pools)
        return Loaded(self.task, self.queries(), self.corpus(), dict(self._drawn.relevant), pools)


class _Drawn(Mapping[str, Item]):
    """Items that are made when they are looked at."""

    def __init__(self, plans: Mapping[str, Any], make: Callable[[Any], Item]) -> None:
        self._plans, self._make = plans, make

    def __getitem__(self, name: str) -> Item:
        return self._make(self._plans[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)

    def __contains__(self, name: object) -> bool:
        return name in self._plans

    def restricted(self, names: Collection[str]) -> _Drawn:
        """Some of them, in their order."""
        return _Drawn({name: plan for name, plan in self._plans.items() if name in names}, self._make)


def restricted(items: Mapping[str, Item], names: Collection[str]) -> Mapping[str, Item]:
    """Some of the items, in their order; what is yet to be drawn is not drawn for it."""
    if isinstance(items, _Drawn):
        return items.restricted(names)
    return {name: item for name, item in items.items() if name in names}


class Released(Dataset):
    """A text-to-video task in the released layout.

    Args:
        task: what it is.
        root: the folder that holds the tasks' folders, or archives unpacked into folders of their names.
        present: leave out candidates whose files are not there, and queries that then lack a file or every right
            answer: for partial downloads. Scores are then of an easier task.
    """

    folders: tuple[str, ...] = ()
    """Further tasks' folders whose files this one uses."""

    def __init__(self, task: TaskFacts, root: str | os.PathLike[str], present: bool = False) -> None:
        super().__init__(task)
        self.root, self.present = Path(root), present
        self.folder = find(self.root, task.name)

    def query(self, row: Mapping[str, Any]) -> Item:
        """What asks: the method to override for another modality."""
        return Item(text=row["text"])

    def candidate(self, row: Mapping[str, Any]) -> Item:
        """What answers."""
        return Item(video=Span(self.file(row["video"])))

    def queries(self) -> Mapping[str, Item | str]:
        return self._items("queries", self.query)

    def corpus(self) -> Mapping[str, Item | str]:
        return self._items("corpus", self.candidate)

    def relevance(self) -> Mapping[str, frozenset[str]]:
        right: dict[str, frozenset[str]] = {}
        for row in self._rows("instances"):
            query = str(row["qid"])
            right[query] = right.get(query, frozenset()) | frozenset(map(str, row["pos"]))
        if not self.present:
            return right
        asked, among = self.queries(), self.corpus()
        return {query: answers & set(among) for query, answers in right.items() if query in asked}

    def pools(self) -> Mapping[str, Sequence[str]] | None:
        if not self.task.pooled:
            return None
        pools: dict[str, Sequence[str]] = {}
        for row in self._rows("instances"):
            named = [*row["pos"], *row.get("neg", ()), *row.get("candidates", ())]
            if len(named) == len(row["pos"]):
                raise ReelspaceError(
                    f"{self.folder}/jsonl/instances.jsonl names no candidates (“neg” or “candidates”) for query "
                    f"{row['qid']} beside its answers, but {self.task.name} asks each query among its own."
                )
            pools[str(row["qid"])] = tuple(dict.fromkeys(map(str, named)))
        if not self.present:
            return pools
        there = self.corpus()
        return {query: tuple(name for name in pool if name in there) for query, pool in pools.items()}

    def file(self, name: str) -> Path:
        """A file that a line names.

        Raises:
            ReelspaceError: the name leads out of the folder.
        """
        plain = PurePosixPath(str(name).replace("\\", "/"))
        if plain.is_absolute() or ".." in plain.parts:
            raise ReelspaceError(f"“{name}” leads out of {self.folder}")
        for folder in self._places:
            for path in (folder / plain, folder / "videos" / plain, folder / "images" / plain):
                if path.is_file():
                    return _mended(path, folder)
        return self._known.get(plain.name, self.folder / "videos" / plain)

    @cached_property
    def _places(self) -> list[Path]:
        found = [self.folder]
        for other in self.folders:
            try:
                found.append(find(self.root, other))
            except ReelspaceError:
                continue  # it may have all it needs itself
        return found

    @cached_property
    def _known(self) -> dict[str, Path]:
        """File name → path, of names that are there only once: some tasks have folders within `videos`."""
        known: dict[str, Path] = {}
        twice: set[str] = set()
        for folder in self._places:
            for kind in ("videos", "images"):
                for path in sorted((folder / kind).rglob("*")):
                    if path.is_file():
                        twice |= {path.name} & known.keys()
                        known.setdefault(path.name, _mended(path, folder))
        return {name: path for name, path in known.items() if name not in twice}

    def _items(self, kind: str, make: Any) -> dict[str, Item | str]:
        items: dict[str, Item | str] = {}
        for row in self._rows(kind):
            name = str(row["id"])
            if name in items:
                raise ReelspaceError(f"{self.folder}/jsonl/{kind}.jsonl has {name} twice.")
            try:
                item: Item | str = make(row)
            except (ReelspaceError, KeyError) as error:
                item = f"its line has no {error}" if isinstance(error, KeyError) else str(error)
            if not (self.present and (isinstance(item, str) or not _there(item))):
                items[name] = item
        return items

    def _rows(self, kind: str) -> Iterator[dict[str, Any]]:
        path = self.folder / "jsonl" / f"{kind}.jsonl"
        try:
            with path.open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        try:
                            yield json.loads(line)
                        except ValueError as error:
                            raise ReelspaceError(f"{path}, line {number}, is no JSON: {error}.") from None
        except OSError as error:
            raise ReelspaceError(f"{path}: {error.strerror}; `reelspace uvrb fetch` gets it.") from None


def _mended(path: Path, folder: Path) -> Path:
    """The mended copy of a file if there is one: of the same name, or one with another container's ending."""
    copy = folder / MENDED / path.relative_to(folder)
    if not copy.parent.is_dir():
        return path
    if copy.is_file():
        return copy
    others = sorted(copy.parent.glob(f"{glob.escape(copy.stem)}.*"))
    return next((other for other in others if not path.with_name(other.name).exists()), path)


def _there(item: Item) -> bool:
    video = cast(Span | None, item.video)
    image = cast(Path | None, item.image)
    return (video is None or video.path.is_file()) and (image is None or image.is_file())


class MSRVTT(Released):
    """Text to video."""


class MSRVTTI2V(MSRVTT):
    """The same videos, asked for by a frame."""

    folders = ("MSRVTT",)

    def query(self, row: Mapping[str, Any]) -> Item:
        return Item(image=self.file(row["image"]))


class TextImage(Released):
    """Asked for by a text and an image together."""

    def query(self, row: Mapping[str, Any]) -> Item:
        return Item(text=row["text"], image=self.file(row["image"]))


class TextVideo(Released):
    """Asked for by a text and a video together."""

    def query(self, row: Mapping[str, Any]) -> Item:
        return Item(text=row["text"], video=Span(self.file(row["video"])))


class ClipToVideo(Released):
    """Asked for by a video."""

    folders = ("LoVR-V", "LoVR-TH")

    def query(self, row: Mapping[str, Any]) -> Item:
        return Item(video=Span(self.file(row["video"])))


class VideoToText(Released):
    """A text asked for by a video: its name among all labels, or what is said of it."""

    def query(self, row: Mapping[str, Any]) -> Item:
        return Item(video=Span(self.file(row["video"])))

    def candidate(self, row: Mapping[str, Any]) -> Item:
        return Item(text=row["text"])


CLASSES: dict[str, type[Released]] = {
    "MSRVTT": MSRVTT,
    "MSRVTT-I2V": MSRVTTI2V,
    "MS-TI": TextImage,
    "MS-TV": TextVideo,
    "LoVR-C2V": ClipToVideo,
}
"""Task name → class, where text to video is not what it is."""


def dataset(task: TaskFacts, root: str | os.PathLike[str], present: bool = False) -> Released:
    """The data of a task in the released layout, below `root`.

    Raises:
        ReelspaceError: there is no such folder.
    """
    by_form = {("video", "text"): VideoToText, ("image", "video"): MSRVTTI2V, ("video", "video"): ClipToVideo}
    kind = CLASSES.get(task.name) or by_form.get((task.query, task.candidate), Released)
    return kind(task, root, present)


def find(root: Path, name: str) -> Path:
    """The folder of a task below `root`: as released, or as its archive unpacks.

    Raises:
        ReelspaceError: there is none.
    """
    for folder in (root / name, root / "UVRB" / name, root / name / "UVRB" / name, root / name / name, root):
        if (folder / "jsonl" / "queries.jsonl").is_file() and (folder != root or root.name == name):
            return folder
    raise ReelspaceError(f"{root} has no {name}/jsonl/queries.jsonl; `reelspace uvrb fetch {name}` gets it.")


def available(suite_name: str, root: Path) -> list[str]:
    """The tasks of a suite whose folders are below `root`."""
    found = []
    for name in suite(suite_name):
        try:
            find(root, name)
        except ReelspaceError:
            continue
        found.append(name)
    return found


def worlds_cost(task: TaskFacts, size: Size) -> float:
    """About how much work a task of the worlds is; long videos and pools weigh more."""
    recipe = RECIPES[task.name]
    return QUERIES[size] * recipe.share * (12 if recipe.share < 1 else 10 if task.ability == "CMP" else 1)


def cost(task: TaskFacts) -> float:
    """About how much work a task of UVRB is: videos, and the seconds of them that are read through."""
    corpus = task.queries * 10 if task.ability == "CMP" else task.corpus
    clips = corpus + (task.queries if task.query != "text" else 0)
    return clips * (1 + task.seconds / 30) + task.queries * 0.01


def digest(parts: Iterable[bytes]) -> str:
    """32 hex digits over parts, each told from the next."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.hexdigest()


def rows(names: Iterable[str], column: Mapping[str, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Columns of the names that have one, ascending."""
    return np.array(sorted(column[name] for name in names if name in column), dtype=np.int64)
