"""What names a served model: `http://HOST[:PORT]/v1[?OPTION=VALUE&…]#MODEL`.

The part after `?` is for us and never sent. A library remembers the model and the options, never the host: a server may
move, and a library that came from somebody else must not be able to say where your queries go.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from reelspace.errors import ItemError, ModelError
from reelspace.media.policy import Fps, FramePolicy, Sampling, parse_policy

SERVED = "served:"
ENDPOINT, KEY = "REELSPACE_ENDPOINT", "REELSPACE_ENDPOINT_KEY"


@dataclass(frozen=True)
class Conversation:
    """How a chat is to be written around an item so that the model's own pooled token ends it.

    Attributes:
        query: system text of queries where no instruction is given; `None`: no system message.
        candidate: system text of candidates.
        tail: `""` ends with the user's message; `generation` has the server add its generation prompt; other text is
            the beginning of an answer that is not ended (`continue_final_message`).
        special: has the server's tokenizer add its own special tokens at the end, on top of the chat's.
    """

    query: str | None = None
    candidate: str | None = None
    tail: str = ""
    special: bool = False


# The first whose name is part of the model's, in lower case.
_CONVERSATIONS = {
    "qwen3-vl-embedding": Conversation(
        query="Represent the user's input.", candidate="Represent the user's input.", special=True
    ),
    "gve": Conversation(
        query="You are a helpful assistant.", candidate="You are a helpful assistant.", tail="<|endoftext|>"
    ),
}
OPEN = frozenset({"qwen3-vl-embedding"})  # an answer is begun although nothing is said in it
PATIENCE = 60.0
FRAMES = Fps(1, max=8)


@dataclass(frozen=True)
class Address:
    """Where a model is served, and how it is asked.

    Attributes:
        base: URL without query and fragment, e.g. `http://127.0.0.1:8000/v1`.
        model: the name the server knows it by.
        form: `chat` sends messages (text, pictures, videos); `input` sends texts, as OpenAI's own endpoint takes them.
        video: `frames` sends a video as one `video_url` of JPEG frames (vLLM), `images` as several pictures.
        policy, edge: which frames are sent, and how large: the shorter side in pixels, of pictures too.
        dimensions: how many numbers are asked for; `None`: as many as the model gives.
        conversation: see `Conversation`.
        begun: the chat ends with an assistant's message that is not ended.
        revision: anything you declare of the weights; part of the fingerprint.
        timeout: seconds for one answer.
    """

    base: str
    model: str
    form: Literal["chat", "input"] = "chat"
    video: Literal["frames", "images"] = "frames"
    policy: FramePolicy = FRAMES
    edge: int = 448
    dimensions: int | None = None
    conversation: Conversation = Conversation()
    begun: bool = False
    revision: str = ""
    timeout: float = PATIENCE

    @property
    def sampling(self) -> Sampling:
        """How frames are taken before they are sent."""
        return Sampling(self.policy, self.edge)

    @property
    def options(self) -> dict[str, str]:
        """What decides the vectors, as it is written in an address."""
        spoken = self.conversation
        return {
            "form": self.form,
            "video": self.video,
            "frames": str(self.policy).replace(" ", ""),
            "edge": str(self.edge),
            "dimensions": str(self.dimensions or ""),
            "revision": self.revision,
            "query": spoken.query or "",
            "candidate": spoken.candidate or "",
            "tail": spoken.tail,
        }

    @property
    def name(self) -> str:
        """`served:MODEL`, and the options that are not as usual: what a library keeps."""
        usual = usually(self.base, self.model).options
        unusual = {key: value for key, value in self.options.items() if value != usual[key]}
        return SERVED + self.model + ("?" + urlencode(unusual, safe="(),=:/") if unusual else "")


def is_address(name: str) -> bool:
    """Whether a model's name is one of a served model."""
    return name.startswith((SERVED, "http://", "https://"))


def usually(base: str, model: str) -> Address:
    """What is known of a model by its name."""
    known = next((key for key in _CONVERSATIONS if key in model.lower()), None)
    conversation = _CONVERSATIONS[known] if known else Conversation()
    begun = known in OPEN or conversation.tail not in ("", "generation")
    return Address(base, model, conversation=conversation, begun=begun)


def parse(name: str) -> Address:
    """An address of its name.

    Raises:
        ModelError: it cannot be read, or no endpoint is known for it.
    """
    if name.startswith(SERVED):
        model, _, options = name.removeprefix(SERVED).partition("?")
        base = os.environ.get(ENDPOINT, "")
        if not base:
            raise ModelError(
                f"{name} is served over HTTP, and where is not said: set ${ENDPOINT} to its URL "
                f"(http://127.0.0.1:8000/v1), or name the model by it: http://127.0.0.1:8000/v1#{model}"
            )
    else:
        whole = urlsplit(name)
        model, options = whole.fragment, whole.query
        base = whole._replace(query="", fragment="").geturl()
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ModelError(f"“{_shown(base)}” is no endpoint; write http://HOST:PORT/v1#MODEL.")
    if parts.username or parts.password:
        raise ModelError(f"Give the key of {parts.hostname} in ${KEY}, not in its URL, which is shown and kept.")
    if not model:
        raise ModelError(f"{base} does not say which model: write {base}#MODEL, as the server's /models names it.")
    base = base.rstrip("/")
    return _with(usually(base.removesuffix("/embeddings"), model), options, name)


def _with(address: Address, options: str, name: str) -> Address:
    """The address with its options."""
    try:
        for key, value in parse_qsl(options, keep_blank_values=True, strict_parsing=bool(options)):
            address = _option(address, key, value)
    except (ValueError, ItemError) as error:
        raise ModelError(f"{_shown(name)}: {error}") from None
    return address


def _option(address: Address, key: str, value: str) -> Address:
    spoken = address.conversation
    match key, value:
        case "form", "chat" | "input":
            return replace(address, form=value)
        case "video", "frames" | "images":
            return replace(address, video=value)
        case "frames", _:
            return replace(address, policy=parse_policy(value))
        case (("edge" | "dimensions"), _) if value.isdecimal() and 0 < int(value) <= 1 << 16:
            return replace(address, **{key: int(value)})  # type: ignore[arg-type]
        case "timeout", _ if 0 < float(value) < float("inf"):
            return replace(address, timeout=float(value))
        case "revision", _:
            return replace(address, revision=value)
        case (("query" | "candidate"), _):
            return replace(address, conversation=replace(spoken, **{key: value or None}))  # type: ignore[arg-type]
        case "tail", _:
            return replace(
                address, conversation=replace(spoken, tail=value, special=False), begun=value not in ("", "generation")
            )
    raise ValueError(
        f"“{key}={value}” is no option; there are form=chat|input, video=frames|images, frames=fps(1,max=8), edge=448, "
        "dimensions=N, query=TEXT, candidate=TEXT, tail=TEXT, revision=TEXT, timeout=SECONDS."
    )


def confidential(base: str) -> bool:
    """Whether a key may travel to this URL: encrypted, or within this machine or its own network."""
    parts = urlsplit(base)
    host = parts.hostname or ""
    if parts.scheme == "https" or "." not in host.replace(":", ".") or host.endswith((".local", ".lan", ".internal")):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_private


def _shown(url: str) -> str:
    """A URL without what may be a secret in it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl()
