"""Stage 2: a model that sees the frames writes captions; what it writes is doubted before it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import checked
from reelspace.errors import EncodeError, MediaError
from reelspace.item import Item
from reelspace.media.policy import Centres, Sampling
from reelspace.synth import prompts, rules
from reelspace.synth.answers import Captions, FrameCaption
from reelspace.synth.asset import Asset, Written
from reelspace.synth.blocks import Block, Step, Work, batches, encoded
from reelspace.synth.config import Config
from reelspace.synth.filter import BATCH, threshold
from reelspace.synth.mllm import RefusedError, Reply, Request, Show
from reelspace.synth.mllm.desk import Fault, UnansweredError
from reelspace.synth.schema import Clip, Picture
from reelspace.worlds.sample import generator


def shown(name: str, source: Clip | Picture, work: Work) -> Show:
    """The frames of a clip, or the one frame of a picture, as the model is shown them.

    Raises:
        MediaError: they cannot be read.
    """
    wanted = work.config.mllm
    if isinstance(source, Picture):
        frames = work.picture(source, wanted.edge)
    else:
        frames = work.sample(source, Sampling(Centres(wanted.frames), wanted.edge))
    return Show(name, frames.pixels, frames.times, source)


def written(text: str, slots: dict[str, str], reply: Reply, request: Request, work: Work) -> Written:
    """A text with where it comes from."""
    return Written(
        text=" ".join(text.split()),
        profile=slots.get("profile", ""),
        readability=slots.get("readability", ""),
        education=slots.get("education", ""),
        seed=request.seed,
        prompt=prompts.signature(request),
        model=reply.model or work.config.mllm.model,
        revision=reply.revision,
        frame_times=[round(float(time), 6) for show in request.shows for time in show.times],
    )


def note(work: Work, asset: Asset, block: str, faults: Sequence[Fault], source: Clip | Picture) -> None:
    """Keeps answers that were not taken."""
    clip, image = (source, None) if isinstance(source, Clip) else (None, source)
    for fault in faults:
        work.reject(asset, block, fault.reason, fault.detail, text=fault.text[:2000], clip=clip, image=image)


def asking(work: Work, asset: Asset, block: str, source: Clip | Picture, ask: Callable[[], Asset]) -> Asset:
    """What `ask` makes of the asset; the asset as it was, and a dead letter, where the model or the file fails."""
    work.see()
    try:
        return ask()
    except UnansweredError as error:
        note(work, asset, block, error.faults, source)
        work.bury(asset, block, str(error))
    except (RefusedError, MediaError) as error:
        work.bury(asset, block, str(error))
    return asset


@dataclass(frozen=True)
class Caption:
    """Asks for five captions of each video, with what they are to dwell on drawn for each."""

    name: str = "caption"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        def ask(asset: Asset) -> Asset:
            return asking(work, asset, self.name, asset.clip, lambda: self._asked(asset, work))

        for before, asset in work.each(ask, assets, work.desk.together):
            if asset.captions:
                yield asset
            elif asset is not before:  # else it has been given up
                work.reject(asset, self.name, "no caption left")

    def _asked(self, asset: Asset, work: Work) -> Asset:
        enrich, seed = work.config.enrich, work.config.seed
        slots = prompts.drawn(enrich, generator("profile", seed, asset.key))
        video = shown("VIDEO", asset.clip, work)
        asked = prompts.captions(video, asset.caption, slots, enrich, prompts.seed_of(seed, "captions", asset.key))
        answer, reply, request, faults = work.desk.answer(
            asked, Captions, lambda answer: rules.broken_set(answer, enrich)
        )
        note(work, asset, self.name, faults, asset.clip)
        kept = []
        for one in answer.captions:
            if found := rules.broken_caption(one.style, one.text, enrich):
                work.reject(asset, "rules", *found, text=one.text)
                work.count("rules", f"caption: {found[0]}")
            else:
                text = written(one.text, slots, reply, request, work)
                kept.append(text.model_copy(update={"style": one.style}))
        work.count("rules", "texts", len(answer.captions))
        return asset.model_copy(update={"captions": kept})


@dataclass(frozen=True)
class Frame:
    """Asks for a caption of one key frame of each video, told with what it shows of the motion."""

    name: str = "frame"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        def ask(asset: Asset) -> Asset:
            if not asset.frames:
                return asset
            number = int(generator("frame", work.config.seed, asset.key).integers(len(asset.frames)))
            picture = asset.picture(asset.frames[number])
            return asking(work, asset, self.name, picture, lambda: self._asked(asset, picture, work))

        for _, asset in work.each(ask, assets, work.desk.together):
            yield asset

    def _asked(self, asset: Asset, picture: Picture, work: Work) -> Asset:
        enrich, seed = work.config.enrich, work.config.seed
        slots = prompts.drawn(enrich, generator("frame profile", seed, asset.key, picture.time))
        shows = (shown("PICTURE", picture, work), shown("VIDEO", asset.clip, work))
        asked = prompts.frame(*shows, slots, prompts.seed_of(seed, "frame", asset.key, picture.time))
        answer, reply, request, faults = work.desk.answer(
            asked, FrameCaption, lambda answer: rules.broken(answer.caption)
        )
        note(work, asset, self.name, faults, picture)
        text = written(answer.caption, slots, reply, request, work).model_copy(update={"image": picture})
        return asset.model_copy(update={"framed": [text]})


@dataclass(frozen=True)
class Ground:
    """Embedding consistency: turns down texts that are no nearer to their video (or frame) than to others.

    The threshold comes from the texts of the shard: their cosines with videos that are not theirs.
    """

    name: str = "ground"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        every = list(assets)
        told = [(k, "caption", text) for k, asset in enumerate(every) for text in asset.captions]
        told += [(k, "frame", text) for k, asset in enumerate(every) for text in asset.framed]
        rows, seen = self._texts(every, told, work), self._seen(every, told, work)
        kept: dict[tuple[int, str], list[Written]] = {}
        for kind in ("caption", "frame"):
            mine = [n for n, (_, of, _) in enumerate(told) if of == kind and n in rows and n in seen]
            if not mine:
                continue
            least = threshold(
                work.config.enrich.consistency,
                np.stack([rows[n] for n in mine]),
                np.stack([seen[n] for n in mine]),
                work.config.seed,
            )
            for n in mine:
                k, _, text = told[n]
                cosine = round(float(rows[n] @ seen[n]), 4)
                # Keywords and single aspects say little of a video; they need only be no worse than chance.
                floor = least if text.style not in ("abstract", "partial", "keywords") else min(least, 0.0)
                if cosine < floor:
                    work.reject(every[k], self.name, "inconsistent", f"under {floor:g}", cosine, text.text, text.image)
                else:
                    scored = text.model_copy(update={"scores": text.scores | {"consistency": cosine}})
                    kept.setdefault((k, kind), []).append(scored)
        for k, asset in enumerate(every):
            update = {"captions": kept.get((k, "caption"), []), "framed": kept.get((k, "frame"), [])}
            if update["captions"]:
                yield asset.model_copy(update=update)
            else:
                work.reject(asset, self.name, "no caption left")

    def _texts(
        self, every: Sequence[Asset], told: Sequence[tuple[int, str, Written]], work: Work
    ) -> dict[int, NDArray[np.float32]]:
        rows: dict[int, NDArray[np.float32]] = {}
        for batch in batches(enumerate(told), BATCH):
            items = [Item(text=text.text) for _, (_, _, text) in batch]
            found, failures = encoded(work.embedder, work.embedder.encode_query, items)
            rows |= {batch[position][0]: row for position, row in found.items()}
            for position, reason in failures.items():
                _, (k, _, text) = batch[position]
                work.reject(every[k], self.name, "given up", reason, text=text.text)
        return rows

    def _seen(
        self, every: Sequence[Asset], told: Sequence[tuple[int, str, Written]], work: Work
    ) -> dict[int, NDArray[np.float32]]:
        rows: dict[int, NDArray[np.float32]] = {}
        for n, (k, _, text) in enumerate(told):
            try:
                rows[n] = (
                    work.vectors("video", every[k].raw.id)
                    if text.image is None
                    else picture_vector(text.image, every[k], work)
                )
            except (MediaError, EncodeError) as error:
                work.reject(every[k], self.name, "given up", str(error), text=text.text, image=text.image)
        return rows


def picture_vector(picture: Picture, asset: Asset, work: Work) -> NDArray[np.float32]:
    """The vector of a frame, made once."""
    name = f"{asset.raw.id}@{picture.time}"
    if name not in work.vectors.new.get("frame", {}):
        item = Item(image=work.picture(picture).pixels[0])
        work.vectors.add("frame", name, checked(work.embedder, work.embedder.encode_candidate, [item])[0])
    return work.vectors("frame", name)


@dataclass(frozen=True)
class Verify:
    """A Yes/No pass: the verifier is asked of every text whether all of it is true."""

    name: str = "verify"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        def ask(asset: Asset) -> Asset:
            return asking(work, asset, self.name, asset.clip, lambda: self._asked(asset, work))

        for before, asset in work.each(ask, assets, work.verifier.together):
            if asset is before:
                continue  # it has been given up
            if asset.captions:
                yield asset
            else:
                work.reject(asset, self.name, "no caption left")

    def _asked(self, asset: Asset, work: Work) -> Asset:
        video = shown("VIDEO", asset.clip, work)
        captions = [self._judged(asset, text, (video,), work) for text in asset.captions]
        framed = [
            self._judged(asset, text, (shown("PICTURE", text.image, work), video), work)
            for text in asset.framed
            if text.image is not None
        ]
        return asset.model_copy(update={"captions": [t for t in captions if t], "framed": [t for t in framed if t]})

    def _judged(self, asset: Asset, text: Written, shows: Sequence[Show], work: Work) -> Written | None:
        return judged(asset, text, shows, self.name, work)


def judged(asset: Asset, text: Written, shows: Sequence[Show], block: str, work: Work) -> Written | None:
    """The text with the likelihood that it is true; `None` where that is too low."""
    yes, _ = work.verifier.likely(prompts.verify(shows, text.text))
    work.count(block, "asked")
    if yes < work.config.enrich.verify:
        work.reject(asset, block, "judged false", value=yes, text=text.text, image=text.image, clip=text.clip)
        return None
    return text.model_copy(update={"scores": text.scores | {"yes": round(yes, 4)}})


def steps(config: Config, number: int) -> list[Step]:
    """The stage's steps, the first of them with that number."""
    blocks: tuple[Block, ...] = (Caption(), Frame(), Ground(), Verify())
    kept = (block for block in blocks if block.name == "caption" or block.name not in config.enrich.skip)
    return [Step(number, "enrich", tuple(kept))]
