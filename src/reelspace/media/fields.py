"""What the heads of H.264's slices tell of a packet.

Whether it is a second field: where pictures are coded as two fields each, as broadcasters do, one that travels in a
packet of its own is no frame of its own, and nothing else tells. And whether other frames depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream

SLICES, PARAMETERS = (1, 2, 5), 7  # types of units
ENOUGH = 64  # bytes of a slice in which its head is over
# Profiles whose parameters tell of colour sampling.
HIGH = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


class _Layout(NamedTuple):
    """What of a sequence's parameters is needed to read the head of a slice."""

    fields: bool  # pictures may be fields
    number_bits: int
    planes: bool  # three planes coded apart


class Slices:
    """Told every packet in order, says which are the second field of the frame before; and which can be spared."""

    def __init__(self, stream: VideoStream) -> None:
        parameters = bytes(stream.codec_context.extradata or b"") if stream.codec.canonical_name == "h264" else b""
        # In MP4 and MKV units are preceded by their lengths, elsewhere by start codes.
        self._length_size = (parameters[4] & 3) + 1 if len(parameters) > 8 and parameters[0] == 1 else None
        unit = parameters[8:] if self._length_size else next(_of_type(_marked(parameters), (PARAMETERS,)), b"")
        self._layout = _read_layout(unit) if unit else None
        self._open: tuple[int, int] | None = None  # number and parity of a first field

    def is_spare(self, packet: Packet[Any]) -> bool:
        """Whether no other frame depends on the one in this packet. Only of H.264."""
        for length in (256, packet.size):  # what comes before the first slice is seldom longer
            if unit := next(_of_type(self._units(bytes(memoryview(packet)[:length])), SLICES), b""):
                return not unit[0] & 0x60
        return False

    def is_second(self, packet: Packet[Any]) -> bool:
        """Whether this packet completes the frame of the packet before."""
        if self._layout is None or not self._layout.fields:
            return False
        units = self._units(bytes(memoryview(packet)[:4096]))
        field = _read_field(next(_of_type(units, SLICES), b""), self._layout)
        if field is not None and self._open == (field[0], 1 - field[1]):
            self._open = None
            return True
        self._open = field
        return False

    def _units(self, data: bytes) -> Iterator[bytes]:
        return _marked(data) if self._length_size is None else _measured(data, self._length_size)


def _marked(data: bytes) -> Iterator[bytes]:
    """Units between start codes."""
    yield from data.split(b"\x00\x00\x01")[1:]


def _measured(data: bytes, size: int) -> Iterator[bytes]:
    """Units after their lengths."""
    while len(data) > size:
        length = int.from_bytes(data[:size], "big")
        yield data[size : size + length]
        data = data[size + length :]


def _of_type(units: Iterator[bytes], types: tuple[int, ...]) -> Iterator[bytes]:
    return (unit for unit in units if unit and unit[0] & 31 in types)


class _Bits:
    """Reads bits; behind the end there are only ones."""

    def __init__(self, unit: bytes) -> None:
        data = unit[1:].replace(b"\x00\x00\x03", b"\x00\x00") + b"\xff" * 8
        self._value, self._left = int.from_bytes(data, "big"), len(data) * 8

    def take(self, width: int) -> int:
        self._left = max(0, self._left - width)
        return (self._value >> self._left) & ((1 << width) - 1)

    def golomb(self) -> int:
        """ue(v)."""
        zeros = 0
        while self._left and not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros)


def _read_layout(unit: bytes) -> _Layout:
    bits, planes = _Bits(unit), False
    profile = bits.take(24) >> 16
    bits.golomb()
    if profile in HIGH:
        sampling = bits.golomb()
        planes = bool(sampling == 3 and bits.take(1))
        bits.golomb(), bits.golomb(), bits.take(1)
        if bits.take(1):
            for number in range(12 if sampling == 3 else 8):
                if bits.take(1):
                    _skip_scaling(bits, 16 if number < 6 else 64)
    number_bits = bits.golomb() + 4
    kind = bits.golomb()
    if kind == 0:
        bits.golomb()
    elif kind == 1:
        bits.take(1), bits.golomb(), bits.golomb()
        for _ in range(min(bits.golomb(), 255)):
            bits.golomb()
    bits.golomb(), bits.take(1), bits.golomb(), bits.golomb()
    return _Layout(not bits.take(1), number_bits, planes)


def _skip_scaling(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            code = bits.golomb()
            following = (last + (code + 1 >> 1 if code & 1 else -(code >> 1))) % 256
        last = following or last


def _read_field(unit: bytes, layout: _Layout) -> tuple[int, int] | None:
    """Frame number and parity (1: lower) of a slice that belongs to a field."""
    if not unit:
        return None
    bits = _Bits(unit[:ENOUGH])
    bits.golomb(), bits.golomb(), bits.golomb()
    if layout.planes:
        bits.take(2)
    number = bits.take(layout.number_bits)
    return (number, bits.take(1)) if bits.take(1) else None
