"""Models from the Hugging Face Hub: pinned, weighed before they are fetched, and never as code.

`HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN` are honoured: huggingface_hub reads them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from reelspace.embed.qwen_vl.device import need
from reelspace.errors import ModelError

log = logging.getLogger(__name__)

DESCRIBING = ("*.json", "*.txt", "*.model", "*.jinja")
"""Configuration and tokenizer; no code."""
WANTED = (*DESCRIBING, "*.safetensors")
"""The weights with them, if they are no pickles."""


def described(source: str, revision: str = "main") -> Path:
    """The folder of a model's configuration and tokenizer, without its weights, fetched if need be.

    Raises:
        ModelError: it is not in the cache and cannot be fetched.
    """
    return _cached(source, revision) or _fetched(source, revision, DESCRIBING)


def fetched(source: str, revision: str = "main") -> Path:
    """The folder of a model's files at that revision, fetched if they are not all in the cache.

    Raises:
        ModelError: they are not in the cache and cannot be fetched: no network, no access, no such model.
    """
    folder = _cached(source, revision)
    return folder if folder is not None and complete(folder) else _fetched(source, revision, WANTED)


def commit(folder: Path) -> str | None:
    """The commit that a folder of the cache holds; `None` for any other folder."""
    return folder.name if folder.parent.name == "snapshots" else None


def complete(folder: Path) -> bool:
    """Whether its weights are there: a file, or all that an index names."""
    for index in folder.glob("*.safetensors.index.json"):
        parts = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        return all((folder / part).exists() for part in parts)
    return any(folder.rglob("*.safetensors"))


def _cached(source: str, revision: str) -> Path | None:
    need("huggingface_hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _fetched(source: str, revision: str, wanted: Sequence[str]) -> Path:
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        log.warning("%s is not in the cache; fetching %s", source, human(weighed(source, revision, wanted)))
        return Path(snapshot_download(source, revision=revision, allow_patterns=list(wanted)))
    except (HfHubHTTPError, HFValidationError, HTTPError, OSError) as error:  # offline mode is an OSError too
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ModelError(
            f"{source} ({revision[:12]}) is not in the cache and cannot be fetched: {reason}. Fetch it where there is "
            f"a network (`hf download {source} --revision {revision}`), and set HF_HOME to where it lies."
        ) from error


def weighed(source: str, revision: str, wanted: Sequence[str] = WANTED) -> int:
    """Bytes that would be fetched."""
    from fnmatch import fnmatch

    from huggingface_hub import HfApi

    found = HfApi().model_info(source, revision=revision, files_metadata=True).siblings or []
    return sum(file.size or 0 for file in found if any(fnmatch(file.rfilename, pattern) for pattern in wanted))


def human(size: int) -> str:
    """Bytes for reading: `7.5 GB`."""
    for unit, power in (("GB", 1e9), ("MB", 1e6)):
        if size >= power:
            return f"{size / power:.1f} {unit}"
    return f"{size / 1e3:.0f} kB"


def hashed(folder: Path) -> str:
    """Hash of a model's weights, configuration and tokenizer."""
    digest = hashlib.sha256()
    names = sorted(path for path in folder.iterdir() if path.suffix in (".safetensors", ".json"))
    for path in names:
        if path.name.startswith(("readout", "README")):
            continue
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
