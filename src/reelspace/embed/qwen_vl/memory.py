"""What frozen eyes have seen, kept in a folder: where only what stands behind the vision tower is trained, a picture or
clip needs to go through it once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import fingerprint
from reelspace.embed.qwen_vl.inputs import VERSION, Family, Visual
from reelspace.embed.qwen_vl.readout import Readout
from reelspace.errors import ModelError
from reelspace.item import Frames, Span

FAMILIES = ("qwen2_vl", "qwen2_5_vl")
"""Architectures whose language model takes nothing of the vision tower but its tokens."""


class Memory:
    """Visual tokens by what they are of: a file (its path, size and time of change) and span, or the pixels themselves.

    A remembered `Visual` has its tokens `[n, d]` in the place of its patches, as rows `[n · merge², d / merge²]`, so
    that whatever cuts a batch by its grids cuts them rightly.

    Args:
        folder: may be shared by models and runs; each vision tower and contract has a folder of its own in it.
        backbone: transformers' model; its vision tower must not change from here on.

    Raises:
        ModelError: the architecture hands more than tokens on.
    """

    def __init__(self, folder: Path, backbone: Any, family: Family, readout: Readout) -> None:
        if family.kind not in FAMILIES or readout.stills:
            raise ModelError(f"What a {family.kind} model sees cannot be kept; only that of {', '.join(FAMILIES)} can.")
        self._backbone, self._family = backbone, family
        self._folder = folder / fingerprint(
            weights=_hashed(backbone.model.visual), readout=readout.declared(), preparation=VERSION
        )
        self._folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, source: Any, kind: str, make: Callable[[], Visual]) -> Visual:
        """What is remembered of a source; what is not is made and kept.

        Args:
            source: what `Item` takes as image or video.
            kind: `image` or `video`.
            make: prepares it.

        Raises:
            ReelspaceError: it cannot be read.
        """
        path = self._folder / f"{_named(source, kind)}.safetensors"
        if not path.exists():
            self._keep(make(), kind, path)
        return self._read(path)

    def _keep(self, visual: Visual, kind: str, path: Path) -> None:
        from safetensors.numpy import save

        tokens = self._looked(visual, kind)
        data = save(
            {
                "tokens": tokens.reshape(-1, tokens.shape[1] // self._family.cut.merge**2),
                "grid": np.asarray(visual.grid, dtype=np.int64),
                "times": np.asarray(visual.times, dtype=np.float64),
                "seconds": np.asarray([visual.seconds], dtype=np.float64),
            }
        )
        with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
            file.write(data)
        Path(file.name).replace(path)

    def _looked(self, visual: Visual, kind: str) -> NDArray[np.float32]:
        """Visual tokens float32 `[n, d]`."""
        import torch

        weight = next(self._backbone.model.visual.parameters())
        rows = torch.from_numpy(visual.patches).to(weight.device, weight.dtype)
        grid = torch.tensor([visual.grid], device=weight.device)
        look = self._backbone.model.get_image_features if kind == "image" else self._backbone.model.get_video_features
        with torch.no_grad():
            tokens: NDArray[np.float32] = look(rows, grid).pooler_output[0].float().cpu().numpy()
        return tokens

    def _read(self, path: Path) -> Visual:
        from safetensors.numpy import load

        held = load(path.read_bytes())
        t, h, w = (int(side) for side in held["grid"])
        count = h * w // self._family.cut.merge**2
        tokens = (count,) * t if len(held["times"]) else (count * t,)
        return Visual(held["tokens"], (t, h, w), tokens, tuple(map(float, held["times"])), float(held["seconds"][0]))


def _hashed(tower: Any) -> str:
    digest = hashlib.sha256()
    for name, weight in sorted(tower.state_dict().items()):
        digest.update(name.encode())
        digest.update(weight.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _named(source: Any, kind: str) -> str:
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    match source:
        case Frames():
            digest.update(source.pixels.tobytes())
            digest.update(f"{source.times.tolist()} {source.start} {source.end}".encode())
        case Span():
            digest.update(f"{_stamp(Path(source.path))} {source.start} {source.end}".encode())
        case str() | Path():
            digest.update(_stamp(Path(source)).encode())
        case _:
            digest.update(f"{np.shape(source)}".encode())
            digest.update(np.asarray(source).tobytes())
    return digest.hexdigest()


def _stamp(path: Path) -> str:
    try:
        about = path.stat()
    except OSError:
        return str(path)  # reading it will say what is wrong
    return f"{path.resolve()} {about.st_size} {about.st_mtime_ns}"
