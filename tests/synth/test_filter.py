from dataclasses import replace

import numpy as np
import pytest

from reelspace.item import Frames
from reelspace.synth import filter as filtering
from reelspace.synth import texts
from reelspace.synth.asset import Asset, Raw
from reelspace.synth.config import Config
from reelspace.synth.source import JUNK, at_rest, stilled
from reelspace.worlds.captions import caption
from reelspace.worlds.render import draw
from reelspace.worlds.sample import FULL, generator, scene


@pytest.fixture
def config(flow):
    return Config.model_validate(flow)


NO_CAPTIONS = {
    "address": "Watch it at www.example.org/watch",
    "file name": "IMG_2034.MOV",
    "hashtags": "#dogs #park #fun #summer",
    "boilerplate": "Please like and subscribe to my channel",
    "placeholder": "Untitled video 3",
    "script": "Собака бежит по парку утром",
    "short": "a dog",
    "not words": "dog runs far 12 34 55 678 900 1234 5678 12345 6789",
    "repetition": "dog dog dog dog dog dog dog dog",
    "markup": "<b>A dog</b> in the park &amp; a cat",
    "e-mail": "ask dog.owner@mail.example for more",
}


@pytest.mark.parametrize(("reason", "text"), NO_CAPTIONS.items())
def test_what_is_no_caption_is_named(reason, text, config):
    found = filtering.unfit(text, config)
    assert found == reason or (reason == "e-mail" and found == "address")


@pytest.mark.parametrize("kind", JUNK)
def test_all_the_junk_of_worlds_is_found(kind, config):
    assert filtering.unfit(JUNK[kind].format(77), config)


@pytest.mark.parametrize(
    "text",
    [
        "A dog runs across a park at 7 in the morning.",
        "Close-up of hands kneading dough on a floured table",
        "Two children build a sandcastle; a wave takes it.",
        "Drone shot of a red lighthouse, waves breaking below",
    ],
)
def test_captions_are_left_alone(text, config):
    assert filtering.unfit(text, config) == ""
    assert filtering.rectified(text) == text


@pytest.mark.parametrize(
    ("raw", "mended"),
    [
        ("A dog runs in a park [4K]", "A dog runs in a park"),
        ("A dog  runs in a park #dogs #fun", "A dog runs in a park"),
        ("A dog runs in a park | Dogs Daily", "A dog runs in a park"),
    ],
)
def test_what_is_tacked_on_is_taken_off(raw, mended):
    assert filtering.rectified(raw) == mended


def test_own_phrases_and_scripts(flow):
    flow["filter"] |= {"boilerplate": [r"\bacme\b"], "scripts": []}
    config = Config.model_validate(flow)
    assert filtering.unfit("A dog runs for ACME in a park", config) == "boilerplate"
    assert filtering.unfit("Собака бежит по парку утром", config) == ""


def test_motion_tells_stills_from_videos_and_is_not_fooled_by_noise():
    moving, still = [], []
    for number in range(24):
        drawn = scene(generator("motion", number), replace(FULL, camera=0.3))
        if at_rest(drawn):
            continue
        noisy = replace(drawn, shots=(replace(drawn.shots[0], noise=10),))
        moving.append(filtering.motion(np.stack(list(draw(drawn)))))
        still.append(filtering.motion(np.stack(list(draw(stilled(noisy))))))
    assert max(still) < 5.0
    assert np.mean(np.array(moving) >= 5.0) > 0.95


def test_key_frames_are_of_every_part_and_seldom_black():
    pixels = np.random.default_rng(0).integers(0, 255, (12, 32, 32, 3), np.uint8)
    pixels[[0, 4, 8]] = 0
    times = filtering.key_frames(Frames(pixels, np.arange(12) / 4), 3)
    assert len(times) == 3
    for part, time in enumerate(times):
        assert part <= time < part + 1 and time not in (0.0, 1.0, 2.0)


def test_clips_lie_inside_and_begin_at_a_frame():
    frames = Frames(np.zeros((12, 8, 8, 3), np.uint8), np.arange(12) / 4)
    for seed in range(20):
        start, end = filtering.clip(frames, (0.3, 0.6), np.random.default_rng(seed))
        assert 0 <= start < end <= 3.0 and start in frames.times
        assert 0.3 * 3 - 1e-6 <= end - start <= 0.6 * 3 + 0.25


def test_a_threshold_is_taken_from_mismatched_pairs():
    random = np.random.default_rng(0)
    videos = random.normal(size=(200, 16)).astype(np.float32)
    videos /= np.linalg.norm(videos, axis=1, keepdims=True)
    told = videos + 0.3 * random.normal(size=videos.shape).astype(np.float32)
    told /= np.linalg.norm(told, axis=1, keepdims=True)
    least = filtering.threshold("null:0.9", told, videos, 0)
    own, others = (told * videos).sum(axis=1), told @ np.roll(videos, 1, axis=0).T
    assert (own > least).mean() > 0.95
    assert 0.85 < (others < least).mean() < 0.95
    assert filtering.threshold(0.25, told, videos, 0) == 0.25


def _assets(*captions, looks=()):
    return [
        Asset(raw=Raw(id=str(k), video=f"{k}.mp4"), caption=text, looks=looks[k] if looks else "", consistency=k / 10)
        for k, text in enumerate(captions)
    ]


class Work:
    """What the gathered blocks look at."""

    def __init__(self, config):
        self.config, self.lost = config, {}

    def reject(self, asset, block, reason, detail="", value=None):
        self.lost[asset.raw.id] = (block, reason, detail)


def test_captions_of_many_videos_go(config):
    work = Work(config)
    every = _assets(*["Nice footage, of nature"] * 4, "A dog runs", "Nice footage of nature!")
    assert [a.raw.id for a in filtering.Shared().run(every, work)] == ["4"]
    assert work.lost["0"][:2] == ("shared", "shared")


def test_of_near_texts_the_best_stays(config):
    long = "a brown dog runs across a wet lawn and jumps over a low hedge while two children watch from a window"
    work = Work(config.model_copy(update={"filter": config.filter.model_copy(update={"near_text": 0.8})}))
    every = _assets(long, f"{long} today", "a red bus stops in the rain before a closed shop and drives on again")
    assert [a.raw.id for a in filtering.NearTexts().run(every, work)] == ["1", "2"]
    assert work.lost == {"0": ("near_texts", "duplicate", "of 1")}


def test_near_videos_are_found_whatever_the_encoding(config):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 255, (4, 16, 16)).astype(np.uint8)
    recoded = np.clip(pixels.astype(int) + random.integers(-2, 3, pixels.shape), 0, 255).astype(np.uint8)
    other = pixels.copy()
    other[2, 5:8, 5:8] ^= 255  # a small thing is elsewhere for a moment
    looks = [pixels.tobytes().hex(), recoded.tobytes().hex(), other.tobytes().hex()]
    work = Work(config)
    assert [a.raw.id for a in filtering.NearVideos().run(_assets("a", "b", "c", looks=looks), work)] == ["1", "2"]


def test_min_hashing_finds_what_comparing_all_would(config):
    said = [caption(scene(generator("near", k), FULL), "detailed", generator("w", k)).text for k in range(60)]
    said += [f"{text} indeed" for text in said[:10]]
    every = [texts.runs(text) for text in said]
    wanted = {(i, j) for j in range(len(said)) for i in range(j) if texts.likeness(every[i], every[j]) >= 0.8}
    assert wanted >= {(k, 60 + k) for k in range(10)}
    assert set(texts.near_pairs(said, 0.8)) == wanted


@pytest.mark.parametrize(
    ("text", "language", "script"),
    [
        ("A dog runs in the park with a ball", "en", "Latin"),
        ("Der Hund läuft mit einem Ball durch den Park und ist froh", "de", "Latin"),
        ("Un chien court dans le parc avec une balle", "fr", "Latin"),
        ("犬が公園を走っています", "ja", "Han"),
        ("一只狗在公园里跑", "zh", "Han"),
        ("Собака бежит", "und", "Cyrillic"),
        ("1234", "und", ""),
    ],
)
def test_languages_and_scripts(text, language, script):
    assert texts.language(text) == language
    assert language == "ja" or texts.script(text) == script
