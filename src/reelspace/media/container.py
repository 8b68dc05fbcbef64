"""Opening a video file, and nothing but that file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from reelspace.media.files import failure

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

# Containers that hold everything themselves. Playlists (hls, dash, concat, sdp), image sequences (image2) and devices
# are not among them, so no file can make us read another file or the network.
CONTAINERS = (
    "aac,ac3,aiff,amr,apng,asf,avi,dv,flac,flv,gif,h261,h263,h264,hevc,ivf,m4v,matroska,webm,mjpeg,mov,mp3,mp4,mpeg,"
    "mpegts,mpegvideo,mxf,nut,obu,ogg,rm,vc1,vvc,wav,wtv,yuv4mpegpipe"
)
MOST_PIXELS = 1 << 27  # a frame of 16384 × 8192: beyond the largest cameras


def open_video(path: Path, content: bytes | None = None) -> tuple[InputContainer, VideoStream]:
    """The open container and its video: the default one, the largest of several, never a cover picture.

    Args:
        path: of the file.
        content: what to open instead of what is in the file.

    Raises:
        MediaError: it cannot be opened, or holds no video that can be decoded.
    """
    import av
    from av.error import FFmpegError

    # `file:` makes any name mean the file itself, `http://…`, `-` and `concat:…` included.
    options = {"protocol_whitelist": "file", "format_whitelist": CONTAINERS}
    try:
        source = f"file:{path}" if content is None else io.BytesIO(content)
        container = av.open(source, "r", options=options, metadata_errors="replace")
    except MemoryError:  # PyAV's is an FFmpegError as well
        raise
    except (FFmpegError, ValueError) as error:
        raise failure(path, _why_not_opened(error)) from None
    try:
        return container, _choose_stream(container, path)
    except BaseException:
        container.close()
        raise


def ignore_all_but(stream: VideoStream) -> None:
    """Has the container skip what belongs to other streams."""
    from av.stream import Discard

    for other in stream.container.streams:
        if other is not stream:
            other.discard = Discard.all


def _choose_stream(container: InputContainer, path: Path) -> VideoStream:
    from av.stream import Disposition

    streams = container.streams.video
    moving = [stream for stream in streams if not stream.disposition & Disposition.attached_pic]
    if not moving:
        has = "sound" if container.streams.audio else "nothing"
        raise failure(path, f"holds {has}{' and a cover picture' if streams else ''}, but no video")
    known = [stream for stream in moving if stream.codec_context is not None and stream.codec_context.is_decoder]
    if not known:
        raise failure(path, "its video codec is not known, or no decoder for it is installed")
    stream = max(known, key=lambda s: (bool(s.disposition & Disposition.default), s.width * s.height))
    if stream.width * stream.height > MOST_PIXELS:
        raise failure(path, f"claims frames of {stream.width}×{stream.height} pixels")
    if stream.frames > (size := path.stat().st_size):
        raise failure(path, f"claims {stream.frames:,} frames in {size:,} bytes")
    return stream


def _why_not_opened(error: Exception) -> str:
    from av import error as causes

    if isinstance(error, causes.InvalidDataError | causes.EOFError):
        return "not a video, or damaged where it must not be (its header cannot be read)"
    if isinstance(error, causes.ArgumentError | causes.DemuxerNotFoundError):
        return "not a video format that can be read (playlists and image sequences are not opened)"
    return f"cannot be opened: {getattr(error, 'strerror', None) or error}"
