"""Test videos made with PyAV: every displayed frame carries its number as a barcode, so a test can see what came back.

The barcode is drawn on the picture as it is *displayed*: a frame that comes back unrotated, mirrored or sheared has
no readable number (`read_barcode` gives None).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import PIL.Image
import PIL.ImageSequence
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

BITS = 16
COLUMNS = BITS + 2  # a white cell, the bits, a black cell: a mirrored strip cannot be read
STRIP = 8  # the two rows of the strip take 2/8 of the height, at the top
TIME_BASE = Fraction(1, 60_000)  # exact for 24, 25, 30, 60 and 29.97; AVI and MPEG-4 take no finer

os.environ.setdefault("SVT_LOG", "1")  # the AV1 encoder otherwise talks on stderr


@dataclass(frozen=True)
class Scene:
    """One shot of a clip: a plain colour, or a random texture of `seed`, panned by `pan` of its width a second; `grain`
    of so many levels lies over it, other grain in every frame.
    """

    seconds: float = 2.0
    colour: tuple[int, int, int] = (120, 120, 120)
    seed: int | None = None
    pan: float = 0.0
    grain: float = 0.0

    def draw(self, time: float, width: int, height: int) -> Picture:
        """The picture `[height, width, 3]`, `time` seconds into the scene."""
        picture = np.empty((height, width, 3), dtype=np.uint8)
        picture[:] = self.colour
        if self.seed is not None:
            texture = _texture(self.seed, width, height)
            picture = ((picture.astype(np.uint16) + texture) // 2).astype(np.uint8)
        picture = np.roll(picture, round(self.pan * time * width), axis=1)
        if self.grain:
            grain = np.random.default_rng(round(time * 1000)).normal(0, self.grain, (height, width, 1))
            picture = np.clip(picture + grain.astype(np.int16), 0, 255).astype(np.uint8)
        return picture


_textures: dict[tuple[int, int, int], Picture] = {}


def _texture(seed: int, width: int, height: int) -> Picture:
    """Random blocks, 12 across: looks like a picture to an encoder and to a shot detector."""
    key = (seed, width, height)
    if key not in _textures:
        blocks = np.random.default_rng(seed).integers(0, 256, (8, 12, 3), dtype=np.uint8)
        rows, columns = np.arange(height) * 8 // height, np.arange(width) * 12 // width
        _textures[key] = blocks[rows][:, columns]
    return _textures[key]


def burn_barcode(picture: Picture, number: int) -> None:
    """Draws `number` over the top of the picture, in place."""
    bits = [1, *((number >> bit) & 1 for bit in range(BITS)), 0]
    height, width = picture.shape[:2]
    cells = np.array(bits, dtype=np.uint8)[np.arange(width) * COLUMNS // width] * 255
    row = height // STRIP
    picture[:row] = cells[None, :, None]
    picture[row : 2 * row] = 255 - cells[None, :, None]


def read_barcode(picture: Picture) -> int | None:
    """The number burnt into a displayed frame `[H, W, 3]`, or None where there is none to read."""
    height, width = picture.shape[:2]
    columns = ((np.arange(COLUMNS) + 0.5) * width / COLUMNS).astype(int)
    top, bottom = (picture[int(height * (y + 0.5) / STRIP), columns].mean(axis=1) for y in (0, 1))
    if (np.abs(top - bottom) < 80).any():
        return None
    bits = top > bottom
    if not bits[0] or bits[-1]:
        return None
    return int(sum(1 << bit for bit in range(BITS) if bits[bit + 1]))


def read_barcodes(pixels: NDArray[np.uint8]) -> list[int | None]:
    """The numbers of frames `[T, H, W, 3]`."""
    return [read_barcode(picture) for picture in pixels]


def write_clip(
    path: str | Path,
    *,
    seconds: float = 2.0,
    fps: float | Fraction = 30,
    times: Sequence[float] | None = None,
    start: float = 0.0,
    size: tuple[int, int] = (320, 180),
    scenes: Sequence[Scene] = (),
    draw: Callable[[int, float], Picture] | None = None,
    barcode: bool = True,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    gop: int = 12,
    bframes: int = 2,
    rotation: int = 0,
    mirror: bool = False,
    pixel_aspect: Fraction | None = None,
    audio: bool = False,
    options: Mapping[str, str] | None = None,
    container_options: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    container: str | None = None,
) -> Path:
    """Writes a test video; its container is told by the ending of `path`.

    Args:
        path: where to; returned as a `Path`.
        seconds: duration; left alone when `scenes` or `times` tell it.
        fps: frames a second, for a constant rate.
        times: presentation times of the frames instead (a variable rate); the last frame lasts as the one before.
        start: presentation time of the first frame in the container, in seconds.
        size: width and height *displayed*, upright.
        scenes: shots in order; without them, one textured shot.
        draw: (frame number, time) → picture `[height, width, 3]`, instead of scenes.
        barcode: burn the frame number in.
        codec, pix_fmt, gop, bframes, options, container_options, metadata: as FFmpeg knows them.
        rotation: degrees counter-clockwise that a player must turn the stored picture by (0, 90, 180, 270).
        mirror: the stored picture must be flipped left–right as well.
        pixel_aspect: width of a pixel over its height, stored so that the displayed width is `size[0]`.
        audio: add a sine tone.
        container: FFmpeg's name of it, where the ending does not tell.
    """
    path = Path(path)
    scenes = list(scenes) or [Scene(seconds, seed=1, pan=0.05)]
    if times is None:
        count = round(sum(scene.seconds for scene in scenes) * fps)
        times = [float(number / Fraction(fps).limit_denominator(1001)) for number in range(count)]
    steps = [b - a for a, b in pairwise(times)]
    steps.append(steps[-1] if steps else float(1 / fps))
    width, height = size
    stored = (height, width) if rotation % 180 else (width, height)
    if pixel_aspect is not None:
        stored = (round(stored[0] / pixel_aspect), stored[1])
    with av.open(str(path), "w", format=container, options=dict(container_options or {})) as output:
        output.metadata.update(metadata or {})
        stream: Any = output.add_stream(codec, rate=Fraction(fps).limit_denominator(1001))
        stream.width, stream.height = stored
        stream.pix_fmt, stream.gop_size, stream.max_b_frames = pix_fmt, gop, bframes
        stream.codec_context.thread_count = 1  # the same bytes everywhere; and libvpx's threads spin while they wait
        # MPEG-2 knows only its own few rates; in AVI, MPEG-4 counts frames; and a bare stream knows no other clock.
        constant = "force-cfr=1" in (options or {}).get("x264-params", "")
        counts = constant or codec in ("mpeg2video", "mpeg4", "dvvideo", "wmv2")
        stream.codec_context.time_base = 1 / stream.average_rate if counts else TIME_BASE
        stream.options = _codec_options(codec, gop, bframes) | dict(options or {})
        if pixel_aspect is not None:
            stream.sample_aspect_ratio = pixel_aspect
        if rotation or mirror:
            stream.set_display_rotation(rotation, hflip=mirror)
        sound = output.add_stream("aac", rate=48_000, layout="mono") if audio else None
        for number, (time, step) in enumerate(zip(times, steps, strict=True)):
            picture = draw(number, time).copy() if draw else _scene_picture(scenes, time, width, height)
            if barcode:
                burn_barcode(picture, number)
            frame = av.VideoFrame.from_ndarray(_as_stored(picture, rotation, mirror), format="rgb24")
            frame = frame.reformat(*stored, format=pix_fmt)
            frame.pts, frame.time_base = round((start + time) / TIME_BASE), TIME_BASE
            frame.duration = round(step / TIME_BASE)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
        if sound is not None:
            _add_tone(output, sound, start, times[-1] + steps[-1])
    return path


def _codec_options(codec: str, gop: int, bframes: int) -> dict[str, str]:
    if codec == "libx264":
        return {"preset": "ultrafast", "crf": "18", "sc_threshold": "0", "keyint_min": str(gop), "bf": str(bframes)}
    if codec == "libx265":
        return {
            "preset": "ultrafast",
            "crf": "18",
            "x265-params": f"log-level=none:keyint={gop}:min-keyint={gop}:bframes={bframes}:scenecut=0",
        }
    if codec == "libvpx-vp9":
        return {"deadline": "realtime", "cpu-used": "8", "crf": "20", "b": "0"}
    if codec == "libsvtav1":
        return {"preset": "12", "crf": "25", "svtav1-params": f"keyint={gop}"}
    if codec == "mjpeg":
        return {"strict": "unofficial", "q": "2"}
    return {}


def _scene_picture(scenes: Sequence[Scene], time: float, width: int, height: int) -> Picture:
    for scene in scenes[:-1]:
        if time < scene.seconds - 1e-9:
            return scene.draw(time, width, height)
        time -= scene.seconds
    return scenes[-1].draw(time, width, height)


def _as_stored(picture: Picture, rotation: int, mirror: bool) -> Picture:
    """The inverse of what the player does: it turns the stored picture counter-clockwise, then flips it."""
    if mirror:
        picture = picture[:, ::-1]
    return np.ascontiguousarray(np.rot90(picture, -rotation // 90))


def _add_tone(container: Any, sound: Any, start: float, end: float) -> None:
    samples = np.sin(2 * np.pi * 440 * np.arange(round((end - start) * 48_000)) / 48_000) * 0.1
    for at in range(0, len(samples), 1024):
        frame = av.AudioFrame.from_ndarray(samples[None, at : at + 1024].astype(np.float32), "fltp", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, round(start * 48_000) + at, Fraction(1, 48_000)
        container.mux(sound.encode(frame))
    container.mux(sound.encode())


def cut_by_edit_list(source: Path, path: Path, start: float) -> Path:
    """Copies `source` from `start` seconds on without decoding, as cameras and phone editors do.

    The packets begin at the key frame before `start`; an edit list hides what is shown before it.
    """
    with av.open(str(source)) as original, av.open(str(path), "w") as copy:
        video = original.streams.video[0]
        stream = copy.add_stream_from_template(video)
        assert video.time_base is not None
        shift = round(start / video.time_base)
        original.seek(shift, stream=video)
        for packet in original.demux(video):
            if packet.dts is None:
                continue
            packet.pts, packet.dts = (packet.pts or 0) - shift, packet.dts - shift
            packet.stream = stream
            copy.mux(packet)
    return path


def pack_frames(source: Path, path: Path) -> Path:
    """Copies an MPEG-4 file with B-frames as DivX and XviD wrote AVI: a B-frame travels in the packet of the frame it
    follows, and an empty packet comes after.
    """
    nothing = bytes.fromhex("000001b6560000")  # a frame that is not coded
    with av.open(str(source)) as original, av.open(str(path), "w") as copy:
        video = original.streams.video[0]
        stream = copy.add_stream_from_template(video)
        assert video.time_base is not None
        packets = [packet for packet in original.demux(video) if packet.size]
        contents: list[bytes] = []
        highest = -1
        for packet in packets:
            if (packet.pts or 0) < highest:
                contents[-1] += bytes(packet)
                contents.append(nothing)
            else:
                contents.append(bytes(packet))
            highest = max(highest, packet.pts or 0)
        contents[0] = b"\x00\x00\x01\xb2DivX503b1393p" + contents[0]  # by this a decoder knows
        for number, (content, packet) in enumerate(zip(contents, packets, strict=True)):
            packed = av.Packet(content)
            packed.stream, packed.time_base, packed.is_keyframe = stream, video.time_base, packet.is_keyframe
            packed.pts = packed.dts = number
            copy.mux(packed)
    return path


def write_animation(path: Path) -> Path:
    """An animated WebP by Pillow: 12 frames of 40 to 150 ms, the middle ones see-through in one corner."""
    pictures = []
    for number in range(12):
        picture = Scene(seed=1).draw(0, 320, 180).copy()
        burn_barcode(picture, number)
        pictures.append(PIL.Image.fromarray(picture).convert("RGBA"))
        if 4 <= number < 8:
            pictures[-1].paste((0, 0, 0, 0), (300, 160, 320, 180))
    lengths = [40 + 10 * number for number in range(12)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=lengths, lossless=True)
    return path


def every_frame(
    path: str | Path, rotation: int = 0, mirror: bool = False, rate: float | None = None
) -> tuple[list[int | None], list[float]]:
    """All displayed frames by plain sequential decoding: their barcodes and their times in seconds from the first.

    The second way: no packet table, no seeking, and turned by what the clip was written with, not by its metadata.

    Args:
        rate: frames a second, where frames do not carry their times.
    """
    if Path(path).suffix == ".webp":
        return _every_frame_of_animation(path)
    numbers, times = [], []
    with av.open(str(path)) as container:
        for frame in container.decode(container.streams.video[0]):
            picture = np.rot90(frame.to_ndarray(format="rgb24"), rotation // 90)
            numbers.append(read_barcode(picture[:, ::-1] if mirror else picture))
            times.append(frame.time)
    if rate is not None:
        return numbers, [number / rate for number in range(len(numbers))]
    times.sort()  # frames come in order, even where they are labelled otherwise
    return numbers, [time - times[0] for time in times]


def plain_pictures(path: str | Path, wanted: Iterable[int], edge: int | None = None) -> dict[int, Picture]:
    """Pictures of displayed frames by their numbers, by plain sequential decoding: no packet table, no seeking, nothing
    left out. Only the colours and the size are made by the package.
    """
    from reelspace.media.pixels import Rendering

    left, found = set(wanted), {}
    with av.open(str(path)) as container:
        stream, rendering = container.streams.video[0], None
        for number, frame in enumerate(container.decode(stream)):
            rendering = rendering or Rendering(stream, frame)
            if number in left:
                found[number] = rendering(frame, edge)
                left.remove(number)
            if not left:
                break
    return found


def _every_frame_of_animation(path: str | Path) -> tuple[list[int | None], list[float]]:
    numbers, times = [], [0.0]
    with PIL.Image.open(path) as image:
        for frame in PIL.ImageSequence.Iterator(image):
            numbers.append(read_barcode(np.asarray(frame.convert("RGB"))))
            times.append(times[-1] + frame.info["duration"] / 1000)
    return numbers, times[:-1]
