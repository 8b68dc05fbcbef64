"""What models are asked."""

from collections import Counter

import numpy as np
import pytest

from reelspace.synth import prompts
from reelspace.synth.answers import RELATIONS, STYLES
from reelspace.synth.config import Enrich
from reelspace.synth.mllm import Show
from reelspace.synth.schema import Clip, Picture
from reelspace.worlds.sample import generator

FRAMES = np.zeros((2, 8, 8, 3), np.uint8)
VIDEO = Show("VIDEO", FRAMES, np.array([0.0, 1.5]), Clip(path="v.mp4"))
PICTURE = Show("PICTURE", FRAMES[:1], np.array([1.5]), Picture(path="v.mp4", time=1.5))
SLOTS = {"profile": "temporal", "readability": "plain", "education": "university"}


@pytest.mark.parametrize(
    "profiles", [{"temporal": 0.6, "spatial": 0.3, "other": 0.1}, {"temporal": 1, "spatial": 1}, {"other": 2}]
)
def test_profiles_come_as_often_as_they_should(profiles):
    enrich = Enrich(profiles=profiles)
    drawn = Counter(prompts.drawn(enrich, generator("test", n))["profile"] for n in range(3000))
    whole = sum(profiles.values())
    assert {name: times / 3000 for name, times in drawn.items()} == pytest.approx(
        {name: share / whole for name, share in profiles.items()}, abs=0.03
    )


def test_the_papers_profiles_are_the_default():
    assert Enrich().profiles == {"temporal": 0.6, "spatial": 0.3, "other": 0.1}


def test_readability_and_education_are_drawn_for_every_call():
    enrich = Enrich()
    drawn = [prompts.drawn(enrich, generator("test", n)) for n in range(300)]
    for name in ("readability", "education"):
        assert {one[name] for one in drawn} == set(getattr(enrich, name))
    assert prompts.drawn(enrich, generator("test", 7)) == drawn[7]


def test_the_raw_caption_is_an_optional_slot():
    told = prompts.captions(VIDEO, "a cat on a roof", SLOTS, Enrich(), 1)
    bare = prompts.captions(VIDEO, "", SLOTS, Enrich(), 1)
    assert "“a cat on a roof”" in told.prompt and "perhaps wrongly" in told.prompt
    assert "Somebody has written" not in bare.prompt
    assert prompts.signature(told) != prompts.signature(bare)


def test_five_captions_are_asked_for_in_their_styles_and_lengths():
    asked = prompts.captions(VIDEO, "", SLOTS, Enrich(), 1)
    assert all(f'"{style}"' in asked.prompt for style in STYLES)
    assert "fewer than 20 words" in asked.prompt and "more than 100 words" in asked.prompt
    assert prompts.DWELL["temporal"] in asked.prompt and "university" in asked.prompt and "plain" in asked.prompt
    other = prompts.captions(VIDEO, "", SLOTS | {"profile": "spatial"}, Enrich(short=10, long=50), 1)
    assert prompts.DWELL["spatial"] in other.prompt and "fewer than 10 words" in other.prompt


@pytest.mark.parametrize(
    "asked",
    [
        prompts.captions(VIDEO, "", SLOTS, Enrich(), 1),
        prompts.frame(PICTURE, VIDEO, SLOTS, 1),
        prompts.composed(PICTURE, VIDEO, SLOTS, 1),
        prompts.composed(VIDEO, VIDEO, SLOTS, 1),
    ],
    ids=lambda asked: asked.task,
)
def test_every_text_is_to_tell_what_is_seen_and_no_more(asked):
    assert "Say only what the frames show. Invent no names, no speech, no thoughts, no story" in asked.prompt
    assert "Do not say what is absent, and do not guess" in asked.prompt
    assert asked.schema is not None and asked.seed == 1 and asked.version.startswith(asked.task)


def test_composed_queries_are_asked_for_by_the_rules_they_are_held_to():
    picture, clip = prompts.composed(PICTURE, VIDEO, SLOTS, 1), prompts.composed(VIDEO, VIDEO, SLOTS, 1)
    for asked, word in ((picture, "IMAGE"), (clip, "CLIP")):
        assert "It needs both." in asked.prompt  # combination necessity
        assert f'"FROM REFERENCE {word}" or "AS IN REFERENCE {word}"' in asked.prompt
        assert "Never write that something is similar" in asked.prompt
        assert "Name one concrete thing that can be seen in the reference" in asked.prompt
        assert "must be able to: a person runs, a jacket does not" in asked.prompt
    assert all(f'"{relation}"' in clip.prompt and relation not in picture.prompt for relation in RELATIONS)


def test_a_frame_is_asked_about_with_its_motion_and_its_time():
    asked = prompts.frame(PICTURE, VIDEO, SLOTS, 1)
    assert [show.name for show in asked.shows] == ["PICTURE", "VIDEO"]
    assert "frame at 1.50 s" in asked.prompt and "of the motion what can be seen in it" in asked.prompt
