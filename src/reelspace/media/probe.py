"""What a video file is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from reelspace.media.decode import Video


@dataclass(frozen=True)
class VideoInfo:
    """Facts about a video file, as they are, not as the container claims.

    Attributes:
        duration: seconds from the first displayed frame to the end of the last.
        width, height: in pixels as displayed: upright, pixels square.
        frames: how many are displayed.
        codec: FFmpeg's name: `h264`, `hevc`, `vp9`, `av1`, …
        rotation: degrees counter-clockwise by which the stored picture is turned to be upright.
        created: when it was recorded as the file says, Unix seconds, or None.
        partial: why only a part of it can be read, or None.
    """

    duration: float
    width: int
    height: int
    frames: int
    codec: str
    rotation: int = 0
    created: float | None = None
    partial: str | None = None


def probe(path: str | os.PathLike[str]) -> VideoInfo:
    """Reads all packets of a file and decodes its first frame.

    Raises:
        MediaError: it is no video that can be read; the message is the reason.
    """
    with Video(path) as video:
        return describe(video)


def describe(video: Video) -> VideoInfo:
    """The facts about a video that is already open."""
    return VideoInfo(
        duration=video.duration,
        width=video.width,
        height=video.height,
        frames=video.count,
        codec=video.codec,
        rotation=video.rotation,
        created=_created(video.metadata),
        partial=video.partial,
    )


def _created(metadata: dict[str, str]) -> float | None:
    # Apple's own tag knows the time zone; the common one is UTC, where it is honest.
    for tag in ("com.apple.quicktime.creationdate", "creation_time", "date"):
        try:
            moment = datetime.fromisoformat(metadata.get(tag, ""))
        except ValueError:
            continue
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if seconds > 0:  # cameras without a clock write 1904 or 1970
            return seconds
    return None
