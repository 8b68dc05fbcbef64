"""What a model's answers must be: asked of the server as JSON schema, and validated whatever the server says."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Style = Literal["concise", "spatio-temporal", "abstract", "keywords", "partial"]
STYLES: tuple[Style, ...] = ("concise", "spatio-temporal", "abstract", "keywords", "partial")
Relation = Literal["temporal continuation", "perspective variation", "quality variation", "minor action variation"]
RELATIONS: tuple[Relation, ...] = (
    *("temporal continuation", "perspective variation", "quality variation", "minor action variation"),
)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Styled(_Answer):
    """One caption."""

    style: Style
    text: str = Field(min_length=1, max_length=4000)


class Captions(_Answer):
    """Five captions of a video."""

    captions: list[Styled] = Field(min_length=len(STYLES), max_length=len(STYLES))


class FrameCaption(_Answer):
    """A caption of a frame."""

    caption: str = Field(min_length=1, max_length=2000)


class FromPicture(_Answer):
    """A query that leads from a picture to a video."""

    query: str = Field(min_length=1, max_length=1000)
    attribute: str = Field(min_length=1, max_length=100)


class FromClip(FromPicture):
    """A query that leads from a clip to a video."""

    relation: Relation
