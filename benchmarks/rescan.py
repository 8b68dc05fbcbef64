"""How long `index` takes on a folder in which nothing has changed, beside a bare `os.walk` with `os.stat`.

    python benchmarks/rescan.py [--files 10000] [--runs 5]

The catalogue is filled as a run of `index` would have filled it, without decoding ten thousand videos first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from reelspace import Library, load
from reelspace.index.catalogue import Catalogue, FileRow
from reelspace.index.identity import Stamp
from reelspace.index.indexer import open_space
from reelspace.media.probe import VideoInfo
from reelspace.media.windows import Shots


def main() -> None:
    """Fills a library, and times both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, where = Path(place, "videos"), Path(place, "library")
        fill_folder(folder, options.files)
        fill_library(where, folder)
        bare = [timed(lambda: walk_and_stat(folder)) for _ in range(options.runs)]
        with Library.open(where) as library:
            first = timed(library.index)
            again = [timed(lambda: unchanged(library, options.files)) for _ in range(options.runs)]
    walk, index = statistics.median(bare), statistics.median(again)
    print(f"{options.files} files, median of {options.runs} runs")
    print(f"os.walk + os.stat   {walk:8.3f} s")
    print(f"index, first        {first:8.3f} s  (loads the model)")
    print(f"index, unchanged    {index:8.3f} s  = {index / walk:.1f} × os.walk + os.stat")


def fill_folder(folder: Path, files: int) -> None:
    """Tiny files, a hundred a folder."""
    for number in range(files):
        path = folder / f"{number // 100:03d}" / f"clip-{number:05d}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(number.to_bytes(8))


def fill_library(where: Path, folder: Path) -> None:
    """As if every file were a video of 20 s in four windows."""
    Library.open(where).close()
    embedder, random = load(), np.random.default_rng(0)
    catalogue = Catalogue(where / "catalogue.sqlite")
    space, _ = open_space(catalogue, embedder)
    with catalogue.transaction():
        for number, path in enumerate(sorted(folder.rglob("*.mp4"))):
            video = catalogue.put_video(f"{number:040x}", VideoInfo(20.0, 640, 360, 500, "h264"), None, str(Shots()))
            windows = catalogue.put_windows(video, [(5.0 * part, 5.0 * part + 5) for part in range(4)])
            vectors = random.standard_normal((4, embedder.dim)).astype(np.float32)
            catalogue.put_vectors(
                space.id, video, windows, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), None
            )
            catalogue.put_file(FileRow(str(path), "indexed", None, video, Stamp.of(path.stat())))
    catalogue.close()
    with Library.open(where) as library:
        library.index(folder)


def walk_and_stat(folder: Path) -> None:
    """What any re-run must do at least."""
    count = 0
    for top, _, names in os.walk(folder):
        for name in names:
            os.stat(os.path.join(top, name))  # noqa: PTH116, PTH118 — what is measured
            count += 1
    assert count


def unchanged(library: Library, files: int) -> None:
    """A run that finds nothing to do."""
    report = library.index()
    assert (report.unchanged, report.embedded, report.failed) == (files, 0, 0), report


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
