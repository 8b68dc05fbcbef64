"""Any model of sentence-transformers as an `Embedder`: frames are chosen here, so that no video is decoded whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelspace.embed.base import Vectors, encode, fingerprint, normalise
from reelspace.embed.hub import commit, hashed
from reelspace.embed.qwen_vl import device as devices
from reelspace.errors import ItemError, ModelError
from reelspace.item import Frames, Item, Span
from reelspace.media.decode import sample
from reelspace.media.image import load_image
from reelspace.media.policy import Sampling, parse_policy

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PARTS = ("text", "image", "video")


class SentenceTransformerEmbedder:
    """A model of sentence-transformers. Its prompts are its instructions; what it takes, it says itself.

    Args:
        name: the name it is known by.
        folder: where it is.
        frames: the frame policy put in front of it.
        device, dtype: as of `QwenVLEmbedder`.
        batch: items in a batch.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        frames: str = "uniform(8)",
        device: str | None = None,
        dtype: str | None = None,
        batch: int = 8,
    ) -> None:
        self.name, self.folder, self._batch = name, folder, batch
        self._device, self._dtype = device, dtype
        try:
            self.sampling = Sampling(parse_policy(frames))
        except ItemError as error:
            raise ModelError(str(error)) from None

    @cached_property
    def model(self) -> SentenceTransformer:
        """The model itself. No code of the folder is run."""
        devices.need()
        from sentence_transformers import SentenceTransformer

        where = devices.device(self._device)
        kind = {"dtype": devices.dtype(self._dtype, where)}
        try:
            return SentenceTransformer(str(self.folder), device=where, model_kwargs=kind, local_files_only=True)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise ModelError(f"{self.name} cannot be loaded: {error}") from error

    @cached_property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.model.get_embedding_dimension() or self.model.encode(["a"]).shape[1])

    @cached_property
    def modalities(self) -> frozenset[str]:
        """The values of `Item.modality` it takes: what its own modules say."""
        order = ("video", "image", "text")
        given = [{kind} if isinstance(kind, str) else set(kind) for kind in self.model.modalities]
        mixed = {"message"} in given  # whatever a chat can hold
        found = {"+".join(part for part in order if part in kinds) for kinds in given if kinds <= set(order)}
        if mixed:
            found |= {f"{kind}+text" for kind in ("video", "image") if kind in found and "text" in found}
        return frozenset(found)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the weights and the frame policy."""
        weights = commit(self.folder) or [hashed(folder) for folder in self._parts()]
        return fingerprint(
            model="sentence-transformers", weights=weights, sampling=str(self.sampling), dtype=self._dtype or "auto"
        )

    def _parts(self) -> list[Path]:
        """The folder and those of its modules, which may have weights of their own."""
        modules = json.loads((self.folder / "modules.json").read_text("utf-8"))
        return [self.folder, *(self.folder / module["path"] for module in modules if module["path"])]

    @cached_property
    def instructed(self) -> bool:
        """Whether an instruction means something to it: it has prompts, or takes messages. To others it is text."""
        return any(self.model.prompts.values()) or bool(self.model.supports("message"))

    @property
    def contract(self) -> dict[str, Any]:
        """All that decides a vector, for `models show`."""
        prompts = {f"prompt {name}": text for name, text in self.model.prompts.items()}
        return {"source": str(self.folder), "frames": str(self.sampling), **prompts}

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors:
        """Unit rows float32 `[n, d]`; the instruction is the prompt, in the model's own form, where it has one.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """
        prompt = {} if instruction is None or not self.instructed else {"prompt": instruction}
        return self._encode(items, lambda inputs: self.model.encode_query(inputs, **self._options, **prompt))

    def encode_candidate(self, items: Sequence[Item]) -> Vectors:
        """Unit rows float32 `[n, d]`.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
        """
        return self._encode(items, lambda inputs: self.model.encode_document(inputs, **self._options))

    @property
    def _options(self) -> Mapping[str, Any]:
        return {"batch_size": self._batch, "show_progress_bar": False}

    def _encode(self, items: Sequence[Item], run: Any) -> Vectors:
        def rows(inputs: list[Any]) -> Vectors:
            """Alike with alike: a batch of sentence-transformers is of one modality."""
            made = np.empty((len(inputs), self.dim), dtype=np.float32)
            for kind in {_kind(given) for given in inputs}:
                chosen = [row for row, given in enumerate(inputs) if _kind(given) == kind]
                made[chosen] = np.asarray(run([inputs[row] for row in chosen]), dtype=np.float32)
            return normalise(made)

        return encode(items, self.modalities, self._input, rows, self.dim)

    def _input(self, item: Item) -> Any:
        """What sentence-transformers takes: the part itself, or a dictionary of them in one order."""
        parts: dict[str, Any] = {}
        if item.text is not None:
            parts["text"] = item.text
        if item.image is not None:
            from PIL import Image

            parts["image"] = Image.fromarray(load_image(item.image))
        if item.video is not None:
            parts["video"] = self._video(item.video)
        return next(iter(parts.values())) if len(parts) == 1 else parts

    def _video(self, video: Span | Frames) -> dict[str, Any]:
        frames = video if isinstance(video, Frames) else sample(video, self.sampling)
        chosen = self.sampling.policy.choose(frames.times, frames.start, frames.end)
        rate = len(chosen) / (frames.end - frames.start)
        about = {"fps": rate, "total_num_frames": len(chosen), "frames_indices": list(range(len(chosen)))}
        about["duration"] = frames.end - frames.start
        return {"array": frames.pixels[chosen].transpose(0, 3, 1, 2), "video_metadata": about}


def _kind(given: Any) -> tuple[str, ...]:
    if isinstance(given, dict) and "array" not in given:
        return tuple(given)
    return (type(given).__name__,)
