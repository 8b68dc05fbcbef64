"""How a vector is read from a model: the whole contract as data. Nothing in it is guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from reelspace.errors import ItemError, ModelError
from reelspace.media.policy import Sampling, parse_policy

FILE = "readout.json"
"""Beside the weights of a model that brings its contract along."""

MODALITIES = ("text", "image", "video", "image+text", "video+text", "video+image", "video+image+text")


@dataclass(frozen=True)
class Readout:
    """Where a model is asked for a vector, and how its input is made.

    Attributes:
        template: the prompt. `{instruction}` and `{user}` stand for what their names say; special tokens are written
            as the tokenizer names them. In what users write, special tokens have no power.
        appended: what stands after the template: the pooled token of models that want one of their own.
        user: modality (`text`, `image+text`, …; `*`: any other) → what the user says: `{video}`, `{image}` and
            `{text}` stand for the parts. At `{|}` the words before and after are tokenised apart. A form for one
            side only has the key `query:text`, `candidate:video`, ….
        query: the instruction of a query for which none is given.
        candidate: the instruction of every candidate.
        instructions: instructions by key: `encode_query(items, "@key")`. An unknown key is an error.
        layer: after how many layers the state is read; `None`: after the last. 0 are the embeddings.
        norm: apply the model's final norm to it.
        position: which token is pooled, counted from the end: −1 is the last that is not padding.
        max_length: most tokens. What is cut is the end of the user's text; all else is needed.
        image_pixels: fewest and most pixels of a picture.
        frame_pixels: fewest and most pixels of a frame of a video.
        video_pixels: most pixels of all temporal patches of a video together; `None`: no bound.
        size: height and width of every picture and frame, whatever their shape; instead of the budgets.
        frames: the frame policy, as `parse_policy` reads it.
        edge: shorter side of frames in pixels, to which they are scaled down while decoding; `None`: full size.
        stills: frames are shown one by one as pictures, to models that know no video.
        timed: tell the model how long a temporal patch lasts; else it is told `seconds`, whatever the video.
        seconds: 1.0 is what transformers takes where it is told nothing.
        framed: visual tokens stand between `<|vision_start|>` and `<|vision_end|>`.
    """

    template: str
    appended: str = ""
    user: Mapping[str, str] = field(default_factory=lambda: {"*": "{video}{image}{text}"})
    query: str = ""
    candidate: str = ""
    instructions: Mapping[str, str] = field(default_factory=dict)
    layer: int | None = None
    norm: bool = True
    position: int = -1
    max_length: int = 8192
    image_pixels: tuple[int, int] = (4 * 28**2, 256 * 28**2)
    frame_pixels: tuple[int, int] = (128 * 28**2, 200 * 28**2)
    video_pixels: int | None = None
    size: tuple[int, int] | None = None
    frames: str = "fps(1, max=8)"
    edge: int | None = None
    stills: bool = False
    timed: bool = True
    seconds: float = 1.0
    framed: bool = True

    def __post_init__(self) -> None:
        for name in ("image_pixels", "frame_pixels", "size"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(value))
        if "{user}" not in self.template:
            raise ModelError("A readout's template must say where {user} stands.")
        if self.position >= 0:
            raise ModelError(f"The pooled position is counted from the end: −1 is the last token, not {self.position}.")
        try:
            parse_policy(self.frames)
        except ItemError as error:
            raise ModelError(f"A readout's frames: {error}") from None

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """A readout from its declared form.

        Raises:
            ModelError: a key is unknown, or the template is missing.
        """
        known = {entry.name for entry in fields(cls)}
        if unknown := sorted(set(declared) - known):
            raise ModelError(f"A readout has no {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
        if "template" not in declared:
            raise ModelError("A readout without a template: nobody knows where its vector is.")
        return cls(**declared)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The readout beside a model's weights.

        Raises:
            ModelError: it is missing or cannot be understood.
        """
        path = folder / FILE
        try:
            return cls.of(json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            raise ModelError(f"{folder} has no {FILE}: nobody knows where its vector is read.") from None
        except (ModelError, ValueError, TypeError) as error:
            raise ModelError(f"{path}: {error}") from None

    def write(self, folder: Path) -> None:
        """Puts it beside a model's weights."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps(self.declared(), indent=1, ensure_ascii=False) + "\n", "utf-8")

    def declared(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def sampling(self) -> Sampling:
        """How frames are taken from a video."""
        return Sampling(parse_policy(self.frames), self.edge)

    def frame_budget(self, count: int, depth: int) -> tuple[int, int]:
        """Fewest and most pixels of each of `count` frames, `depth` of which are one temporal patch.

        The most is an equal share of the whole video's, though 5 % above the fewest.
        """
        least, most = self.frame_pixels
        if self.video_pixels is None:
            return least, most
        return least, max(min(most, self.video_pixels * depth // (count + -count % depth)), int(least * 1.05))

    @property
    def modalities(self) -> frozenset[str]:
        """The values of `Item.modality` there is a form for."""
        named = {key.rpartition(":")[2] for key in self.user}
        return frozenset(MODALITIES if "*" in named else named)

    def said(self, modality: str, side: str) -> str:
        """What the user says with an item of that modality.

        Raises:
            ModelError: the contract has no form for it.
        """
        for key in (f"{side}:{modality}", modality, f"{side}:*", "*"):
            if key in self.user:
                return self.user[key]
        raise ModelError(f"The model takes {', '.join(sorted(self.modalities))}; this item is {modality}.")

    def instruction(self, side: str, given: str | None = None) -> str:
        """The instruction of a query or candidate; `@key` names one of the contract's own.

        Raises:
            ModelError: there is no such key.
        """
        if side == "candidate":
            return self.candidate
        if given is None:
            return self.query
        if not given.startswith("@"):
            return given
        if given[1:] not in self.instructions:
            keys = ", ".join(f"@{key}" for key in self.instructions) or "none"
            raise ModelError(f"The model has no instruction {given}; it has {keys}. Or write the instruction itself.")
        return self.instructions[given[1:]]
