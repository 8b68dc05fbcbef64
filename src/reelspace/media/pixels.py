"""A decoder's frame → upright RGB pixels of the size that is asked for, in the colours of a screen."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.media import tone

if TYPE_CHECKING:
    from av.filter import Graph
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

INTERPOLATION = "BICUBIC"
# Ways to write colours as brightness and two differences, numbered as in ITU-T H.273, that swscale knows; 0 is RGB.
BT709, BT601, BT2020 = 1, 5, 9
MATRICES = (0, BT709, 4, BT601, 6, 7, BT2020)
CONSTANT_LUMINANCE = 10  # BT.2020's other way; next to the usual one


class Turn(NamedTuple):
    """How a stored picture becomes upright: axes swapped first, then flipped. From the display matrix."""

    swap: bool = False
    flip_x: bool = False
    flip_y: bool = False

    @classmethod
    def of(cls, frame: VideoFrame) -> Turn:
        side_data: Any = frame.side_data.get("DISPLAYMATRIX")
        if side_data is None:
            return cls()
        # x' = a·x + c·y and y' = b·x + d·y; a turn that is no multiple of 90° goes to the nearest.
        a, b, _, c, d = np.frombuffer(side_data, dtype=np.int32)[:5].tolist()
        if abs(a) < abs(b):
            return cls(True, c < 0, b < 0)
        return cls(False, a < 0, d < 0)

    @property
    def degrees(self) -> int:
        """Degrees counter-clockwise, before a mirroring from left to right if there is one."""
        if self.swap:
            return 90 if self.flip_y else 270
        return 180 if self.flip_y else 0

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if self.swap:
            pixels = pixels.transpose(1, 0, 2)
        pixels = pixels[:: -1 if self.flip_y else 1, :: -1 if self.flip_x else 1]
        if pixels.flags.c_contiguous:
            return pixels
        upright = np.empty_like(pixels, order="C")
        for plane in range(3):  # several times as fast as all at once, three bytes after three
            upright[..., plane] = pixels[..., plane]
        return upright


class Rendering:
    """How the frames of one video become pixels.

    Attributes:
        turn: how they are turned.
        width, height: displayed size in pixels: upright, pixels square.
    """

    def __init__(self, stream: VideoStream, first: VideoFrame) -> None:
        """Reads it from a video and the first of its frames."""
        from av.video.reformatter import VideoReformatter

        self.turn = Turn.of(first)
        stored = _square_pixels(stream)
        self.width, self.height = stored[::-1] if self.turn.swap else stored
        # FFmpeg gives fields of HEVC as frames of their own.
        self._fields_apart = stream.codec.canonical_name == "hevc"
        self._upper_field: _UpperField | None = None
        self._scaler = VideoReformatter()  # one for all frames: it keeps what it has prepared for their size

    def __call__(self, frame: VideoFrame, edge: int | None) -> NDArray[np.uint8]:
        """Pixels uint8 `[H, W, 3]`; `edge`: scaled down so that the shorter side is this many pixels."""
        if frame.interlaced_frame and not self._fields_apart:
            frame = self._field_of(frame)
        width, height = self._stored_size(edge)
        wide = tone.is_wide(frame.color_trc, frame.color_primaries)
        form = "rgb48le" if wide else "rgb24"
        # Threads would take longer to start than they save.
        pixels: Any = self._scaler.reformat(
            frame, width, height, form, _matrix(frame), interpolation=INTERPOLATION, threads=1
        ).to_ndarray()
        return self.turn(tone.to_screen(pixels, frame.color_trc, frame.color_primaries) if wide else pixels)

    def _stored_size(self, edge: int | None) -> tuple[int, int]:
        """Size to scale a stored frame to, before it is turned."""
        width, height = (self.height, self.width) if self.turn.swap else (self.width, self.height)
        scale = 1.0 if edge is None else min(1.0, edge / min(width, height))
        return max(1, round(width * scale)), max(1, round(height * scale))

    def _field_of(self, frame: VideoFrame) -> VideoFrame:
        """The upper one of the two fields that an interlaced frame is woven of: both show different moments."""
        if self._upper_field is None or not self._upper_field.fits(frame):
            self._upper_field = _UpperField(frame)
        return self._upper_field(frame)


class _UpperField:
    """Every other line of frames of one format, without copying."""

    def __init__(self, frame: VideoFrame) -> None:
        from av.filter import Graph

        self._format = (frame.width, frame.height, frame.format.name)
        self._graph: Graph = Graph()
        source = self._graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1000)
        )
        field, self._sink = self._graph.add("field", "top"), self._graph.add("buffersink")
        source.link_to(field)
        field.link_to(self._sink)
        self._source = source
        self._graph.configure()

    def fits(self, frame: VideoFrame) -> bool:
        return self._format == (frame.width, frame.height, frame.format.name)

    def __call__(self, frame: VideoFrame) -> VideoFrame:
        self._source.push(frame)
        field: VideoFrame = self._sink.pull()  # type: ignore[assignment]
        return field


def _matrix(frame: VideoFrame) -> int | None:
    """How the frame's numbers stand for colours; None: as its tag says."""
    if frame.colorspace in MATRICES:
        return None
    if frame.colorspace == CONSTANT_LUMINANCE:
        return BT2020
    # Nobody says which colours a video without a tag has; all players take BT.709 for high definition.
    return BT709 if frame.width >= 1280 or frame.height > 576 else BT601


def _square_pixels(stream: VideoStream) -> tuple[int, int]:
    """Width and height of the stored picture with its pixels stretched to squares."""
    aspect = stream.sample_aspect_ratio
    if not aspect or not 1 / 8 <= aspect <= 8:  # none, or nonsense
        return stream.width, stream.height
    return max(1, round(stream.width * aspect)), stream.height
