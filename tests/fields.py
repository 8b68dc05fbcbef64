"""Field-coded video written bit by bit: no encoder at hand makes pictures of one field each.

Every macroblock is a plain square, so that no transform and no prediction is needed: H.264 by `I_PCM`, MPEG-2 by DC
coefficients alone. Both fields of frame n carry its number as a barcode.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from clips import COLUMNS, STRIP, burn_barcode

Squares = NDArray[np.uint8]  # brightness of the macroblocks of a field [rows, columns]
COLUMNS_OF_BLOCKS, ROWS_OF_BLOCKS = COLUMNS, STRIP  # of a field: a cell of the barcode is one macroblock
SIZE = (16 * COLUMNS_OF_BLOCKS, 32 * ROWS_OF_BLOCKS)  # of a frame
GOP = 12
RATE = 25  # frames a second: twice as many fields


class _Bits:
    """Bits one after another."""

    def __init__(self) -> None:
        self._bits: list[str] = []
        self._count = 0

    def put(self, value: int, width: int) -> None:
        self._bits.append(f"{value:0{width}b}" if width else "")
        self._count += width

    def code(self, bits: str) -> None:
        self._bits.append(bits)
        self._count += len(bits)

    def golomb(self, value: int) -> None:
        """ue(v) of H.264."""
        length = (value + 1).bit_length()
        self.put(value + 1, 2 * length - 1)

    def align(self) -> None:
        self.put(0, -self._count % 8)

    def bytes(self) -> bytes:
        self.align()
        return int("1" + "".join(self._bits), 2).to_bytes(self._count // 8 + 1, "big")[1:]


def write_fields(path: Path, codec: str, frames: int = 25) -> Path:
    """A clip of field pictures, `h264` or `mpeg2video`, 25 frames a second.

    A bare stream, or, by the ending of `path`, in a container, put there without decoding.
    """
    stream = b"".join({"h264": _h264, "mpeg2video": _mpeg2}[codec](frames))
    if path.suffix in (".h264", ".m2v"):
        path.write_bytes(stream)
        return path
    bare = path.with_suffix(".bare")
    bare.write_bytes(stream)
    _mux(bare, path, {"h264": "h264", "mpeg2video": "mpegvideo"}[codec], frames)
    return path


def _squares(number: int) -> Squares:
    picture = np.full((ROWS_OF_BLOCKS, COLUMNS_OF_BLOCKS, 3), 120, dtype=np.uint8)
    burn_barcode(picture, number)
    return np.clip(picture[..., 0], 16, 235)


# -- H.264 -----------------------------------------------------------------------------------------------------------


def _h264(frames: int) -> Iterator[bytes]:
    for number in range(frames):
        place = number % GOP
        if place == 0:
            yield _unit(0x67, _sequence_parameters())
            yield _unit(0x68, _picture_parameters())
        for bottom in (False, True):
            yield _unit(0x65 if place == 0 and not bottom else 0x61, _field(number, place, bottom))


def _unit(head: int, payload: bytes) -> bytes:
    guarded, zeros = bytearray(), 0
    for byte in payload:
        if zeros == 2 and byte <= 3:
            guarded.append(3)
            zeros = 0
        guarded.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return b"\x00\x00\x00\x01" + bytes([head]) + bytes(guarded)


def _sequence_parameters() -> bytes:
    bits = _Bits()
    bits.put(77 << 16 | 40, 24)  # Main profile, level 4
    for value in (0, 0, 0, 4, 1):  # id; 16 frame numbers; order of display by 256 counts; one reference
        bits.golomb(value)
    bits.put(0, 1)
    bits.golomb(COLUMNS_OF_BLOCKS - 1)
    bits.golomb(ROWS_OF_BLOCKS - 1)
    bits.code("00" + "1" + "0" + "1")  # fields allowed, not by macroblock; inference; no cropping; more follows:
    bits.code("0000" + "1")  # of which only
    bits.put(1, 32)
    bits.put(2 * RATE, 32)
    bits.code("1" + "00" + "0" + "1" + "1")  # a fixed rate of fields; and restrictions:
    for value in (0, 0, 16, 16, 0, 1):  # nothing is displayed out of order
        bits.golomb(value)
    bits.code("1")
    return bits.bytes()


def _picture_parameters() -> bytes:
    bits = _Bits()
    bits.code("11" + "00" + "1" + "11" + "000" + "111" + "100" + "1")
    return bits.bytes()


def _field(number: int, place: int, bottom: bool) -> bytes:
    bits = _Bits()
    bits.golomb(0)
    bits.golomb(7)  # all intra
    bits.golomb(0)
    bits.put(place % 16, 4)
    bits.put(1, 1)
    bits.put(bottom, 1)
    if place == 0 and not bottom:
        bits.golomb(number // GOP % 2)
    bits.put(2 * place + bottom, 8)
    bits.code("00" if place == 0 and not bottom else "0")
    bits.golomb(0)
    bits.golomb(1)  # no deblocking
    head = bits
    for luma in _squares(number).ravel().tolist():
        head.golomb(25)  # I_PCM
        head.align()
        head.put(int.from_bytes(bytes([luma]) * 256 + bytes([128]) * 128, "big"), 384 * 8)
    head.code("1")
    return head.bytes()


# -- MPEG-2 ----------------------------------------------------------------------------------------------------------

_LUMA_SIZES = ("100", "00", "01", "101", "110", "1110", "11110", "111110", "1111110")  # of a DC difference, in bits
_NO_CHROMA = "00"
_END = "10"  # of a block


def _mpeg2(frames: int) -> Iterator[bytes]:
    for number in range(frames):
        place = number % GOP
        if place == 0:
            yield _sequence()
        for structure in (1, 2):  # top, bottom
            yield _picture(place, structure)
            squares = _squares(number)
            for row in range(ROWS_OF_BLOCKS):
                yield _slice(row, squares[row])
    yield b"\x00\x00\x01\xb7"


def _sequence() -> bytes:
    bits = _Bits()
    bits.put(0x1B3, 32)
    bits.put(SIZE[0], 12)
    bits.put(SIZE[1], 12)
    bits.code("0001" + "0011")  # square pixels, 25 frames a second
    bits.put(20_000, 18)
    bits.code("1" + f"{112:010b}" + "0" + "00")
    bits.align()
    bits.put(0x1B5, 32)
    bits.code("0001" + f"{0x48:08b}" + "0" + "01" + "00" + "00" + "0" * 12 + "1" + "0" * 8 + "0" + "00" + "0" * 5)
    bits.align()
    bits.put(0x1B8, 32)
    bits.code("0" * 12 + "1" + "0" * 12 + "1" + "0")
    return bits.bytes()


def _picture(place: int, structure: int) -> bytes:
    bits = _Bits()
    bits.put(0x100, 32)
    bits.put(place, 10)
    bits.code("001" + "1" * 16 + "0")  # intra
    bits.align()
    bits.put(0x1B5, 32)
    bits.code("1000" + "1" * 16 + "00" + f"{structure:02b}" + "0" + "0" + "0" + "0" + "0" + "0" + "0" + "0" + "0" + "0")
    return bits.bytes()


def _slice(row: int, squares: Squares) -> bytes:
    bits = _Bits()
    bits.put(0x101 + row, 32)
    bits.code("00001" + "0")
    known = 128
    for luma in squares.tolist():
        bits.code("1" + "1")  # the next macroblock, intra
        for block in range(4):
            difference = luma - known if block == 0 else 0
            size = abs(difference).bit_length()
            bits.code(_LUMA_SIZES[size])
            bits.put(difference if difference >= 0 else difference + (1 << size) - 1, size)
            bits.code(_END)
        known = luma
        bits.code((_NO_CHROMA + _END) * 2)
    return bits.bytes()


# -- containers ------------------------------------------------------------------------------------------------------


def _mux(bare: Path, path: Path, format: str, frames: int) -> None:
    """Each packet of the bare stream, a field or a frame as it is cut by the parser, gets its time."""
    with av.open(str(bare), format=format) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.size]
        step = Fraction(frames, RATE * len(packets))
        for number, packet in enumerate(packets):
            packet.stream, packet.time_base = stream, Fraction(1, 90_000)
            packet.pts = packet.dts = round(number * step * 90_000)
            packet.duration = round(step * 90_000)
            target.mux(packet)
