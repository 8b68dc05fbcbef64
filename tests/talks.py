"""Videos with sound, subtitles and chapters, for tests and benchmarks: what `clips` makes, and more streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

RATE = 48_000  # of the sound that is written


def write_talk(
    path: Path,
    seconds: float,
    *,
    picture: Callable[[float], NDArray[np.uint8]] | None = None,
    sound: NDArray[np.float32] | None = None,
    sound_rate: int = RATE,
    sound_codec: str = "aac",
    sound_start: float = 0.0,
    video_start: float = 0.0,
    language: str | None = None,
    subtitles: Sequence[tuple[float, float, str]] = (),
    subtitle_codec: str | None = None,
    chapters: Sequence[tuple[float, float, str]] = (),
    metadata: dict[str, str] | None = None,
    size: tuple[int, int] = (160, 96),
    fps: int = 10,
    codec: str = "libx264",
    crf: int = 20,
) -> Path:
    """Writes a video whose streams begin when they are told to, on the container's clock.

    Args:
        path: where to; its ending tells the container.
        seconds: how long the picture is shown.
        picture: time → uint8 `[height, width, 3]`; grey if left out.
        sound: mono samples −1…1 at `sound_rate`; none if left out.
        sound_codec, codec: as FFmpeg knows them.
        sound_start, video_start: seconds.
        language: of the sound, as its tag says.
        subtitles: (start, end, text) on the clock of the picture's first frame; `subtitle_codec` tells how.
        chapters: (start, end, title), likewise.
        metadata: tags of the file.
        size: width and height.
        fps: frames a second.
        crf: how coarse H.264 may be.
    """
    width, height = size
    clock = Fraction(1, 1000)
    packets: list[Any] = []
    with av.open(str(path), "w") as output:
        output.metadata.update(metadata or {})
        video: Any = output.add_stream(codec, rate=fps)
        video.width, video.height, video.pix_fmt = width, height, "yuv420p"
        video.codec_context.thread_count = 1
        video.codec_context.time_base = clock if codec == "libx264" else Fraction(1, fps)
        if codec == "libx264":
            video.options = {"preset": "ultrafast", "crf": str(crf), "bf": "0"}
        voice: Any = None
        if sound is not None:
            voice = output.add_stream(sound_codec, rate=RATE, layout="mono")
            if language:
                voice.metadata["language"] = language
        words: Any = output.add_stream(subtitle_codec) if subtitle_codec else None
        if words is not None:
            words.codec_context.subtitle_header = _HEADER  # the encoder asks for it; the text itself is muxed as it is
        if chapters:
            output.set_chapters(
                [
                    {
                        "id": number,
                        "start": round((video_start + start) * 1000),
                        "end": round((video_start + end) * 1000),
                        "time_base": clock,
                        "metadata": {"title": title},
                    }
                    for number, (start, end, title) in enumerate(chapters)
                ]
            )
        for number in range(round(seconds * fps)):
            pixels = picture(number / fps) if picture else np.full((height, width, 3), 128, np.uint8)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = round((video_start + number / fps) * 1000), clock
            packets += video.encode(frame)
        packets += video.encode()
        if voice is not None and sound is not None:
            packets += _spoken(voice, _resampled(sound, sound_rate), sound_start)
        for start, end, text in subtitles:
            packet = av.Packet(_subtitle(text, subtitle_codec))
            packet.stream, packet.time_base = words, clock
            packet.pts = packet.dts = round((video_start + start) * 1000)
            packet.duration = round((end - start) * 1000)
            packets.append(packet)
        for packet in sorted(packets, key=lambda one: float((one.dts if one.dts is not None else 0) * one.time_base)):
            output.mux(packet)
    return path


_HEADER = (
    b"[Script Info]\r\nScriptType: v4.00+\r\n\r\n[V4+ Styles]\r\nFormat: Name, Fontname, Fontsize\r\n"
    b"Style: Default,Arial,16\r\n\r\n[Events]\r\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, "
    b"Effect, Text\r\n"
)


def _subtitle(text: str, codec: str | None) -> bytes:
    raw = text.encode()
    if codec == "mov_text":
        return len(raw).to_bytes(2, "big") + raw
    return raw


def _resampled(sound: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    if rate == RATE:
        return sound
    count = round(len(sound) * RATE / rate)
    return np.interp(np.arange(count) * rate / RATE, np.arange(len(sound)), sound).astype(np.float32)


def _spoken(stream: Any, samples: NDArray[np.float32], start: float) -> list[Any]:
    wanted = stream.codec_context.format.name
    packets = []
    for at in range(0, len(samples), 960):
        frame = av.AudioFrame.from_ndarray(samples[None, at : at + 960], "fltp", "mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, round(start * RATE) + at, Fraction(1, RATE)
        if wanted != "fltp":
            frame = av.AudioResampler(wanted, "mono", RATE).resample(frame)[0]
        packets += stream.encode(frame)
    return packets + list(stream.encode())


def slide(*lines: str, size: tuple[int, int] = (640, 360), scale: float = 1.0) -> NDArray[np.uint8]:
    """A slide: a heading, and lines below it, black on white."""
    image = Image.new("RGB", size, (250, 250, 246))
    draw, at = ImageDraw.Draw(image), size[1] * 0.12
    for number, line in enumerate(lines):
        points = size[1] * (0.085 if number == 0 else 0.06) * scale
        draw.text((size[0] * 0.06, at), line, fill=(20, 24, 32), font=ImageFont.load_default(points))
        at += 2 * points
    return np.asarray(image)


def sign(ground: NDArray[np.uint8], text: str, where: tuple[float, float] = (0.3, 0.6)) -> NDArray[np.uint8]:
    """A picture with a sign in it: white on a coloured board."""
    image = Image.fromarray(ground)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(image.height * 0.07)
    left, top = where[0] * image.width, where[1] * image.height
    box = draw.textbbox((left, top), text, font=font)
    draw.rectangle((box[0] - 8, box[1] - 6, box[2] + 8, box[3] + 6), fill=(12, 84, 44))
    draw.text((left, top), text, fill=(255, 255, 255), font=font)
    return np.asarray(image)
