"""Vectors served by a database: a library pushed there is searched from any machine that has the model."""

from __future__ import annotations

from reelspace.errors import LibraryError
from reelspace.index.remote.base import RemoteStore


def open_store(url: str, patience: tuple[float, ...] = (0.2, 0.5, 1.0)) -> RemoteStore:
    """The store at `qdrant://HOST[:PORT]/COLLECTION` or `postgresql://HOST/DATABASE[?collection=NAME]`.

    Nothing is sent yet. Passwords and keys may stand in the URL (`user:password@`), better in the environment.

    Args:
        patience: seconds to wait before each further attempt when the server cannot be reached or is overloaded.

    Raises:
        LibraryError: the URL is none of these, or the client package is not installed.
    """
    scheme = url.partition("://")[0]
    if scheme == "qdrant":
        from reelspace.index.remote.qdrant import QdrantStore

        return QdrantStore.at(url, patience)
    if scheme in ("postgresql", "postgres"):
        from reelspace.index.remote.postgres import PostgresStore

        return PostgresStore.at(url, patience)
    raise LibraryError(
        "A store is named qdrant://HOST[:PORT]/COLLECTION or postgresql://HOST/DATABASE[?collection=NAME]; "
        f"“{scheme}” is neither."
    )
