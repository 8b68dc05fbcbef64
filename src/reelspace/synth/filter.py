"""Stage 1: only pairs are kept whose caption says something, of this video, in which something moves, and once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import MediaError
from reelspace.item import Frames, Item
from reelspace.media.policy import Sampling, Uniform
from reelspace.synth import texts
from reelspace.synth.asset import Asset
from reelspace.synth.blocks import Block, Step, Work, batches, encoded
from reelspace.synth.config import Config, quantile
from reelspace.synth.shards import digest
from reelspace.worlds.sample import generator

BATCH = 32
LOOKED = Sampling(Uniform(16), edge=160)
CELLS, GREYS = 8, 16

# What makes a text no caption, in the order in which it is looked for.
RULES: dict[str, re.Pattern[str]] = {
    "address": re.compile(r"https?://|www\.\w|\b[\w.-]+\.(com|net|org|io|tv|ru|de|cn|info)\b", re.I),
    "e-mail": re.compile(r"[\w.+-]+@[\w-]+\.[a-z]{2,}", re.I),
    "file name": re.compile(
        r"\b[\w-]+\.(mp4|mov|avi|mkv|webm|m4v|mpe?g|wmv|flv|3gp|gif|jpe?g|png)\b"
        r"|^(vid|img|dsc[fn]?|gopr|gx|gh|pxl|mvi|mov|clip|screen[ _-]?recording)[ _-]?\d{2,}",
        re.I,
    ),
    "hashtags": re.compile(r"(#\w+\s*){3,}|^\s*(#\w+\s*)+$"),
    "boilerplate": re.compile(
        r"\b(subscribe|follow (me|us)|like and share|link in (the )?(bio|description)|all rights reserved|copyright"
        r"|royalty[- ]free|stock (footage|video|photo)|video footage|4k (footage|resolution|video)|free download"
        r"|click (here|the link)|watch (now|more|until the end)|official (video|trailer)|full (episode|movie))\b",
        re.I,
    ),
    "placeholder": re.compile(
        r"^\W*(untitled|no (title|description|caption)|n/?a|none|null|unknown|test|video|clip|new (video|project)"
        r"|my (video|movie)|image|footage)(\s+(video|clip|\d+))*\W*$",
        re.I,
    ),
    "markup": re.compile(r"<[a-z/][^>]*>|&[a-z]+;|\{\{|\[\[", re.I),
}


def unfit(text: str, config: Config) -> str:
    """Why a text is no caption; empty where it is one."""
    wanted = config.filter
    for name, rule in RULES.items():
        if rule.search(text):
            return name
    if any(re.search(phrase, text, re.I) for phrase in wanted.boilerplate):
        return "boilerplate"
    if wanted.scripts and (written := texts.script(text)) and written not in wanted.scripts:
        return "script"
    found = texts.words(text)
    if sum(any(letter.isalpha() for letter in word) for word in found) < wanted.least_words:
        return "short"
    if sum(letter.isalpha() for letter in text) < 0.5 * len(text.replace(" ", "")):
        return "not words"
    if len(found) >= 6 and len(set(found)) <= len(found) / 3:
        return "repetition"
    return ""


_MENDS = (
    (re.compile(r"\s*[\(\[]?\b(HD|4K|1080p|720p|60 ?fps)\b[\)\]]?\s*$", re.I), ""),
    (re.compile(r"(\s*#\w+)+\s*$"), ""),
    (re.compile(r"\s*[|•·]\s*[^|•·]{0,40}$"), ""),  # “… | Channel name”
    (re.compile(r"\s+"), " "),
)


def rectified(text: str) -> str:
    """A caption without what is tacked on to many: tags, resolutions, the channel's name, space."""
    for pattern, replacement in _MENDS:
        text = pattern.sub(replacement, text)
    return text.strip()


@dataclass(frozen=True)
class Rectify:
    """Annotation rectification: takes from captions what does not belong there, and turns down what is no caption."""

    name: str = "rectify"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        for asset in assets:
            text = rectified(asset.raw.text)
            if not text and not asset.raw.text.strip():
                if work.config.filter.missing == "reject":
                    work.reject(asset, self.name, "missing")
                    continue
            elif reason := unfit(asset.raw.text, work.config) and unfit(text, work.config):
                work.reject(asset, self.name, reason, text=asset.raw.text)
                continue
            if text != asset.raw.text:
                work.count(self.name, "mended")
            yield asset.model_copy(
                update={"caption": text, "language": asset.raw.language or texts.language(asset.raw.text)}
            )


@dataclass(frozen=True)
class Look:
    """Decodes a few frames: is it a video, how much moves, what does it look like, which frames and clips to take."""

    name: str = "look"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        least, most = work.config.filter.duration
        for asset in assets:
            work.see()
            try:
                frames = work.sample(asset.clip, LOOKED)
                key = digest(_hashed(asset, work), asset.raw.start, asset.raw.end)
            except (MediaError, OSError) as error:
                work.bury(asset, self.name, str(error))
                continue
            duration = frames.end - frames.start
            if not least <= duration <= most:
                work.reject(asset, self.name, "duration", value=duration)
                continue
            random = generator("clips", work.config.seed, key)
            yield asset.model_copy(
                update={
                    **{"key": key, "duration": round(duration, 3), "motion": round(motion(frames.pixels), 2)},
                    **{"looks": looks(frames.pixels).hex(), "frames": key_frames(frames, work.config.filter.frames)},
                    "clips": [clip(frames, work.config.filter.clip, random) for _ in range(work.config.filter.clips)],
                }
            )


def _hashed(asset: Asset, work: Work) -> str:
    import hashlib

    with (work.out / asset.raw.video).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _grey(pixels: NDArray[np.uint8], cells: int) -> NDArray[np.float32]:
    """Mean brightness of `cells` × `cells` parts of each frame: float32 `[T, cells, cells]`, 0…255."""
    from PIL import Image

    pictures = (Image.fromarray(frame).convert("L") for frame in pixels)
    small = [picture.resize((cells, cells), Image.Resampling.BOX) for picture in pictures]
    return np.stack([np.asarray(picture, dtype=np.float32) for picture in small])


def motion(pixels: NDArray[np.uint8]) -> float:
    """How much moves in frames uint8 `[T, H, W, 3]`: the greatest change of a cell's brightness, in grey levels.

    Cells are an eighth of the frame: in their means noise is next to nothing and a small thing that moves is not.
    """
    cells = _grey(pixels, CELLS)
    return float(max(np.abs(np.diff(cells, axis=0)).max(initial=0), np.abs(cells - cells[:1]).max(initial=0)))


def looks(pixels: NDArray[np.uint8]) -> bytes:
    """Four small grey frames: 4 × 256 bytes."""
    chosen = pixels[np.linspace(0, len(pixels) - 1, 4).round().astype(int)]
    return _grey(chosen, GREYS).round().astype(np.uint8).tobytes()


def key_frames(frames: Frames, count: int) -> list[float]:
    """Times of the frames with the most contrast, one of each of `count` parts: seldom a black or a blurred one."""
    contrast = _grey(frames.pixels, GREYS).std(axis=(1, 2))
    parts = np.array_split(np.arange(len(frames)), min(count, len(frames)))
    chosen = [part[int(np.argmax(contrast[part]))] for part in parts]
    return sorted({round(float(frames.times[index]), 6) for index in chosen})


def clip(frames: Frames, share: tuple[float, float], random: np.random.Generator) -> tuple[float, float]:
    """A stretch `[start, end)` of that share of the video, drawn, beginning at a frame that is there."""
    whole = frames.end - frames.start
    length = float(random.uniform(*share)) * whole
    wished = frames.start + float(random.uniform(0, max(whole - length, 0)))
    start = float(frames.times[max(int(np.searchsorted(frames.times, wished, side="right")) - 1, 0)])
    return round(start, 6), round(min(start + length, frames.end), 6)


@dataclass(frozen=True)
class Moving:
    """Temporal dynamics: turns down stills."""

    name: str = "moving"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        for asset in assets:
            if asset.motion < work.config.filter.motion:
                work.reject(asset, self.name, "still", value=asset.motion)
            else:
                yield asset


@dataclass(frozen=True)
class Embed:
    """Vectors of the video and of its caption, their cosine, and cosines with captions of other videos."""

    name: str = "embed"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        for batch in batches(assets, BATCH):
            seen = dict(_videos(batch, work, self.name))
            told = [asset for asset in batch if asset.caption and asset.raw.id in seen]
            rows, failures = encoded(
                work.embedder, work.embedder.encode_query, [Item(text=asset.caption) for asset in told]
            )
            for position, reason in failures.items():
                work.bury(told[position], self.name, reason)
                del seen[told[position].raw.id]
            texts_ = {told[position].raw.id: row for position, row in rows.items()}
            for asset in batch:
                id_ = asset.raw.id
                if id_ in seen:
                    work.vectors.add("video", id_, seen[id_])
                    if id_ in texts_:
                        work.vectors.add("caption", id_, texts_[id_])
                    cosine = round(float(texts_[id_] @ seen[id_]), 4) if id_ in texts_ else None
                    yield asset.model_copy(update={"consistency": cosine})


def _videos(batch: Sequence[Asset], work: Work, block: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Ids and vectors of the videos that can be embedded."""
    items: list[tuple[Asset, Item]] = []
    for asset in batch:
        try:
            items.append((asset, Item(video=work.sample(asset.clip, work.embedder.sampling))))
        except MediaError as error:
            work.bury(asset, block, str(error))
    rows, failures = encoded(work.embedder, work.embedder.encode_candidate, [item for _, item in items])
    for position, reason in failures.items():
        work.bury(items[position][0], block, reason)
    for position, vector in rows.items():
        yield items[position][0].raw.id, vector


# What takes all pairs to judge.


@dataclass(frozen=True)
class Shared:
    """Turns down captions that many videos have: they tell of none of them."""

    name: str = "shared"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        every = list(assets)
        count = Counter(texts.plain(asset.caption) for asset in every if asset.caption)
        for asset in every:
            times = count[texts.plain(asset.caption)] if asset.caption else 0
            if times > work.config.filter.shared:
                work.reject(asset, self.name, "shared", f"{times} videos have it", value=times)
            else:
                yield asset


@dataclass(frozen=True)
class Consistent:
    """Cross-modal consistency: turns down captions that are no nearer to their video than to others."""

    name: str = "consistent"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        every = list(assets)
        told = [asset for asset in every if asset.consistency is not None]
        queries = work.vectors.all("caption", [asset.raw.id for asset in told])
        videos = work.vectors.all("video", [asset.raw.id for asset in told])
        least = threshold(work.config.filter.consistency, queries, videos, work.config.seed)
        for asset in every:
            if asset.consistency is not None and asset.consistency < least:
                work.reject(asset, self.name, "inconsistent", f"under {least:g}", asset.consistency)
            else:
                yield asset


def threshold(asked: float | str, texts_: NDArray[np.float32], videos: NDArray[np.float32], seed: int) -> float:
    """The least cosine that is asked for, or the least that is more than the share `Q` of mismatched pairs has.

    Args:
        asked: a cosine, or `null:Q`.
        texts_, videos: unit rows `[n, d]`; the rows of one number belong together.
    """
    share = quantile(asked)
    if share is None:
        return float(asked)
    if len(texts_) < 2:
        return -1.0
    random = generator("null", seed, len(texts_))
    scores = []
    for _ in range(min(16, len(texts_) - 1)):
        shift = int(random.integers(1, len(texts_)))
        scores.append((texts_ * np.roll(videos, shift, axis=0)).sum(axis=1))
    # The least cosine, as they are kept, that is more: where many are the same, they do not pass either.
    return round(float(np.quantile(np.concatenate(scores), share)), 4) + 1e-4


class _Near:
    """Of things that are alike the one is kept whose caption fits best."""

    def __init__(self, count: int) -> None:
        self._of = list(range(count))

    def join(self, i: int, j: int) -> None:
        self._of[self.root(i)] = self.root(j)

    def root(self, i: int) -> int:
        while self._of[i] != i:
            self._of[i] = self._of[self._of[i]]
            i = self._of[i]
        return i


def _best_of_each(assets: Sequence[Asset], near: _Near, block: str, work: Work) -> Iterator[Asset]:
    best: dict[int, Asset] = {}
    for position, asset in enumerate(assets):
        rival = best.get(near.root(position))
        if rival is None or _fits(asset) > _fits(rival):
            best[near.root(position)] = asset
    for position, asset in enumerate(assets):
        chosen = best[near.root(position)]
        if chosen is asset:
            yield asset
        else:
            work.reject(asset, block, "duplicate", f"of {chosen.raw.id}")


def _fits(asset: Asset) -> float:
    return -2.0 if asset.consistency is None else asset.consistency


@dataclass(frozen=True)
class NearTexts:
    """Near-duplicate captions."""

    name: str = "near_texts"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        every = list(assets)
        near, told = _Near(len(every)), [k for k, asset in enumerate(every) if asset.caption]
        same = texts.near_pairs([every[k].caption for k in told], work.config.filter.near_text)
        for i, j in same:
            near.join(told[j], told[i])
        yield from _best_of_each(every, near, self.name, work)


@dataclass(frozen=True)
class NearVideos:
    """Near-duplicate videos: the same file, or another encoding of the same frames."""

    name: str = "near_videos"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        every = list(assets)
        near = _Near(len(every))
        grey = [np.frombuffer(bytes.fromhex(asset.looks), np.uint8).astype(np.int16) for asset in every]
        for i, j in _meeting(every):
            if np.abs(grey[i] - grey[j]).max() <= work.config.filter.near_video:
                near.join(j, i)
        yield from _best_of_each(every, near, self.name, work)


def _meeting(assets: Sequence[Asset]) -> list[tuple[int, int]]:
    """Videos that may be the same: their coarsest looks fall together in one of several ways of rounding them."""
    buckets: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for position, asset in enumerate(assets):
        grey = np.frombuffer(bytes.fromhex(asset.looks), np.uint8).reshape(4, GREYS, GREYS).astype(np.float32)
        coarse = grey.reshape(4, 2, GREYS // 2, 2, GREYS // 2).mean(axis=(2, 4))
        for way in range(4):
            # Each way rounds at other places: what is alike is rounded apart in all of them only by great ill luck.
            cells = coarse[:, way // 2, way % 2]
            for shift in (0.0, 8.0):
                buckets[way * 2 + (shift > 0), np.floor((cells + shift) / 16).astype(np.uint8).tobytes()].append(
                    position
                )
    met: set[tuple[int, int]] = set()
    for members in buckets.values():
        for k, j in enumerate(members):
            met |= {(i, j) for i in members[max(0, k - 64) : k]}
    return sorted(met)


def steps(config: Config, number: int) -> list[Step]:
    """The stage's steps, the first of them with that number."""
    alone: tuple[Block, ...] = (Rectify(), Look(), Moving(), Embed())
    together: tuple[Block, ...] = (Shared(), Consistent(), NearTexts(), NearVideos())
    needed = {"look", "embed"}
    return [
        Step(number, "filter", tuple(b for b in alone if b.name in needed or b.name not in config.filter.skip)),
        Step(number + 1, "select", tuple(b for b in together if b.name not in config.filter.skip), gathered=True),
    ]
