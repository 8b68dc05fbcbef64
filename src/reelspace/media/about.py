"""What a file says in words: tags, chapters, subtitles. Times are seconds from the first displayed frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reelspace.media.container import open_video
from reelspace.media.decode import Video

if TYPE_CHECKING:
    from av.subtitles.stream import SubtitleStream

LONGEST_TEXT = 20_000  # characters of one tag or cue; what is beyond is cut
MOST_CUES = 200_000  # of all tracks: a cue a second for two days
MOST_CHAPTERS = 10_000
MOST_TEXT = 32 << 20  # characters of all cues
LASTING = 4.0  # seconds that a cue is taken to last where nothing says how long, and none follows


@dataclass(frozen=True)
class Cue:
    """A text shown during `[start, end)`."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Track:
    """One of the file's tracks of subtitles.

    Attributes:
        number: of the stream in the file.
        codec: FFmpeg's name: `subrip`, `ass`, `mov_text`, `webvtt`, …
        language: as the file says, ISO 639; None where it says nothing.
        title: as the file says, or None.
        forced: it holds only what a viewer of the original needs translated, such as signs.
        cues: in order of time; none where they are pictures.
    """

    number: int
    codec: str
    language: str | None
    title: str | None
    forced: bool
    cues: list[Cue]


@dataclass(frozen=True)
class About:
    """What a file says of itself.

    Attributes:
        tags: of the container and of its video stream, names in lower case.
        chapters: as `Cue`s whose texts are their titles.
        sound: language of each audio stream, as the file says; the one a player chooses first.
        tracks: subtitles, if they were asked for.
    """

    tags: dict[str, str]
    chapters: list[Cue]
    sound: list[str | None]
    tracks: list[Track]


def about(video: Video, subtitles: bool, tick: Callable[[], None]) -> About:
    """What the file of an open video says.

    Args:
        video: the open file.
        subtitles: read them too, which takes a pass over the file.
        tick: called again and again while that goes on.
    """
    container, stream = open_video(video.path)
    with container:
        tags = {name.lower(): _cut(value) for name, value in (*stream.metadata.items(), *container.metadata.items())}
        sounds = sorted(container.streams.audio, key=lambda sound: not sound.disposition & _default())
        return About(
            tags=tags,
            chapters=list(_chapters(container.chapters(), video)),
            sound=[language_of(sound.metadata) for sound in sounds],
            tracks=_tracks(container, video, tick) if subtitles else [],
        )


def language_of(metadata: dict[str, str]) -> str | None:
    """The language that tags of a stream tell; None where they do not, or say that it is unknown."""
    language = metadata.get("language", "").strip().lower()
    return language if language not in ("", "und", "unk", "mul", "zxx", "mis") else None


def _default() -> Any:
    from av.stream import Disposition

    return Disposition.default


def _chapters(chapters: list[Any], video: Video) -> Iterator[Cue]:
    for chapter in chapters[:MOST_CHAPTERS]:
        base = chapter["time_base"]
        title = _cut(chapter["metadata"].get("title", ""))
        if base is None or not title.strip():
            continue
        start, end = (float(chapter[edge] * base) - video.origin for edge in ("start", "end"))
        if cue := _inside(start, end, title, video.duration):
            yield cue


def _tracks(container: Any, video: Video, tick: Callable[[], None]) -> list[Track]:
    from av.stream import Discard, Disposition

    streams: dict[int, SubtitleStream] = {
        stream.index: stream
        for stream in container.streams.subtitles
        if stream.codec_context is not None and stream.codec_context.is_decoder
    }
    if not streams:
        return []
    for stream in container.streams:
        if stream.index not in streams:
            stream.discard = Discard.all
    found: dict[int, list[tuple[float, float | None, str]]] = {index: [] for index in streams}
    cues, characters = MOST_CUES, MOST_TEXT
    for index, start, end, text in _told(container, streams, video.origin, tick):
        found[index].append((start, end, text))
        cues, characters = cues - 1, characters - len(text)
        if cues <= 0 or characters <= 0:
            break
    return [
        Track(
            number=index,
            codec=stream.codec_context.codec.name,
            language=language_of(stream.metadata),
            title=_cut(stream.metadata.get("title", "")).strip() or None,
            forced=bool(stream.disposition & Disposition.forced),
            cues=_ended(found[index], video.duration),
        )
        for index, stream in streams.items()
    ]


def _told(
    container: Any, streams: dict[int, SubtitleStream], origin: float, tick: Callable[[], None]
) -> Iterator[tuple[int, float, float | None, str]]:
    """(stream, start, end if it is told, text) of every cue, in the order of the file, as far as it can be read."""
    from av.error import FFmpegError

    try:
        for packet in container.demux(list(streams.values())):
            tick()
            stream = streams.get(packet.stream_index)  # the last, empty packets are of none
            subtitle = None if stream is None else _decoded(stream, packet)
            if subtitle is not None and (text := _text(subtitle)):
                start = float(packet.pts * packet.time_base) + subtitle.start_display_time / 1000 - origin
                yield packet.stream_index, start, _end(packet, subtitle, start), text
    except MemoryError:
        raise
    except FFmpegError:  # the file breaks off here; what was read stands
        return


def _decoded(stream: SubtitleStream, packet: Any) -> Any:
    """The event in a packet; None where there is none, or it is damaged: that is no reason to lose the others."""
    from av.error import FFmpegError

    if packet.pts is None or not packet.size:
        return None
    try:
        return stream.codec_context.decode2(packet)
    except MemoryError:
        raise
    except (FFmpegError, ValueError):
        return None


def _text(subtitle: Any) -> str:
    """The words of one decoded event; none where it is a picture."""
    texts = []
    for rect in subtitle.rects:
        raw = getattr(rect, "dialogue", b"") or getattr(rect, "text", b"")
        if text := plain(raw.decode("utf-8", "replace")):
            texts.append(text)
    return _cut("\n".join(texts))


def plain(text: str) -> str:
    r"""The words of a subtitle without its marks: `{\an8}`, `<i>`, `\N`."""
    import re

    text = re.sub(r"\{\\[^{}]*\}", "", text)
    text = text.replace("\\N", "\n").replace("\\n", "\n").replace("\\h", " ")
    text = re.sub(r"</?[a-zA-Z][^<>]*>|<\d+:[\d:.]+>", "", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _end(packet: Any, subtitle: Any, start: float) -> float | None:
    if packet.duration:
        return start + float(packet.duration * packet.time_base)
    shown = (subtitle.end_display_time - subtitle.start_display_time) / 1000
    return start + shown if 0 < shown < 3600 else None


def _ended(found: list[tuple[float, float | None, str]], duration: float) -> list[Cue]:
    """Cues in order of time, each with an end: where none is told, the next cue's start."""
    found = sorted(found, key=lambda cue: cue[0])
    cues = []
    for place, (start, end, text) in enumerate(found):
        following = found[place + 1][0] if place + 1 < len(found) else start + LASTING
        if cue := _inside(start, min(following, start + 2 * LASTING) if end is None else end, text, duration):
            cues.append(cue)
    return cues


def _inside(start: float, end: float, text: str, duration: float) -> Cue | None:
    """A cue as far as it lies in the video."""
    start, end = max(start, 0.0), min(end, duration)
    return Cue(start, end, text) if start < end else None


def _cut(text: str) -> str:
    return text[:LONGEST_TEXT]
