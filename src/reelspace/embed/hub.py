"""Models from the Hugging Face Hub: pinned, weighed before they are fetched, and never as code.

`HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN` are honoured: huggingface_hub reads them.
"""

from __future__ import annotations

import logging
from pathlib import Path

from reelspace.errors import ModelError

log = logging.getLogger(__name__)

WANTED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
"""Weights that are no pickles, configuration and tokenizer; no code."""


def fetched(source: str, revision: str) -> Path:
    """The folder of a model's files at that revision, fetched if it is not in the cache.

    Raises:
        ModelError: it is not in the cache and cannot be fetched: no network, no access, no such model.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=WANTED, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    try:
        log.warning("%s is not in the cache; fetching %s", source, human(weighed(source, revision)))
        return Path(snapshot_download(source, revision=revision, allow_patterns=WANTED))
    except (OfflineModeIsEnabled, LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{source} at {revision[:12]} is not in the cache and cannot be fetched: {reason}. Fetch it where there "
            f"is a network (`hf download {source} --revision {revision}`), and set HF_HOME to where it lies."
        ) from error


def weighed(source: str, revision: str) -> int:
    """Bytes that `fetched` would fetch."""
    from fnmatch import fnmatch

    from huggingface_hub import HfApi

    found = HfApi().model_info(source, revision=revision, files_metadata=True).siblings or []
    return sum(file.size or 0 for file in found if any(fnmatch(file.rfilename, pattern) for pattern in WANTED))


def human(size: int) -> str:
    """Bytes for reading: `7.5 GB`."""
    for unit, power in (("GB", 1e9), ("MB", 1e6)):
        if size >= power:
            return f"{size / power:.1f} {unit}"
    return f"{size / 1e3:.0f} kB"
