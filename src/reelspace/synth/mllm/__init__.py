"""Multimodal language models: a request with frames in, a text out. `load` is the way to one; a new kind is one file.

`server` asks any OpenAI-compatible server, `local` runs a model in this process, `tiny` the one that learnt worlds,
`oracle` knows the truth of worlds. `desk` is where they are asked: it remembers answers, checks them, keeps accounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError
from reelspace.synth.schema import Clip, Picture

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from reelspace.synth.config import Mllm


class MllmError(ReelspaceError):
    """A model that cannot be asked at all: wrong address, no key, no such model. Nothing is given up for it."""


class RefusedError(ReelspaceError):
    """This one request was not answered, and asking again would not help, or has not helped."""


@dataclass(frozen=True, eq=False)
class Show:
    """Frames that go with a request.

    Attributes:
        name: as the prompt calls them: `VIDEO`, `REFERENCE IMAGE` …
        frames: uint8 `[T, H, W, 3]`; one, of a picture.
        times: float64 `[T]`, in seconds; of a picture that is no frame, empty.
        source: where they come from.
    """

    name: str
    frames: NDArray[np.uint8]
    times: NDArray[np.float64]
    source: Clip | Picture

    @property
    def moving(self) -> bool:
        """Whether they are a video."""
        return isinstance(self.source, Clip)


@dataclass(frozen=True, eq=False)
class Request:
    """What a model is asked.

    Attributes:
        task: `captions`, `frame`, `from_picture`, `from_clip` or `verify`.
        version: name and version of the prompt.
        system, prompt: the words.
        shows: the frames, in the order in which the prompt speaks of them.
        slots: what was filled into the prompt.
        schema: what the answer is to be, as JSON; `None`: free text.
        choices: what the answer is one of, where it is a single word.
        seed: of the sampling.
    """

    task: str
    version: str
    system: str
    prompt: str
    shows: tuple[Show, ...]
    slots: Mapping[str, Any] = field(default_factory=dict)
    schema: type[BaseModel] | None = None
    choices: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Reply:
    """What it answered.

    Attributes:
        text: the answer.
        model, revision: who answered, as it names itself.
        input_tokens, output_tokens: what it took.
        likelihoods: of each of the choices, where the model tells: they sum to 1.
        cut: it would have gone on, but was as long as answers may be.
    """

    text: str
    model: str = ""
    revision: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    likelihoods: Mapping[str, float] = field(default_factory=dict)
    cut: bool = False


class Client(Protocol):
    """A way to ask a model."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever changes its answers: model, revision, temperature, and the like."""

    @property
    def together(self) -> int:
        """How many requests it takes at once."""

    def ask(self, request: Request) -> Reply:
        """The answer. May be called from several threads.

        Raises:
            RefusedError: this request will not be answered.
            MllmError: no request will be.
        """

    def close(self) -> None:
        """Lets go of what it holds."""


def load(config: Mllm, run: Path) -> Client:
    """The client that a configuration asks for; `run` is the folder beside the dataset's.

    Raises:
        MllmError: it cannot be had here.
    """
    if config.kind == "server":
        from reelspace.synth.mllm.server import Server

        return Server(config)
    if config.kind == "transformers":
        from reelspace.synth.mllm.local import Local

        return Local(config)
    if config.kind == "tiny":
        from reelspace.synth.mllm.tiny import Tiny

        return Tiny(config)
    from reelspace.synth.mllm.oracle import Oracle

    return Oracle(config, run)
