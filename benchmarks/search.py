"""How fast, how well and in how much memory libraries of up to a million windows are searched, beside vector stores.

    pip install reelspace[ann] usearch lancedb
    python benchmarks/search.py                                      # everything; an hour, and 12 GB of disk
    python benchmarks/search.py --sizes 10k,100k --clusters tight    # minutes
    python benchmarks/search.py --sizes 1M --subjects exact,approximate,faiss-flat,faiss-ivf

Vectors of 384 numbers lie around 5000 centres: *tight* (two of one cluster have a cosine of .92) or *loose* (.5).
Queries are drawn like vectors, and are none of them. A library is written as `index` writes it, with files in its
folder, but without decoding a thousand hours of video; its model runs lite on the words for what that costs, and then
answers with a prepared vector.

Every step runs in a process of its own. `search` is ten rows from the store alone, which is what peers do; `whole` is
`Library.search`: encode, search, find moments, fetch them. Memory is what has come to the process after all queries
since it had loaded Python's modules and the model: *anonymous*, and *mapped* files in memory beside the raw vectors.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from reelspace import Item, Library, load
from reelspace.embed.base import Vectors, encode, fingerprint, normalise
from reelspace.index.catalogue import Catalogue, FileRow
from reelspace.index.identity import Stamp
from reelspace.index.indexer import open_space
from reelspace.media.policy import Centres, Sampling
from reelspace.media.probe import VideoInfo
from reelspace.media.windows import Shots

DIM, CLUSTERS = 384, 5000
NOISE = {"tight": 0.3, "loose": 1.0}  # length of what is added to a centre, which has length 1
WINDOWS = 50  # of a video; each lasts five seconds
BLOCK = 50_000
K = 10
GROWTH = 0.01
FILTERS = (0.001, 0.01, 0.1, 0.5)  # of the videos
DEEP = 60  # a page far down


class Data:
    """Vectors and queries of one size and kind, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        about = json.loads((folder / "about.json").read_text())
        self.size, self.kind = about["size"], about["kind"]

    @classmethod
    def make(cls, folder: Path, size: int, kind: str, queries: int) -> Data:
        folder.mkdir(parents=True)
        (folder / "about.json").write_text(json.dumps({"size": size, "kind": kind}))
        random = np.random.default_rng(0)
        centres = normalise(random.standard_normal((CLUSTERS, DIM), dtype=np.float32))

        def draw(n: int) -> Vectors:
            noise = random.standard_normal((n, DIM), dtype=np.float32) * np.float32(NOISE[kind] / DIM**0.5)
            return normalise(centres[random.integers(0, CLUSTERS, n)] + noise)

        with (folder / "vectors.f32").open("wb") as file:
            for start in range(0, int(size * (1 + GROWTH)), BLOCK):
                draw(min(BLOCK, int(size * (1 + GROWTH)) - start)).tofile(file)
        np.save(folder / "queries.npy", draw(queries))
        np.save(folder / "tuning.npy", draw(100))
        return cls(folder)

    @cached_property
    def all(self) -> Vectors:
        """The vectors, and those that come later."""
        return np.asarray(np.memmap(self.folder / "vectors.f32", "<f4", "r").reshape(-1, DIM))

    @property
    def vectors(self) -> Vectors:
        return self.all[: self.size]

    @cached_property
    def queries(self) -> Vectors:
        return np.load(self.folder / "queries.npy")

    @cached_property
    def tuning(self) -> Vectors:
        return np.load(self.folder / "tuning.npy")

    def best(self, queries: Vectors, rows: np.ndarray | None = None) -> np.ndarray:
        """The ten best rows of each query (among some rows)."""
        kept: list[tuple[Vectors, np.ndarray]] = []
        for start in range(0, self.size, BLOCK):
            here = np.arange(start, min(start + BLOCK, self.size))
            here = here if rows is None else here[rows[here]]
            scores = queries @ self.vectors[here].T
            if len(here):
                top = np.argsort(-scores, axis=1, kind="stable")[:, :K]
                kept.append((np.take_along_axis(scores, top, 1), here[top]))
        scores, found = (np.concatenate(part, axis=1) for part in zip(*kept, strict=True))
        return np.take_along_axis(found, np.argsort(-scores, axis=1, kind="stable")[:, :K], 1)

    @cached_property
    def truth(self) -> np.ndarray:
        path = self.folder / "truth.npy"
        if not path.exists():
            np.save(path, self.best(self.queries))
        return np.load(path)


# Ours


class Prepared:
    """Answers `query 17` with the prepared vector 17, after lite has read it; other words with a vector like others."""

    name = "prepared"
    modalities = frozenset({"text"})
    sampling = Sampling(Centres(1))
    dim = DIM

    def __init__(self, data: Data) -> None:
        self._data, self._lite = data, load("lite")
        self.fingerprint = fingerprint(kind=data.kind, size=data.size)

    def encode_query(self, items: list[Item], instruction: str | None = None) -> Vectors:
        self._lite.encode_query(items)
        return encode(items, self.modalities, lambda item: item.text, self._run, DIM)

    def encode_candidate(self, items: list[Item]) -> Vectors:
        return self.encode_query(items)

    def _run(self, texts: list[str | None]) -> Vectors:
        rows = []
        for text in texts:
            word, _, number = str(text).partition(" ")
            asked = word == "query" and number.isdigit()
            rows.append(self._data.queries[int(number)] if asked else self._data.tuning[len(str(text)) % 100])
        return np.array(rows, np.float32)


def reading(data: Data) -> float:
    """Seconds in which all processors read every vector once: what an exact search takes at the least."""
    parts = np.array_split(data.vectors.reshape(-1).view(np.int64), os.cpu_count() or 1)
    with ThreadPoolExecutor(len(parts)) as pool:
        return percentile([timed(lambda: list(pool.map(np.max, parts))) for _ in range(7)])


def opened(data: Data) -> Library:
    library = Library.open(data.folder / "library")
    library._embedders["prepared"] = prepared(data.folder)
    return library


@cache
def prepared(folder: Path) -> Prepared:
    return Prepared(Data(folder))


def fill(data: Data, first: int, end: int) -> None:
    """Writes the windows `first` to `end` as `index` would, in transactions of many files, to be quicker than it."""
    folder = data.folder / "videos"
    opened(data).close()
    catalogue = Catalogue(data.folder / "library" / "catalogue.sqlite")
    space, _ = open_space(catalogue, prepared(data.folder))
    spans = [(5.0 * part, 5.0 * part + 5) for part in range(WINDOWS)]
    for block in range(first, end, BLOCK):
        with catalogue.transaction():
            for row in range(block, min(block + BLOCK, end), WINDOWS):
                number, part = row // WINDOWS, data.all[row : min(row + WINDOWS, end)]
                path = folder / f"{number % 1000:03d}" / f"{number}.mp4"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(number.to_bytes(8))
                info = VideoInfo(5.0 * len(part), 640, 360, 125 * len(part), "h264")
                video = catalogue.put_video(f"{number:040x}", info, None, str(Shots()))
                windows = catalogue.put_windows(video, spans[: len(part)])
                catalogue.put_vectors(space.id, video, windows, part, None)
                catalogue.put_file(FileRow(str(path), "indexed", None, video, Stamp.of(path.stat())))
    catalogue.close()


def build_ours(data: Data, approximate: bool) -> dict[str, float]:
    if not (data.folder / "library").exists():
        fill(data, 0, data.size)
    with opened(data) as library:
        return {"build": timed(lambda: library.index(data.folder / "videos", approximate=approximate))}


def measure_ours(data: Data, approximate: bool) -> dict[str, object]:
    prepared(data.folder).encode_query([Item("warm")])
    before = memory()
    began = time.perf_counter()
    library = opened(data)
    opening = time.perf_counter() - began
    first = timed(lambda: library.search("query 0"))
    store = library._store(library._space())
    assert store.built == approximate

    def find(query: Vectors) -> np.ndarray:
        return store.search(query[None], K)[0].ids - 1  # the catalogue counts from 1, in the order of `fill`

    numbers = range(len(data.queries))
    result = measure(data, find) | {
        "open": opening,
        "first": first,
        "encode": percentile([timed(lambda: prepared(data.folder).encode_query([Item("a dog")])) for _ in numbers]),
        "whole": percentile(each := [timed(lambda n=n: library.search(f"query {n}")) for n in numbers]),
        "whole99": percentile(each, 99),
    }
    result |= more(before)
    if not approximate:
        result["reading"] = reading(data)
    result["deep"] = percentile([timed(lambda n=n: library.search(f"query {n}", page=DEEP)) for n in numbers[:20]])
    for share in FILTERS:
        result[f"filter {share:g}"] = filtered(data, library, share)
    result["hits"] = [[str(hit) for hit in library.search(f"query {n}").hits] for n in numbers]
    library.close()
    return result


def filtered(data: Data, library: Library, share: float) -> dict[str, float]:
    """Searches in a share of the folders, and the recall of the store among their windows."""
    folders = max(1, round(1000 * share))
    globs = [str(data.folder / "videos" / f"{number:03d}") for number in range(folders)]
    if folders >= 100:  # as people write it
        globs = [f"{data.folder}/videos/{digit}*" for digit in range(folders // 100)]
    passing = (np.arange(data.size) // WINDOWS) % 1000 < folders
    if not passing.any():
        return {}
    store, numbers = library._store(library._space()), range(min(50, len(data.queries)))
    truth = data.best(data.queries[: len(numbers)], passing)
    among = np.flatnonzero(passing) + 1
    answers = store.search(data.queries[: len(numbers)], K, among)
    each = [timed(lambda n=n: library.search(f"query {n}", within=globs)) for n in numbers]
    return {
        "whole": percentile(each),
        "recall": recall([answer.ids - 1 for answer in answers], truth),
    }


def verify(data: Data) -> dict[str, float | None]:
    """Checks every vector, and the recall with queries of its own."""
    before = memory()
    with opened(data) as library:
        began = time.perf_counter()
        found = library.verify(sample=0).recall
    return {"verify": time.perf_counter() - began, "recall": found} | more(before)


def grow(data: Data) -> dict[str, float]:
    """One in a hundred more."""
    groups = [path.name for path in data.folder.rglob("*.groups.npz")]
    fill(data, data.size, len(data.all))
    with opened(data) as library:
        spent = timed(library.index)
        assert [path.name for path in data.folder.rglob("*.groups.npz")] == groups, "it was built anew"
        each = [timed(lambda n=n: library.search(f"query {n}")) for n in range(len(data.queries))]
    return {"build": spent, "whole": percentile(each), "whole99": percentile(each, 99)}


# Peers: name → (build, open); `open` gives what finds the rows of a query.

Find = Callable[[Vectors], np.ndarray]


def faiss_flat(data: Data) -> None:
    import faiss

    index = faiss.IndexFlatIP(DIM)
    index.add(data.vectors)
    faiss.write_index(index, str(data.folder / "flat.faiss"))


def faiss_ivf(data: Data) -> None:
    """As many lists as ours has; as many are probed as the queries for tuning need."""
    import faiss

    lists = max(1, 2 ** round(np.log2(2 * np.sqrt(data.size))))
    index = faiss.index_factory(DIM, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.cp.max_points_per_centroid = 64
    index.train(data.vectors[:: max(1, data.size // (64 * lists))])
    for start in range(0, data.size, BLOCK):
        index.add(data.vectors[start : start + BLOCK])
    truth = data.best(data.tuning)
    while recall(index.search(data.tuning, K)[1], truth) < 0.995 and index.nprobe < lists:
        index.nprobe += max(1, index.nprobe // 4)
    faiss.write_index(index, str(data.folder / "ivf.faiss"))


def open_faiss(name: str) -> Callable[[Data], Find]:
    def opening(data: Data) -> Find:
        import faiss

        flags = faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if name == "ivf" else 0
        index = faiss.read_index(str(data.folder / f"{name}.faiss"), flags)
        return lambda query: index.search(query[None], K)[1][0]

    return opening


def usearch(dtype: str) -> Callable[[Data], None]:
    def build(data: Data) -> None:
        from usearch.index import Index

        index = Index(ndim=DIM, metric="ip", dtype=dtype)
        index.add(np.arange(data.size), data.vectors)
        index.save(str(data.folder / f"{dtype}.usearch"))

    return build


def open_usearch(dtype: str) -> Callable[[Data], Find]:
    def opening(data: Data) -> Find:
        from usearch.index import Index

        index = Index.restore(str(data.folder / f"{dtype}.usearch"), view=True)
        return lambda query: index.search(query, K).keys.astype(np.int64)

    return opening


def lance(index: str | None) -> Callable[[Data], None]:
    def build(data: Data) -> None:
        import lancedb
        import pyarrow as pa

        def batches() -> object:
            for start in range(0, data.size, BLOCK):
                part = data.vectors[start : start + BLOCK]
                rows = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), DIM)
                ids = pa.array(np.arange(start, start + len(part)))
                yield pa.RecordBatch.from_arrays([ids, rows], schema=schema)

        schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), DIM))])
        table = lancedb.connect(data.folder / f"lance-{index}").create_table("windows", batches(), schema=schema)
        if index:
            table.create_index("dot", vector_column_name="vector", index_type=index)

    return build


def open_lance(index: str | None) -> Callable[[Data], Find]:
    def opening(data: Data) -> Find:
        import lancedb

        table = lancedb.connect(data.folder / f"lance-{index}").open_table("windows")

        def find(query: Vectors) -> np.ndarray:
            rows = table.search(query).distance_type("dot").select(["id", "_distance"]).limit(K).to_arrow()
            return rows["id"].to_numpy()

        return find

    return opening


PEERS: dict[str, tuple[Callable[[Data], None], Callable[[Data], Find]]] = {
    "faiss-flat": (faiss_flat, open_faiss("flat")),
    "faiss-ivf": (faiss_ivf, open_faiss("ivf")),
    "usearch-f32": (usearch("f32"), open_usearch("f32")),
    "usearch-i8": (usearch("i8"), open_usearch("i8")),
    "lancedb": (lance(None), open_lance(None)),
    "lancedb-ivf": (lance("IVF_FLAT"), open_lance("IVF_FLAT")),
}
OURS = ("exact", "approximate")
MOST = {"usearch-f32": 100_000, "usearch-i8": 100_000}  # beyond it building takes a quarter of an hour; --all does it


def measure_peer(data: Data, name: str) -> dict[str, object]:
    before = memory()
    began = time.perf_counter()
    find = PEERS[name][1](data)
    opening = time.perf_counter() - began
    first = timed(lambda: find(data.queries[0]))
    result = measure(data, find) | {"open": opening, "first": first}
    return result | more(before)


# Measuring


def measure(data: Data, find: Find) -> dict[str, object]:
    """Ten rows for every query, or for as many as a minute allows."""
    found: list[np.ndarray] = []
    each: list[float] = []
    for query in data.queries:
        each.append(timed(lambda query=query: found.append(find(query))))
        if sum(each) > 60 and len(each) >= 20:
            break
    exact = recall(found, data.truth[: len(found)])
    return {"search": percentile(each), "search99": percentile(each, 99), "recall": exact}


def memory() -> dict[str, float]:
    """MB of this process: its own, and files mapped into it. What the allocator only keeps is given back first."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return {"anonymous": kb["Anonymous"] / 1024, "mapped": (kb["Rss"] - kb["Anonymous"]) / 1024}


def more(before: dict[str, float]) -> dict[str, float]:
    """MB that have come since, and all of its own that this process has."""
    now = memory()
    return {kind: now[kind] - before[kind] for kind in now} | {"process": now["anonymous"]}


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def percentile(seconds: list[float], which: float = 50) -> float:
    return float(np.percentile(seconds, which))


def recall(found: object, truth: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, truth, strict=True)]))  # type: ignore


def step(name: str, data: Data) -> dict[str, object]:
    """One step, in this process."""
    what, _, subject = name.partition(":")
    if what in ("grow", "verify"):
        return dict((grow if what == "grow" else verify)(data))
    if subject in OURS:
        return dict((build_ours if what == "build" else measure_ours)(data, subject == "approximate"))
    if what == "build":
        return {"build": timed(lambda: PEERS[subject][0](data))}
    return measure_peer(data, subject)


def elsewhere(name: str, data: Data) -> dict[str, object]:
    """One step, in a process of its own."""
    command = [sys.executable, __file__, "--step", name, "--place", str(data.folder)]
    print(f"  {name}", file=sys.stderr, flush=True)
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {"failed": f"exit {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def run(data: Data, subjects: list[str]) -> dict[str, dict[str, object]]:
    """Everything for one size and kind."""
    assert data.truth.shape == (len(data.queries), K)
    results: dict[str, dict[str, object]] = {}
    for subject in subjects:
        results[subject] = elsewhere(f"build:{subject}", data) | elsewhere(f"search:{subject}", data)
    if "approximate" in results:
        results["verify"] = elsewhere("verify", data)
        results["approximate, 1 % more"] = elsewhere("grow", data)
    hits = [results[name].pop("hits", None) for name in OURS if name in results]
    if len(hits) == 2 and all(hits):
        results["approximate"]["same hits"] = recall(hits[1], hits[0])
    return results


def report(results: dict[str, dict[str, object]], data: Data) -> None:
    raw = data.size * DIM * 4 / 2**20
    base = results.get("faiss-flat", {}).get("search")
    print(f"\n### {data.size:,} windows, {data.kind} clusters ({raw:,.0f} MB of vectors)\n")
    print(
        "| | build | open + first | search p50, p99 | × faiss flat | recall@10 | anonymous, of process | mapped × raw |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, r in results.items():
        if "search" not in r:
            continue
        ratio = f"{r['search'] / base:.2f}" if base else ""
        print(
            f"| {name} | {r['build']:.1f} s | {r['open']:.3f} + {r['first']:.3f} s | "
            f"{ms(r['search'])}, {ms(r['search99'])} | {ratio} | {r['recall']:.3f} | "
            f"{r['anonymous']:.0f}, {r['process']:.0f} MB | {r['mapped'] / raw:.2f} |"
        )
    print("\n| whole query | encode | p50, p99 | page 60 | filter to " + ", ".join(f"{f:.1%}" for f in FILTERS) + " |")
    print("|---|---|---|---|---|")
    for name, r in results.items():
        if "whole" in r:
            filters = [r.get(f"filter {share:g}") for share in FILTERS]
            some = ", ".join(f"{ms(f['whole'])} ({f['recall']:.3f})" if f else "–" for f in filters)
            extra = f" ({r['build']:.1f} s to index)" if "search" not in r else ""
            encode, deep = (ms(r[key]) if key in r else "" for key in ("encode", "deep"))
            print(f"| {name}{extra} | {encode} | {ms(r['whole'])}, {ms(r['whole99'])} | {deep} | {some} |")
    if "reading" in results.get("exact", {}):
        print(f"\nTo read all vectors once, with {os.cpu_count()} processors, takes {ms(results['exact']['reading'])}.")
    if "same hits" in results.get("approximate", {}):
        print(
            f"\nOf the ten hits that exact search gives, approximate gives {results['approximate']['same hits']:.1%}."
        )
    if "verify" in results.get("verify", {}):
        r = results["verify"]
        print(
            f"\n`verify` took {r['verify']:.1f} s, measured recall@10 {r['recall']:.3f}, left {r['anonymous']:.0f} MB."
        )
    for name, r in results.items():
        if "failed" in r:
            print(f"\n{name} failed: {r['failed']}")


def ms(seconds: object) -> str:
    return f"{1000 * float(seconds):.1f} ms"  # type: ignore[arg-type]


def count(text: str) -> int:
    """10k, 1M."""
    return int(float(text.rstrip("kM")) * {"k": 1000, "M": 10**6}.get(text[-1], 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10k,100k,1M")
    parser.add_argument("--clusters", default="tight,loose")
    parser.add_argument("--subjects", default=",".join((*OURS, *PEERS)))
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--all", action="store_true", help="also what takes very long to build")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--place", type=Path, help="where to work; what is made there is deleted")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.step, Data(options.place))))
        return
    figures = {}
    print(f"{os.cpu_count()} processors, {options.queries} queries, dim {DIM}")
    for kind in options.clusters.split(","):
        for size in map(count, options.sizes.split(",")):
            print(f"{size} {kind}", file=sys.stderr)
            place = Path(tempfile.mkdtemp(prefix="search-", dir=options.place))
            try:
                data = Data.make(place / "data", size, kind, options.queries)
                names = [s for s in options.subjects.split(",") if options.all or size <= MOST.get(s, size)]
                figures[f"{size} {kind}"] = results = run(data, names)
                report(results, data)
            finally:
                shutil.rmtree(place)
            if options.json:
                options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
