"""Messages between the reader and its workers: a JSON head and raw bytes, both length-prefixed, nothing pickled."""

from __future__ import annotations

import json
import struct
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reelspace.item import Frames

Message = tuple[dict[str, Any], bytes | bytearray]


class Source(Protocol):
    """What can be read from: fewer bytes than asked for mean the end."""

    def read(self, size: int, /) -> bytes | bytearray: ...


class Sink(Protocol):
    """What takes all that is written to it."""

    def write(self, data: bytes | bytearray, /) -> object: ...
    def flush(self) -> None: ...


_LENGTHS = struct.Struct("!IQ")


def send(stream: Sink, head: dict[str, Any], body: bytes | bytearray = b"") -> None:
    """Writes one message. Names that are no Unicode travel as lone surrogates, which JSON escapes."""
    text = json.dumps(head).encode("ascii")
    stream.write(_LENGTHS.pack(len(text), len(body)) + text)
    stream.write(body)
    stream.flush()


def receive(stream: Source) -> Message | None:
    """Reads one message; None where the stream has ended, be it inside a message."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    text, body = (stream.read(length) for length in _LENGTHS.unpack(lengths))
    if len(text) + len(body) < sum(_LENGTHS.unpack(lengths)):
        return None
    return json.loads(text), body


def frames_message(event: str, frames: Frames, thumbnail: bytes = b"") -> Message:
    """Frames as a message; the body is thumbnail, times and pixels, one after another."""
    head = {
        "event": event,
        "start": frames.start,
        "end": frames.end,
        "shape": frames.pixels.shape,
        "thumbnail": len(thumbnail),
    }
    return head, b"".join((thumbnail, frames.times.tobytes(), frames.pixels.tobytes()))


def frames_of(head: dict[str, Any], body: bytes | bytearray) -> tuple[Frames, bytes]:
    """The frames and the thumbnail of a message."""
    shape, at = head["shape"], head["thumbnail"]
    times: NDArray[np.float64] = np.frombuffer(body, np.float64, count=shape[0], offset=at)
    pixels: NDArray[np.uint8] = np.frombuffer(body, np.uint8, offset=at + times.nbytes).reshape(shape)
    return Frames(pixels, times, head["start"], head["end"]), bytes(body[:at])
