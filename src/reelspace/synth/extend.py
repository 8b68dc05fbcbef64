"""Stage 3: from videos with captions, frames and clips to rows of seven tasks, with hard negatives."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import checked
from reelspace.errors import EncodeError, MediaError, ReelspaceError
from reelspace.index.exact import MatrixStore
from reelspace.item import Item
from reelspace.synth import prompts, rules, texts
from reelspace.synth.answers import FromClip, FromPicture
from reelspace.synth.asset import Asset, Written
from reelspace.synth.blocks import Block, Step, Work, batches, encoded
from reelspace.synth.config import Config
from reelspace.synth.enrich import asking, judged, note, shown, written
from reelspace.synth.filter import BATCH
from reelspace.synth.schema import TASKS, Clip, Negative, Part, Picture, Provenance, Row
from reelspace.synth.shards import digest, write_json
from reelspace.worlds.sample import generator

# What is known of all videos: their vectors, to search in, and where each of them is.


@dataclass(frozen=True)
class Corpus:
    """Makes the index of the videos that are left, for neighbours, rivals and hard negatives."""

    name: str = "corpus"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        every = list(assets)
        folder = work.run / work.step
        vectors = work.vectors.all("video", [asset.raw.id for asset in every])
        store = MatrixStore(folder / "corpus", work.embedder.dim)
        store.clear()
        if every:
            store.add(np.arange(len(every)), vectors)
        known = [{**asset.clip.model_dump(), **_named(asset)} for asset in every]
        write_json(known, folder / "corpus.json")
        yield from every


def _named(asset: Asset) -> dict[str, Any]:
    return {"id": asset.raw.id, "key": asset.key, "frames": asset.frames, "clips": asset.clips}


class Videos:
    """The corpus, opened."""

    def __init__(self, work: Work) -> None:
        folder = work.run / "plan"
        self.known: list[dict[str, Any]] = json.loads((folder / "corpus.json").read_text("utf-8"))
        self.store = MatrixStore(folder / "corpus", work.embedder.dim)

    def near(self, vector: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
        """The nearest videos, as numbers, with their cosines."""
        (found,) = self.store.search(vector[None], count)
        return list(zip(found.ids.tolist(), (float(score) for score in found.scores), strict=True))

    def vectors(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        """Their vectors `[n, d]`."""
        return np.asarray(self.store.vectors(np.asarray(numbers, np.int64)))

    def key(self, number: int) -> str:
        """The key of its content."""
        return str(self.known[number]["key"])

    def clip(self, number: int) -> Clip:
        """Where it is."""
        return Clip(**{name: self.known[number][name] for name in ("path", "start", "end")})


def _videos(work: Work) -> Videos:
    opened: Videos | None = getattr(work, "_videos", None)
    if opened is None:
        opened = Videos(work)
        work._videos = opened  # type: ignore[attr-defined]  # one a shard; blocks themselves hold nothing
    return opened


# Which videos make rows of which tasks.


@dataclass(frozen=True)
class Sample:
    """Quality-aware sampling: where a task takes a share of the videos, rare concepts and good pairs come first."""

    name: str = "sample"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        every = list(assets)
        weights = weighed(every)
        taken: dict[str, set[int]] = {}
        for task in work.config.extend.tasks:
            share = work.config.extend.shares.get(task, 1.0)
            # The n largest u^(1/w): a weighted draw without putting back (Efraimidis and Spirakis).
            luck = {
                k: float(generator("sample", work.config.seed, task, asset.key).random()) ** (1 / weights[k])
                for k, asset in enumerate(every)
            }
            order = sorted(luck, key=lambda k: (-luck[k], every[k].raw.id))
            taken[task] = set(order[: round(share * len(order))])
            work.count(self.name, f"{task}: videos", len(taken[task]))
        for k, asset in enumerate(every):
            yield asset.model_copy(update={"tasks": [task for task in taken if k in taken[task]]})


_COMMON = re.compile(
    r"a|an|and|are|as|at|by|for|from|in|into|is|it|its|of|on|or|that|the|then|there|this|to|while|with|\d+"
)


def concepts(asset: Asset) -> set[str]:
    """The words that say what a video is of: those of its keywords and of its short captions."""
    said = [text.text for text in asset.captions if text.style in ("keywords", "concise")] or [
        text.text for text in asset.captions
    ]
    return {word for text in said for word in texts.words(text) if not _COMMON.fullmatch(word)}


def weighed(assets: Sequence[Asset]) -> list[float]:
    """How gladly each is taken, in (0, 1]: a common concept counts √(median / its number), quality its rank."""
    found = [concepts(asset) for asset in assets]
    count = Counter(word for words in found for word in words)
    usual = float(np.median(list(count.values()))) if count else 1.0
    quality = [_quality(asset) for asset in assets]
    ranks = {k: rank for rank, k in enumerate(sorted(range(len(assets)), key=lambda k: (quality[k], k)))}
    weights = []
    for k, words in enumerate(found):
        rare = [min(1.0, (usual / count[word]) ** 0.5) for word in words]
        rarity = sum(rare) / len(rare) if rare else 1.0
        weights.append(max(rarity * (0.5 + 0.5 * (ranks[k] + 1) / len(assets)), 1e-3))
    return weights


def _quality(asset: Asset) -> float:
    scores = [sum(text.scores.values()) / len(text.scores) for text in asset.captions if text.scores]
    return sum(scores) / len(scores) if scores else 0.0


# Composed queries.


@dataclass(frozen=True)
class Compose:
    """Asks for queries that lead from a frame, or a clip, to the video."""

    name: str = "compose"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        opened = _videos(work)

        def ask(asset: Asset) -> Asset:
            for task in ("TI2V", "TV2V"):
                if task in asset.tasks:
                    for origin in work.config.extend.references:
                        asset = self._one(asset, task, origin, work, opened)
            return asset

        for _, asset in work.each(ask, assets, work.desk.together):
            yield asset

    def _one(self, asset: Asset, task: str, origin: str, work: Work, opened: Videos) -> Asset:
        seed = work.config.seed
        random = generator("reference", seed, task, origin, asset.key)
        found = reference(asset, task, origin, random, work, opened)
        if found is None:
            return asset
        source, key = found

        def asked() -> Asset:
            slots = prompts.drawn(work.config.enrich, generator("composed profile", seed, task, origin, asset.key))
            name = "REFERENCE IMAGE" if isinstance(source, Picture) else "REFERENCE CLIP"
            shows = (shown(name, source, work), shown("TARGET", asset.clip, work))
            request = prompts.composed(*shows, slots, prompts.seed_of(seed, task, origin, asset.key))
            schema: type[FromPicture] = FromPicture if isinstance(source, Picture) else FromClip
            known = [text.text for text in asset.captions]
            answer, reply, request, faults = work.desk.answer(
                request, schema, lambda answer: rules.broken_query(answer, known)
            )
            note(work, asset, self.name, faults, source)
            text = written(answer.query, slots, reply, request, work)
            update: dict[str, Any] = {"attribute": answer.attribute, "style": f"composed, {origin}"}
            update |= {"relation": answer.relation} if isinstance(answer, FromClip) else {}
            update |= {"image" if isinstance(source, Picture) else "clip": source, "reference_key": key}
            return asset.model_copy(update={"composed": [*asset.composed, text.model_copy(update=update)]})

        return asking(work, asset, self.name, source, asked)


def reference(
    asset: Asset, task: str, origin: str, random: np.random.Generator, work: Work, opened: Videos
) -> tuple[Picture | Clip, str] | None:
    """A reference for a query about a video, and the key of the video it is from; `None` where there is none.

    `own`: a frame or a clip of the video; of frames an early one, so that something follows from it. `neighbour`: of
    one of the five videos that look most like it.
    """
    data: dict[str, Any] = {"path": asset.raw.video, **_named(asset)}
    if origin == "neighbour":
        near = opened.near(work.vectors("video", asset.raw.id), 8)
        others = [number for number, _ in near if opened.key(number) != asset.key][:5]
        if not others:
            return None
        data = opened.known[others[int(random.integers(len(others)))]]
    if task == "TI2V":
        frames = data["frames"]
        return (Picture(path=data["path"], time=frames[0] if origin == "own" else frames[-1]), data["key"])
    start, end = data["clips"][int(random.integers(len(data["clips"])))]
    return Clip(path=data["path"], start=start, end=end), data["key"]


@dataclass(frozen=True)
class Judge:
    """The Yes/No pass for composed queries: is what they say true of the reference and the video?"""

    name: str = "judge"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        def ask(asset: Asset) -> Asset:
            return (
                asking(work, asset, self.name, asset.clip, lambda: self._asked(asset, work))
                if asset.composed
                else asset
            )

        for before, asset in work.each(ask, assets, work.verifier.together):
            yield asset.model_copy(update={"composed": []}) if asset is before and asset.composed else asset

    def _asked(self, asset: Asset, work: Work) -> Asset:
        target = shown("TARGET", asset.clip, work)
        kept = []
        for text in asset.composed:
            source = text.image or text.clip
            assert source is not None
            name = "REFERENCE IMAGE" if text.image else "REFERENCE CLIP"
            if good := judged(asset, text, (shown(name, source, work), target), self.name, work):
                kept.append(good)
        return asset.model_copy(update={"composed": kept})


@dataclass(frozen=True)
class Necessary:
    """The necessity test: without its words, or without its reference, a composed query must do worse.

    The target competes with the videos nearest to the query and to each of its parts, and with the reference itself: it
    is what somebody would be given who takes no notice of the words.
    """

    name: str = "necessary"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        opened = _videos(work)
        for asset in assets:
            kept = []
            for text in asset.composed:
                try:
                    leads, place = self._tested(asset, text, work, opened)
                except (MediaError, EncodeError) as error:
                    work.bury(asset, self.name, str(error))
                    continue
                if reason := needless(leads, place, work.config):
                    work.reject(asset, self.name, reason, _told(leads), leads["both"], text.text, text.image, text.clip)
                else:
                    kept.append(text.model_copy(update={"scores": text.scores | leads}))
            yield asset.model_copy(update={"composed": kept})

    def _tested(
        self, asset: Asset, text: Written, work: Work, opened: Videos
    ) -> tuple[dict[str, float], dict[str, int]]:
        kind = "image+text" if text.image else "video+text"
        if kind not in work.embedder.modalities:
            raise ReelspaceError(
                f"{work.embedder.name} does not take {kind}, so it cannot say what a part of a query is worth; choose "
                "another embedder, or leave “necessary” out (extend.skip)."
            )
        if text.image:
            pixels = work.picture(text.image).pixels[0]
            items = {"both": Item(text=text.text, image=pixels), "reference": Item(image=pixels)}
        else:
            assert text.clip is not None
            frames = work.sample(text.clip, work.embedder.sampling)
            items = {"both": Item(text=text.text, video=frames), "reference": Item(video=frames)}
        items["words"] = Item(text=text.text)
        rows = checked(work.embedder, work.embedder.encode_query, list(items.values()))
        decoy = checked(work.embedder, work.embedder.encode_candidate, [items["reference"]])
        pool = {number for row in rows for number, _ in opened.near(row, work.config.extend.pool)}
        rivals = sorted(number for number in pool if opened.key(number) != asset.key)
        return leads_of(
            dict(zip(items, rows, strict=True)),
            work.vectors("video", asset.raw.id),
            np.concatenate([opened.vectors(rivals), decoy]) if rivals else decoy,
        )


def leads_of(
    queries: dict[str, NDArray[np.float32]], target: NDArray[np.float32], rivals: NDArray[np.float32]
) -> tuple[dict[str, float], dict[str, int]]:
    """By how much the target stands out among the rivals, and its place, for each of the queries.

    Cosines with a text are of another size than cosines with a picture, so a lead is measured in standard deviations:
    the target's cosine less the mean of the rivals', by their spread. Bare differences told needless queries from
    others hardly better than chance.

    Args:
        queries: unit rows `[d]`: of `both` parts, the `words`, the `reference`.
        target: `[d]`.
        rivals: `[n, d]`, one or more.
    """
    leads, places = {}, {}
    for name, query in queries.items():
        own, others = float(query @ target), rivals @ query
        spread = float(others.std())
        leads[name] = round((own - float(others.mean())) / (spread if spread > 1e-6 else 1.0), 4)
        places[name] = 1 + int((others >= own).sum())
    return leads, places


def needless(leads: dict[str, float], places: dict[str, int], config: Config) -> str:
    """Why a composed query is turned down; empty where it needs both its parts."""
    wanted = config.extend
    for part, other in (("words", "reference"), ("reference", "words")):
        lost = places[part] > wanted.depth if wanted.necessity == "rank" else leads["both"] > leads[part] + wanted.gain
        if not lost:
            return f"the {part} alone suffice{'s' if part == 'reference' else ''}" + f": no need of the {other}"
    if wanted.necessity == "rank" and places["both"] > wanted.depth:
        return "both together do not find the target"
    return ""


def _told(leads: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.3f}" for name, value in leads.items())


# Rows.


def text_part(text: str, key: str) -> Part:
    """A text about a video."""
    return Part(id=digest("text", texts.plain(text)), video=key, text=text)


def video_part(clip: Clip, key: str) -> Part:
    """A whole video."""
    return Part(id=digest("video", key), video=key, clip=clip)


def clip_part(clip: Clip, key: str) -> Part:
    """A clip of a video."""
    return Part(id=digest("clip", key, clip.start, clip.end), video=key, clip=clip)


def picture_part(picture: Picture, key: str) -> Part:
    """A frame of a video."""
    return Part(id=digest("picture", key, picture.time), video=key, image=picture)


def _both(text: str, reference: Part) -> Part:
    return reference.model_copy(update={"id": digest(reference.id, texts.plain(text)), "text": text})


@dataclass
class _Draft:
    """A row that has no negatives yet.

    Attributes:
        query: as an item, where negatives are to be mined.
    """

    asset: Asset
    row: Row
    query: Item | None = None


@dataclass(frozen=True)
class Pair:
    """Makes the rows, and mines hard negatives for those of tasks that have some."""

    name: str = "pair"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        opened = _videos(work)
        for batch in batches(assets, BATCH):
            drafts: list[_Draft] = []
            for asset in batch:
                try:
                    drafts += self._drafts(asset, work)
                except MediaError as error:
                    work.bury(asset, self.name, str(error))
            mined = [(draft, draft.query) for draft in drafts if draft.query is not None]
            rows, failures = encoded(work.embedder, work.embedder.encode_query, [query for _, query in mined])
            vectors = {id(mined[position][0]): row for position, row in rows.items()}
            for position, reason in failures.items():
                work.bury(mined[position][0].asset, self.name, reason)
            for draft in drafts:
                row = draft.row
                if draft.query is not None:
                    if id(draft) not in vectors:
                        continue
                    target = work.vectors("video", draft.asset.raw.id)
                    keys = {row.candidate.video, row.query.video}
                    negatives = mine(vectors[id(draft)], target, keys, row.task, work, opened)
                    row = row.model_copy(update={"negatives": negatives})
                work.rows.setdefault(row.task, []).append(row)
                work.count(self.name, row.task)
            yield from batch

    def _drafts(self, asset: Asset, work: Work) -> Iterator[_Draft]:
        random = generator("pairs", work.config.seed, asset.key)
        order = [asset.captions[k] for k in random.permutation(len(asset.captions))]
        frame = asset.frames[int(random.integers(len(asset.frames)))]
        start, end = asset.clips[int(random.integers(len(asset.clips)))]
        target, key = video_part(asset.clip, asset.key), asset.key
        if "T2V" in asset.tasks:
            yield self._draft(asset, "T2V", text_part(order[0].text, key), target, order[0], work)
        if "T2T" in asset.tasks and len(order) >= 3:
            one, other = order[1], order[2]
            yield self._draft(asset, "T2T", text_part(one.text, key), text_part(other.text, key), one, work)
        if "T2I" in asset.tasks and asset.framed and asset.framed[0].image:
            said = asset.framed[0]
            yield self._draft(asset, "T2I", text_part(said.text, key), picture_part(said.image, key), said, work)  # type: ignore[arg-type]
        if "I2V" in asset.tasks:
            yield self._draft(asset, "I2V", picture_part(asset.picture(frame), key), target, None, work)
        if "V2V" in asset.tasks:
            yield self._draft(asset, "V2V", clip_part(asset.part(start, end), key), target, None, work)
        for said in asset.composed:
            if said.image:
                query = _both(said.text, picture_part(said.image, said.reference_key))
            else:
                assert said.clip is not None
                query = _both(said.text, clip_part(said.clip, said.reference_key))
            yield self._draft(asset, "TI2V" if said.image else "TV2V", query, target, said, work)

    def _draft(self, asset: Asset, task: str, query: Part, candidate: Part, said: Written | None, work: Work) -> _Draft:
        kept = said.model_dump(include=_KEPT) if said else {}
        provenance = Provenance(
            source=asset.raw.id,
            language=_language(said.text) if said else asset.language or "und",
            licence=asset.raw.licence,
            **kept,
        )
        row = Row(
            id=digest(task, query.id, candidate.id),
            task=TASKS[task].name,
            instruction=TASKS[task].instruction,
            query=query,
            candidate=candidate,
            provenance=provenance,
        )
        return _Draft(asset, row, self._item(query, work) if _negatives(task, work.config) else None)

    def _item(self, query: Part, work: Work) -> Item:
        image = work.picture(query.image).pixels[0] if query.image else None
        frames = work.sample(query.clip, work.embedder.sampling) if query.clip else None
        return Item(text=query.text, image=image, video=frames)


def _language(text: str) -> str:
    """Of a text that a model wrote: what it looks like, else English, which is what was asked for."""
    guess = texts.language(text)
    return "en" if guess == "und" else guess


_KEPT = {"model", "revision", "prompt", "seed", "frame_times", "profile", "style", "readability", "education"}
_KEPT |= {"relation", "scores"}


def _negatives(task: str, config: Config) -> int:
    asked = config.extend.negatives
    return (
        0
        if "negatives" in config.extend.skip
        else TASKS[task].negatives
        if asked is None
        else asked * (task[-1] == "V")
    )


def mine(
    query: NDArray[np.float32], target: NDArray[np.float32], not_these: set[str], task: str, work: Work, opened: Videos
) -> list[Negative]:
    """Videos near to the query that are not what it asks for: other content, and clearly less near than the target.

    Args:
        not_these: keys of contents that are right, or the reference's own.
    """
    wanted, config = _negatives(task, work.config), work.config.extend
    positive = float(query @ target)
    most = config.near_positive * positive if positive > 0 else positive
    found = []
    for number, score in opened.near(query, wanted + config.skip_top + 64):
        if opened.key(number) in not_these or score > most:
            continue
        found.append(Negative(part=video_part(opened.clip(number), opened.key(number)), score=round(score, 4)))
        if len(found) == wanted + config.skip_top:
            break
    return found[config.skip_top :]


def steps(config: Config, number: int) -> list[Step]:
    """The stage's steps, the first of them with that number."""
    composed: tuple[Block, ...] = (Compose(), Judge(), Necessary())
    if not {"TI2V", "TV2V"} & set(config.extend.tasks):
        composed = ()
    kept = tuple(block for block in composed if block.name not in config.extend.skip)
    return [Step(number, "plan", (Sample(), Corpus()), gathered=True), Step(number + 1, "extend", (*kept, Pair()))]
