"""What travels from block to block: a raw pair and all that has been found out about it. Paths and times, no pixels."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from reelspace.synth.schema import Clip, Picture


class Raw(BaseModel):
    """A raw pair as the source has it.

    Attributes:
        video: path; relative ones begin at the dataset's folder.
        start, end: the stretch of the file that is meant, in seconds.
        text: the raw caption; may be empty.
    """

    model_config = ConfigDict(extra="forbid")

    id: str
    video: str
    start: float = 0.0
    end: float | None = None
    text: str = ""
    language: str = ""
    licence: str = ""


class Written(BaseModel):
    """A text that a model wrote, with all that it takes to have it written again.

    Attributes:
        time: of the frame that it is about, of a frame's caption or a composed query from a frame.
        reference: of a composed query: where its reference comes from.
        attribute: the visual attribute that a composed query names.
    """

    model_config = ConfigDict(extra="forbid")

    text: str
    style: str = ""
    profile: str = ""
    readability: str = ""
    education: str = ""
    seed: int = 0
    prompt: str = ""
    model: str = ""
    revision: str = ""
    frame_times: list[float] = []
    scores: dict[str, float] = {}
    relation: str = ""
    attribute: str = ""
    image: Picture | None = None
    clip: Clip | None = None
    reference_key: str = ""


class Asset(BaseModel):
    """A raw pair on its way.

    Attributes:
        key: of the video's bytes and span: equal videos have equal keys.
        caption: the raw caption, rectified.
        frames: times of its key frames, in seconds.
        clips: `[start, end)` of its clips.
        looks: what it looks like, for finding copies: grey cells of some frames, as hexadecimal digits.
    """

    model_config = ConfigDict(extra="forbid")

    raw: Raw
    key: str = ""
    caption: str = ""
    language: str = ""
    duration: float = 0.0
    motion: float = 0.0
    looks: str = ""
    frames: list[float] = []
    clips: list[tuple[float, float]] = []
    consistency: float | None = None
    captions: list[Written] = []
    framed: list[Written] = []
    composed: list[Written] = []
    tasks: list[str] = []

    @property
    def clip(self) -> Clip:
        """The whole of it."""
        return Clip(path=self.raw.video, start=self.raw.start, end=self.raw.end)

    def part(self, start: float, end: float) -> Clip:
        """A stretch of it; times as in `clips`."""
        return Clip(path=self.raw.video, start=start, end=end)

    def picture(self, time: float) -> Picture:
        """A frame of it; its time as in `frames`."""
        return Picture(path=self.raw.video, time=time)
