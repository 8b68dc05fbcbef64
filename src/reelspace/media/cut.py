"""Cuts a stretch out of a video into a file of its own: packets copied, or frame-exact by encoding again.

The new file is written beside its destination and renamed when it is complete, and never over the video it is cut from.
All that reads the video happens in a worker process (`write_cut`, called by `worker`).
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reelspace.item import Span
from reelspace.media.animation import remade
from reelspace.media.container import open_video
from reelspace.media.files import failure, regular

if TYPE_CHECKING:
    from av.container import InputContainer, OutputContainer

    from reelspace.media.reader import Reader

SUFFIXES = (".mp4", ".mov", ".m4v", ".mkv", ".webm")
_NAME = 60  # characters of the source's name in that of a cut
_EARLIER = 1.0  # seconds: begin to read this long before, for sound that is stored ahead of its picture
_LATER = 2.0  # seconds: sound stored later than this behind its picture is not waited for


class Cut(NamedTuple):
    """A file that was cut: where it is, and the seconds `[start, end)` of the source that it shows."""

    path: Path
    start: float
    end: float


def _nothing() -> None:
    """The heartbeat of those who need none."""


class _Source(NamedTuple):
    """An open video: its streams, and where its time begins and the wanted stretch lies, in ticks of the picture."""

    path: Path
    container: InputContainer
    video: Any
    audio: list[Any]
    origin: int
    start: int
    end: int | None
    tick: Callable[[], None]

    def ticks(self, seconds: float) -> int:
        count: int = round(seconds / self.video.time_base)
        return count

    def seconds(self, ticks: int) -> float:
        return float((ticks - self.origin) * self.video.time_base)

    def absolute(self, ticks: int) -> Fraction:
        return Fraction(ticks * self.video.time_base)

    def packets(self, *streams: Any) -> Iterator[Any]:
        """The packets from where the container stands to the end, or to where the file breaks off."""
        from av.error import FFmpegError

        try:
            for packet in self.container.demux(streams):
                self.tick()
                if packet.size:
                    yield packet
        except MemoryError:  # PyAV's is an FFmpegError as well
            raise
        except FFmpegError:
            return


def cut(span: Span, path: Path, *, exact: bool = False, overwrite: bool = False, reader: Reader | None = None) -> Cut:
    """Writes the stretch `span` of a video to `path`; its ending (.mp4, .mov, .mkv, .webm) chooses the container.

    Args:
        span: what to cut out, in seconds from the first displayed frame.
        path: the new file.
        exact: encode again, so that the file begins and ends on the very frames; otherwise packets are copied as
            they are, and the file begins at the last key frame before `span.start`.
        overwrite: replace a file that is there already (never the source).
        reader: its workers do it; left out, one that is made for this.

    Raises:
        MediaError: the source cannot be read, has nothing in the span, does not fit the container, or `path` exists.
    """
    from reelspace.media.reader import Reader

    _refuse(span.path, path, overwrite)
    aside = path.with_name(f".reelspace-{secrets.token_hex(4)}{path.suffix}")
    with ExitStack() as made:
        made.callback(aside.unlink, missing_ok=True)
        reader = reader or made.enter_context(Reader(workers=1))
        start, end = reader.cut(span, aside, exact)
        aside.replace(path)
    return Cut(path, start, end)


def write_cut(span: Span, path: Path, exact: bool, tick: Callable[[], None]) -> tuple[float, float]:
    """Does what `cut` promises, in this process and straight into `path`; returns the seconds of the source it shows.

    Raises:
        MediaError: as `cut`.
    """
    import av

    try:
        with _open(span, tick) as source, _create(path) as output:
            return (_encode if exact else _copy)(source, output)
    except MemoryError:
        raise
    except (av.FFmpegError, ValueError) as error:  # ValueError: a codec that the container does not hold
        ways = [] if path.suffix.lower() == ".mkv" else ["write to a name in .mkv"]
        ways += [] if exact else ["cut with exact=True (--exact)"]
        why = "; ".join([str(getattr(error, "strerror", None) or error), ", or ".join(ways)]).removesuffix("; ")
        raise failure(span.path, f"cannot be cut into {path.suffix}: {why}") from error


def _refuse(source: Path, path: Path, overwrite: bool) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise failure(path, f"cannot tell the container; let the name end in one of {' '.join(SUFFIXES)}")
    regular(source)
    if not path.parent.is_dir():
        raise failure(path.parent, "there is no such folder; make it first")
    if path.exists():
        if path.samefile(source):
            raise failure(path, "a video is never cut in place; write to another name")
        if not overwrite:
            raise failure(path, "is there already; choose another name, or allow it to be replaced (--force)")


@contextmanager
def _open(span: Span, tick: Callable[[], None]) -> Iterator[_Source]:
    path = regular(span.path)
    container, video = open_video(path, remade(path, tick))
    with container:
        video.thread_type = "AUTO"
        sound = [stream for stream in container.streams.audio if stream.codec_context is not None]
        source = _Source(span.path, container, video, sound, 0, 0, None, tick)
        source = source._replace(origin=_first_shown(source))
        start, end = (None if t is None else source.origin + source.ticks(t) for t in (span.start, span.end))
        yield source._replace(start=start or 0, end=end)


@contextmanager
def _create(path: Path) -> Iterator[OutputContainer]:
    import av

    faststart = {"movflags": "+faststart"} if path.suffix.lower() in (".mp4", ".m4v", ".mov") else {}
    with av.open(os.fspath(path), "w", container_options=faststart) as container:
        yield container


def _first_shown(source: _Source) -> int:
    """Presentation time of the first displayed frame, in ticks, as `Video.times` counts from it.

    What is shown before the first key frame has lost what it refers to. The first group of pictures suffices to tell.
    """
    key: int | None = None
    first: int | None = None
    untimed = False
    for packet in source.packets(source.video):
        if packet.pts is None and packet.dts is None:
            untimed = True
            continue
        time = _time(packet)
        if packet.is_keyframe:
            if first is not None and time > first:
                break
            key = time if key is None else key
        if key is not None and time >= key and not packet.is_discard:
            first = time if first is None else min(first, time)
    if first is None and untimed:
        raise failure(source.path, "does not say when its frames are shown; remux it to .mp4 before cutting it")
    if first is None:
        raise failure(source.path, "none of its frames is displayed")
    return first


def _time(packet: Any) -> int:
    """When a packet is shown; AVI and some others store only the order of decoding."""
    time: int = (packet.dts or 0) if packet.pts is None else packet.pts
    return time


def _order(packet: Any) -> int:
    """When a packet is decoded; Matroska does not say it for the first ones."""
    order: int = (packet.pts or 0) if packet.dts is None else packet.dts
    return order


def _packets(source: _Source) -> Iterator[Any]:
    """The packets that show the stretch: pictures from the last key frame at or before its start, and the sound.

    Seeking goes by the time of decoding and is a guess in some containers, so what it finds is checked. Pictures
    shown after the end are given where one shown before it refers to them, and then with all those between.
    """
    key = _seek_key(source)
    limit = source.end
    waiting: list[Any] = []
    running = {stream.index for stream in (source.video, *source.audio)}
    reached = False
    for packet in source.packets(source.video, *source.audio):
        after = -math.inf if limit is None else float(_order(packet) * packet.time_base - source.absolute(limit))
        if after >= 0:
            running.discard(packet.stream_index)
        if not running or (after > _LATER and source.video.index not in running):
            return
        if packet.stream_index != source.video.index:
            if after < 0:
                yield packet
            continue
        time = _time(packet)
        reached = reached or (packet.is_keyframe and time == key)
        if not reached or time < key:  # frames shown before it refer to what is not there
            continue
        waiting.append(packet)
        if limit is None or time < limit:
            limit = limit and max(limit, *map(_time, waiting))
            yield from waiting
            waiting.clear()


def _counted(source: _Source) -> list[int] | None:
    """The true stamps of all frames in order, where those that frames carry are not theirs (AVI)."""
    from reelspace.media.decode import WITH_LYING_LABELS, Video

    if source.container.format.name not in WITH_LYING_LABELS:
        return None
    with Video(source.path) as video:
        return video.counted


def _from_beginning(source: _Source) -> Iterator[Any]:
    """The packets of all pictures up to a little after the end, and the sound up to it."""
    _seek(source, source.origin)
    for packet in source.packets(source.video, *source.audio):
        after = 0.0 if source.end is None else float(_order(packet) * packet.time_base - source.absolute(source.end))
        if after > _LATER:
            return
        if packet.stream_index == source.video.index or source.end is None or after < 0:
            yield packet


def _seek_key(source: _Source) -> int:
    """Moves to before the last key frame at or before the start, and gives its time."""
    back, key = _EARLIER, None
    while key is None:
        target = source.start - source.ticks(back)
        _seek(source, target)
        key = _last_key(source, at_any=target <= source.origin)
        back *= 4
    _seek(source, target)
    return key


def _seek(source: _Source, target: int) -> None:
    """Moves to the key frame before `target`, or the first."""
    import av

    try:
        source.container.seek(target, stream=source.video)
    except av.FFmpegError:  # AVI and MPEG-PS refuse a time before their first packet
        source.container.seek(max(target, source.origin), stream=source.video)


def _last_key(source: _Source, at_any: bool) -> int | None:
    """The time of the last key frame at or before the start, from where the container stands; else of the first."""
    key = None
    for packet in source.packets(source.video):
        time = _time(packet)
        if packet.is_keyframe and (time <= source.start or (key is None and at_any)):
            key = time
        if _order(packet) > source.start:
            break
    return key


def _copy(source: _Source, output: OutputContainer) -> tuple[float, float]:
    """Copies packets; the new file's time 0 is the key frame (what an edit list hides before it stays hidden)."""
    if _counted(source) is not None:
        raise failure(source.path, "does not say when its frames are shown; cut it with exact=True (--exact)")
    streams = {s.index: output.add_stream_from_template(s) for s in (source.video, *source.audio)}
    zero: int | None = None
    last = source.start
    early: list[Any] = []  # sound that comes before the first picture
    for packet in _packets(source):
        if packet.is_corrupt:  # what a file that is cut off ends with
            continue
        if packet.stream_index == source.video.index:
            packet.pts = _time(packet)
            last = max(last, packet.pts + (packet.duration or 0))
            zero = max(packet.pts, source.origin) if zero is None else zero
        early.append(packet)
        if zero is None:
            continue
        for held in early:
            _mux_shifted(output, held, streams[held.stream_index], source.absolute(zero))
        early.clear()
    if zero is None or last <= source.start:
        raise failure(source.path, f"ends before {source.seconds(source.start):g} s")
    return source.seconds(zero), source.seconds(last)


def _mux_shifted(output: OutputContainer, packet: Any, stream: Any, zero: Fraction) -> None:
    shift = round(zero / packet.time_base)
    if _order(packet) < shift and stream.type == "audio":
        return
    packet.pts = None if packet.pts is None else packet.pts - shift
    packet.dts = None if packet.dts is None else packet.dts - shift
    packet.stream = stream
    output.mux(packet)


def _encode(source: _Source, output: OutputContainer) -> tuple[float, float]:
    """Decodes and encodes the stretch, picture by picture and sound by sample."""
    stamps = _counted(source)
    picture = _Picture(source, output, _one_frame(source), stamps)
    writers: dict[int, _Picture | _Sound] = {source.video.index: picture}
    writers |= {stream.index: _Sound(source, stream, output) for stream in source.audio}
    for packet in _packets(source) if stamps is None else _from_beginning(source):
        writers[packet.stream_index].take(_decoded(packet))
    for stream in (source.video, *source.audio):
        writers[stream.index].take(stream.codec_context.decode(None))
        writers[stream.index].close()
    if picture.until is None:
        raise failure(source.path, f"ends before {source.seconds(source.start):g} s")
    return source.seconds(source.start), source.seconds(picture.until)


def _one_frame(source: _Source) -> Any:
    for packet in _packets(source):
        if packet.stream_index == source.video.index:
            for frame in _decoded(packet):
                return frame
    for frame in source.video.codec_context.decode(None):  # of a stretch shorter than the decoder's delay
        return frame
    raise failure(source.path, f"no frame can be decoded at {source.seconds(source.start):g} s")


def _decoded(packet: Any) -> list[Any]:
    """The frames of a packet; none where it is damaged: what is before and after it can still be shown."""
    import av

    try:
        return list(packet.decode())
    except MemoryError:
        raise
    except av.FFmpegError:
        return []


class _Picture:
    """Encodes the frames shown in the stretch; the one shown at its start begins there, whenever it came up."""

    def __init__(self, source: _Source, output: OutputContainer, like: Any, stamps: list[int] | None) -> None:
        self.source, self.output = source, output
        self.stamps = None if stamps is None else iter(stamps)
        self.held: Any = None
        self.until: int | None = None
        self.durations: dict[int, int] = {}
        width, height = (side // 2 * 2 or side for side in (like.width, like.height))  # what 4:2:0 encoders take
        cropped = (width, height) != (like.width, like.height)
        self.crop = _crop(like, width, height, source.video.time_base) if cropped else None
        self.stream = _picture_stream(source, output, like, width, height)

    def take(self, frames: list[Any]) -> None:
        end = self.source.end
        for frame in frames:
            if frame.pts is None:
                continue
            if self.stamps is not None:
                frame.pts = next(self.stamps, frame.pts)
            self._show(frame.pts)
            self.held = frame if end is None or frame.pts < end else None

    def close(self) -> None:
        if self.held is not None:
            self._show(self.held.pts + max(self.held.duration or 0, 1))
        self._mux(self.stream.encode())

    def _show(self, until: int) -> None:
        """The held frame is shown until `until`, or the end."""
        source = self.source
        until = until if source.end is None else min(until, source.end)
        if self.held is None or until <= source.start:
            return
        begin = max(self.held.pts, source.start)
        frame = _cropped(self.crop, self.held)
        frame = frame.reformat(format=self.stream.pix_fmt)
        frame.pts, frame.time_base, frame.pict_type = begin - source.start, source.video.time_base, 0
        self.durations[frame.pts] = until - begin
        self._mux(self.stream.encode(frame))
        self.until, self.held = until, None

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            packet.duration = self.durations.pop(packet.pts, packet.duration)
            self.output.mux(packet)


class _Sound:
    """Encodes the samples heard in the stretch."""

    def __init__(self, source: _Source, stream: Any, output: OutputContainer) -> None:
        from av.filter import Graph

        self.output = output
        codec = "libopus" if output.format.name == "webm" else "aac"
        rate = 48_000 if codec == "libopus" else stream.rate
        self.stream: Any = output.add_stream(codec, rate=rate, layout=stream.layout.name)
        start = source.absolute(source.start)
        end = "" if source.end is None else f":end={float(source.absolute(source.end)):.6f}"
        self.graph: Any = Graph()
        self.graph.link_nodes(
            self.graph.add_abuffer(template=stream),
            self.graph.add("asettb", "1/sr"),  # in AVI a tick may be a whole packet, too coarse to trim by
            self.graph.add("atrim", f"start={float(start):.6f}{end}"),
            self.graph.add("asetpts", f"PTS-({float(start):.6f}/TB)"),
            self.graph.add("abuffersink"),
        ).configure()

    def take(self, frames: list[Any]) -> None:
        for frame in frames:
            self.graph.push(frame)
            self._pull()

    def close(self) -> None:
        self.graph.push(None)
        self._pull()
        self.output.mux(self.stream.encode(None))

    def _pull(self) -> None:
        import av

        while True:
            try:
                frame = self.graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return
            self.output.mux(self.stream.encode(frame))


def _picture_stream(source: _Source, output: OutputContainer, like: Any, width: int, height: int) -> Any:
    """An encoder for frames like this one: its pixel format where the encoder has it, its colours and its turning."""
    from av.codec import Codec

    if output.format.name == "webm":
        codec, options = "libvpx-vp9", {"crf": "24", "b": "0", "deadline": "good", "cpu-used": "4"}
    else:
        codec, options = "libx264", {"crf": "18", "preset": "fast"}
    stream: Any = output.add_stream(codec, rate=source.video.average_rate or 30, options=options)
    stream.width, stream.height = width, height
    known = [f.name for f in Codec(codec, "w").video_formats or ()]
    stream.pix_fmt = like.format.name if like.format.name in known else "yuv420p"
    context = stream.codec_context
    context.time_base = stream.time_base = source.video.time_base
    for tag in ("color_primaries", "color_trc", "colorspace", "color_range"):
        setattr(context, tag, getattr(like, tag))
    if source.video.sample_aspect_ratio:
        context.sample_aspect_ratio = source.video.sample_aspect_ratio
    if matrix := _display_matrix(like):
        stream.set_display_matrix(matrix)
    return stream


def _display_matrix(frame: Any) -> list[int] | None:
    """The nine numbers that say how a player turns and mirrors the picture."""
    from av.sidedata.sidedata import Type

    data = frame.side_data.get(Type.DISPLAYMATRIX)
    return None if data is None else memoryview(bytes(data)).cast("i").tolist()


def _crop(frame: Any, width: int, height: int, time_base: Fraction) -> Any:
    """A filter that takes off the last odd row and column, which 4:2:0 encoders do not take."""
    from av.filter import Graph

    graph: Any = Graph()
    graph.link_nodes(
        graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=time_base),
        graph.add("crop", f"{width}:{height}:0:0:exact=1"),
        graph.add("buffersink"),
    ).configure()
    return graph


def _cropped(graph: Any, frame: Any) -> Any:
    if graph is None:
        return frame
    graph.push(frame)
    return graph.pull()


def cut_name(span: Span) -> str:
    """A file name for a cut, that every file system takes: `dog 0m04.20s-0m09.80s.mp4`."""
    suffix = span.path.suffix.lower()
    times = "-".join(f"{int(t // 60)}m{math.fmod(t, 60):05.2f}s" for t in (span.start, span.end) if t is not None)
    return f"{span.path.stem[:_NAME]} {times}{suffix if suffix in SUFFIXES else '.mkv'}"
