"""`Served`: items as requests, answers as vectors."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Vectors, fingerprint, normalise
from reelspace.embed.served.address import Address
from reelspace.embed.served.client import Client, OvercomeError, RefusedError
from reelspace.errors import EncodeError, ModelError, ReelspaceError
from reelspace.item import Frames, Item, Span
from reelspace.media.decode import sample
from reelspace.media.image import load_image
from reelspace.media.policy import Sampling

VERSION = 1  # of what is sent
TEXTS = 64  # texts a request
AT_ONCE = 8  # requests under way
_QUALITY = 95  # of JPEG frames, their colours not subsampled

Body = dict[str, Any]


class Served:
    """A model that an endpoint serves.

    One request carries one chat, as vLLM takes them, or many texts (`form=input`). Only what was read here is sent, as
    data URLs: never a path or an address that the server would have to fetch.
    """

    def __init__(self, address: Address) -> None:
        """Nothing is asked of the server before it is needed."""
        self.address = address
        self.name = address.name

    @property
    def sampling(self) -> Sampling:
        """Frames that are sent."""
        return self.address.sampling

    @cached_property
    def modalities(self) -> frozenset[str]:
        """What can be sent."""
        if self.address.form == "input":
            return frozenset({"text"})
        mixed = {"image+text", "video+text", "video+image", "video+image+text"}
        return frozenset({"text", "image", "video", *mixed})

    @cached_property
    def fingerprint(self) -> str:
        """Of the model's name and all that is declared; the host is not part of it: a server may move."""
        return fingerprint(model=self.address.model, served=VERSION, **self.address.options)

    @cached_property
    def dim(self) -> int:
        """As many numbers as the server gives for a text.

        Raises:
            ModelError: it gives none.
        """
        return len(self._asked([self._body(Item(text="a dog"), None, "candidate")], single=True)[0])

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors:
        """Unit rows float32 `[n, d]`; an instruction is the chat's system message.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
            ModelError: the server cannot be reached or used.
        """
        return self._encode(items, instruction, "query")

    def encode_candidate(self, items: Sequence[Item]) -> Vectors:
        """Unit rows float32 `[n, d]`.

        Raises:
            EncodeError: some items failed; it carries the rows of the others.
            ModelError: the server cannot be reached or used.
        """
        return self._encode(items, None, "candidate")

    @cached_property
    def _client(self) -> Client:
        return Client(self.address.base, self.address.timeout)

    def _encode(self, items: Sequence[Item], instruction: str | None, side: str) -> Vectors:
        failures: dict[int, str] = {}
        bodies: dict[int, Body] = {}
        for position, item in enumerate(items):
            if item.modality not in self.modalities:
                failures[position] = (
                    f"the model takes {', '.join(sorted(self.modalities))}; this item is {item.modality}"
                )
                continue
            try:
                bodies[position] = self._body(item, instruction, side)
            except (ReelspaceError, OSError) as error:
                failures[position] = str(error)
        # A search asks for a query and for its parts, which may be one and the same.
        alike: dict[str, int] = {}
        firsts = {position: alike.setdefault(json.dumps(body), position) for position, body in bodies.items()}
        found = self._answers({position: bodies[position] for position in alike.values()})
        answers = {position: found[first] for position, first in firsts.items()}
        good: dict[int, NDArray[np.float64]] = {}
        for position, answer in answers.items():
            if isinstance(answer, str):
                failures[position] = answer
            elif not np.isfinite(answer).all() or not answer.any():
                failures[position] = "the server returned a vector that is not finite, or nothing but zeros"
            else:
                good[position] = answer
        positions = sorted(good)
        rows = [good[position] for position in positions]
        vectors = normalise(np.stack(rows)) if rows else np.empty((0, self.dim), dtype=np.float32)
        if failures:
            raise EncodeError(failures, positions, vectors)
        return vectors

    # Requests

    def _body(self, item: Item, instruction: str | None, side: str) -> Body:
        """What is posted for an item; the text alone in the form `input`, where many share a request."""
        spoken = self.address.conversation
        if self.address.form == "input":
            assert item.text is not None
            lead = instruction if instruction is not None else getattr(spoken, side)
            return {"input": f"{lead}{item.text}" if lead else item.text}
        system = instruction if instruction is not None else getattr(spoken, side)
        content, extra = self._content(item)
        messages = [_message("system", [_text(system)])] if system else []
        messages.append(_message("user", content))
        if self.address.begun:
            messages.append(_message("assistant", [_text(spoken.tail)]))
            extra |= {"continue_final_message": True}
        elif spoken.tail == "generation":
            extra |= {"add_generation_prompt": True}
        return {"messages": messages, **extra, **({"add_special_tokens": True} if spoken.special else {})}

    def _content(self, item: Item) -> tuple[list[Body], Body]:
        """The parts of a message, in the one order there is, and what the request says besides."""
        content: list[Body] = []
        extra: Body = {}
        if item.video is not None:
            frames = self._frames(item.video)
            if self.address.video == "images":
                content += [_picture(frame) for frame in frames.pixels]
            else:
                url = "data:video/jpeg;base64," + ",".join(_jpeg(frame) for frame in frames.pixels)
                content.append({"type": "video_url", "video_url": {"url": url}})
                extra = {"media_io_kwargs": {"video": _timing(frames)}}
        if item.image is not None:
            content.append(_picture(_shrunk(load_image(item.image), self.address.edge)))
        if item.text is not None:
            content.append(_text(item.text))
        return content, extra

    def _frames(self, video: Span | Frames) -> Frames:
        """The frames that are sent: an even number, as models that see them in pairs take them."""
        if isinstance(video, Span):
            video = sample(video, self.sampling)
        chosen = self.sampling.policy.choose(video.times, video.start, video.end)
        if len(chosen) % 2 and len(chosen) > 1:
            chosen = np.append(chosen, chosen[-1])
        pixels = np.stack([_shrunk(video.pixels[index], self.address.edge) for index in chosen])
        return Frames(pixels, video.times[chosen], video.start, video.end)

    def _answers(self, bodies: Mapping[int, Body]) -> dict[int, NDArray[np.float64] | str]:
        """For each position a vector, or why there is none."""
        if not bodies:
            return {}
        size = TEXTS if self.address.form == "input" else 1
        _ = self.dim  # asked for once, before threads would
        positions = list(bodies)
        parts = [positions[start : start + size] for start in range(0, len(positions), size)]
        with ThreadPoolExecutor(min(AT_ONCE, len(parts))) as threads:
            found = list(threads.map(lambda part: self._part([bodies[position] for position in part]), parts))
        return dict(zip(positions, (row for rows in found for row in rows), strict=True))

    def _part(self, bodies: list[Body]) -> Sequence[NDArray[np.float64] | str]:
        """Answers to bodies of one request; where the server has trouble with one, the others are asked alone."""
        try:
            return self._asked(bodies)
        except RefusedError as error:
            if len(bodies) == 1:
                return [f"the server refuses it: {error}"]
        except OvercomeError as error:
            # Is it this request, or any? A server that is down for all is no property of an item.
            if not self._well():
                raise
            if len(bodies) == 1:
                return [f"the server fails at it: {error}"]
        return [row for body in bodies for row in self._part([body])]

    def _well(self) -> bool:
        """Whether the server answers something harmless."""
        try:
            self._asked([self._body(Item(text="a dog"), None, "candidate")], single=True)
        except ModelError:
            return False
        return True

    def _asked(self, bodies: list[Body], single: bool = False) -> list[NDArray[np.float64]]:
        """One request, and its answer as rows.

        Raises:
            ModelError: the answer is not what was asked for.
        """
        body: Body = {"model": self.address.model, "encoding_format": "float", **bodies[0]}
        if "input" in body:
            body["input"] = [one["input"] for one in bodies]
        if self.address.dimensions is not None:
            body["dimensions"] = self.address.dimensions
        answer = self._client.post("embeddings", body)
        rows = self._rows(answer, len(bodies))
        wanted = len(rows[0]) if single else self.dim
        for row in rows:
            if len(row) != wanted:
                raise ModelError(
                    f"{self.address.base}: {self.address.model} gave {len(row)} numbers where it gave {wanted} before: "
                    "another model answers under this name."
                )
        return rows

    def _rows(self, answer: Any, count: int) -> list[NDArray[np.float64]]:
        try:
            data = sorted(answer["data"], key=lambda one: one["index"])
            if [one["index"] for one in data] != list(range(count)):
                raise ValueError(f"{len(data)} vectors for {count} items")
            rows = [np.asarray(one["embedding"], dtype=np.float64) for one in data]
            if any(row.ndim != 1 or not len(row) for row in rows):
                raise ValueError("an embedding that is no list of numbers")
        except (TypeError, KeyError, ValueError) as error:
            raise ModelError(
                f"{self.address.base}: its answer is not that of an OpenAI-style embedding endpoint ({error})."
            ) from None
        return rows


def _message(role: str, content: list[Body]) -> Body:
    return {"role": role, "content": content}


def _text(text: str) -> Body:
    return {"type": "text", "text": text}


def _picture(pixels: NDArray[np.uint8]) -> Body:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    return {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"},
    }


def _jpeg(pixels: NDArray[np.uint8]) -> str:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=_QUALITY, subsampling=0)
    return base64.b64encode(out.getvalue()).decode()


def _shrunk(pixels: NDArray[np.uint8], edge: int) -> NDArray[np.uint8]:
    """The picture with its shorter side at most `edge` pixels."""
    from PIL import Image

    height, width = pixels.shape[:2]
    if min(height, width) <= edge:
        return pixels
    scale = edge / min(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))


def _timing(frames: Frames) -> Body:
    """When the frames were, as vLLM takes it: those sent are the whole video, at the rate they were chosen at."""
    count = len(frames)
    rate = count / max(frames.end - frames.start, 1e-3)
    rate = rate if math.isfinite(rate) else 1.0
    return {
        "fps": rate,
        "frames_indices": list(range(count)),
        "total_num_frames": count,
        "duration": count / rate,
        "do_sample_frames": False,
    }
