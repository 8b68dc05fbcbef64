"""A library's answers to the queries of moment retrieval: the best moments of the video that each is asked of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from reelspace.errors import EncodeError, ItemError, MediaError
from reelspace.item import Item
from reelspace.library import Library
from reelspace.uvrb.footage import literally
from reelspace.uvrb.moments import DEPTH, Asked, Predicted


class Answered(NamedTuple):
    """Query id → its predictions; and query id → why there are none."""

    predictions: dict[str, list[Predicted]]
    failures: dict[str, str]


def answer(library: Library, asked: Sequence[Asked], progress: Callable[[int], None] = lambda done: None) -> Answered:
    """The ten best moments of each query's video, by the library's active model.

    A video is the indexed file of that name, with or without its ending, in whatever folder.

    Args:
        progress: called with how many queries are done.

    Raises:
        LibraryError: nothing is indexed.
    """
    files: dict[str, set[str]] = defaultdict(set)
    for path in library.files():
        files[PurePath(path).name].add(path)
        files[PurePath(path).stem].add(path)
    found = Answered({}, {})
    for number, query in enumerate(asked, start=1):
        paths = files.get(query.video, set())
        if len(paths) != 1:
            found.failures[query.qid] = (
                f"no file named {query.video} is indexed"
                if not paths
                else f"several files are named {query.video}: {', '.join(sorted(paths)[:2])}"
            )
        else:
            try:
                hits = library.search(Item(text=query.text), k=DEPTH, within=literally(next(iter(paths)))).hits
                found.predictions[query.qid] = [Predicted(hit.start, hit.end, hit.score) for hit in hits]
            except (EncodeError, ItemError, MediaError) as error:
                found.failures[query.qid] = str(error)
        progress(number)
    return found
