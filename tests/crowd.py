"""Contents without footage, for libraries of many windows; and whether two answers are the same."""

import numpy as np
import pytest

from reelspace.index.catalogue import FileRow
from reelspace.index.identity import Stamp
from reelspace.media.probe import VideoInfo


def content(catalogue, space, number, windows=8, files=1, duration=None, seed=0):
    """A content with random vectors, and the files (real, with nothing in them) that it is in."""
    random = np.random.default_rng([seed, number])
    folder = catalogue.path.parent.parent / "footage" / f"year {2000 + number % 5}"
    folder.mkdir(parents=True, exist_ok=True)
    length = duration or windows * 4.0
    info = VideoInfo(length, 96, 64, 100, "h264", created=1e9 + number * 1000 if number % 2 else None)
    video = catalogue.put_video(f"{number:040x}", info, None, "shots(2, 10)")
    spans = [(4.0 * place, 4.0 * place + 4.0) for place in range(windows)]
    centre = random.standard_normal(space.dim)
    vectors = centre + random.standard_normal((windows, space.dim)).cumsum(axis=0)  # neighbours are alike
    if number % 10 == 3:
        vectors[:] = vectors[0]  # ties
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    catalogue.put_vectors(space.id, video, catalogue.put_windows(video, spans), vectors, None)
    for copy in range(files):
        path = folder / f"{number} copy {copy}.mp4"
        path.touch()
        stat = path.stat()
        stamp = Stamp(stat.st_size, int(1.1e9 + number * 1000 + copy) * 10**9, stat.st_ino)
        catalogue.put_file(FileRow(str(path), "indexed", None, video, stamp))
    return video


def seen(report):
    return [(hit.rank, hit.path, hit.start, hit.end, hit.video, hit.copies) for hit in report.hits]


def assert_same(local, remote):
    assert seen(local) == seen(remote)
    assert (local.match, local.model, local.page, local.query) == (
        remote.match,
        remote.model,
        remote.page,
        remote.query,
    )
    assert [hit.score for hit in local.hits] == pytest.approx([hit.score for hit in remote.hits], abs=1e-6)
    for one, other in zip(local.hits, remote.hits, strict=True):
        assert one.matched == pytest.approx(other.matched, abs=1e-6)
