"""Where raw pairs come from: a list of videos with captions, or worlds with faults put in."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from reelspace.errors import ReelspaceError
from reelspace.item import Span
from reelspace.synth.asset import Asset, Raw
from reelspace.synth.blocks import Work
from reelspace.synth.config import TableSource, WorldsSource
from reelspace.synth.shards import digest, write_text
from reelspace.worlds.captions import Caption, caption
from reelspace.worlds.facts import Facts
from reelspace.worlds.film import film, write
from reelspace.worlds.sample import PROFILES, Profile, Random, generator, pick, scenes
from reelspace.worlds.scene import Scene, from_json

TRUTH = "truth.jsonl"
"""In the folder beside the dataset's: what is true of each drawn video, and what was done to its pair."""


@dataclass(frozen=True)
class Source:
    """The first block: makes the assets."""

    name: str = "source"

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        seen: set[str] = set()
        source = work.config.source
        made = _table(source, work.out) if isinstance(source, TableSource) else _worlds(source, work)
        for raw in made:
            if raw.id in seen:
                raise ReelspaceError(f"The source has the id “{raw.id}” twice; ids must be unique.")
            seen.add(raw.id)
            yield Asset(raw=raw)


def _table(source: TableSource, out: Path) -> Iterator[Raw]:
    root = source.root or source.path.parent
    for number, line in enumerate(_lines(source.path), 1):
        named = line.get(source.video)
        if not isinstance(named, str) or not named:
            raise ReelspaceError(f"{source.path}: row {number} has no “{source.video}”; name the column in the source.")
        span = Span.parse(str(root / named))
        path = span.path.absolute()
        video = str(path.relative_to(out.absolute())) if path.is_relative_to(out.absolute()) else str(path)
        text = str(line.get(source.text) or "")
        yield Raw(
            id=str(line.get(source.id) or digest(named, text)),
            video=video,
            start=span.start,
            end=span.end,
            text=text,
            language=str(line.get(source.language) or ""),
            licence=str(line.get(source.licence) or ""),
        )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            for batch in pq.ParquetFile(path).iter_batches():
                yield from batch.to_pylist()
        elif path.suffix in (".jsonl", ".ndjson"):
            with path.open(encoding="utf-8") as file:
                yield from (json.loads(line) for line in file if line.strip())
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from csv.DictReader(file)
        else:
            raise ReelspaceError(f"{path}: a list of pairs is .jsonl, .csv or .parquet.")
    except (OSError, ValueError) as error:
        raise ReelspaceError(f"{path}: cannot be read as a list of pairs ({error}).") from None


# Worlds.

Fault = Literal["", "wrong", "still", "junk", "copy"]


@dataclass(frozen=True)
class Drawn:
    """A drawn video and what was done to its pair.

    Attributes:
        said: scene that the caption is of: another one where the caption is wrong; `None`: it is no caption.
        fault: `""`, `wrong`, `still`, `junk` or `copy`.
        kind: of a caption, or of junk.
        stated: what the caption states.
    """

    id: str
    scene: Scene
    said: Scene | None
    fault: Fault
    kind: str
    text: str
    stated: Facts = frozenset()


JUNK = {
    "url": "watch more at https://www.example.com/v/{0:08x}",
    "file name": "VID_2021{0:04d}_{0:06d}.mp4",
    "camera": "DSC{0:05d}",
    "boilerplate": "Don't forget to like and subscribe to my channel! Link in bio",
    "placeholder": "untitled video",
    "stock": "Beautiful high quality stock footage in 4k resolution",
    "short": "clip {0}",
    "script": "Красивое видео о природе номер {0}",
    "hashtags": "#fyp #viral #foryou #trending{0}",
    "numbers": "{0:012d} 1920x1080 25fps",
}
_SAID = ("brief", "general", "temporal", "keywords")


def drawn(source: WorldsSource, seed: int) -> Iterator[Drawn]:
    """The drawn videos of a run, always the same for a seed."""
    if source.profile not in PROFILES:
        raise ReelspaceError(f"There is no profile “{source.profile}”; choose one of {', '.join(PROFILES)}.")
    profile = PROFILES[source.profile]
    others = scenes(seed + 1, profile)
    before: list[Drawn] = []
    for number, scene in enumerate(islice(scenes(seed, profile), source.count)):
        random = generator("synth worlds", seed, number)
        before.append(_faulty(source, f"{number:06d}", scene, next(others), before, random, profile))
        yield before[-1]


def _faulty(
    source: WorldsSource, id_: str, scene: Scene, other: Scene, before: list[Drawn], random: Random, profile: Profile
) -> Drawn:
    dice = float(random.random())
    kind = pick(random, _SAID)

    def told(fault: Fault, shown: Scene, of: Scene, said: Caption) -> Drawn:
        return Drawn(id_, shown, of, fault, kind, said.text, said.facts)

    for fault in ("wrong", "still", "junk", "copies"):
        share = getattr(source, fault)
        if dice < share:
            break
        dice -= share
    else:
        return told("", scene, scene, _said(scene, kind, random))
    if fault == "wrong":
        said = _said(other, kind, random)
        return told("wrong", scene, scene if said.true_of(scene) else other, said)
    if fault == "still":
        scene = stilled(scene)
        return told("still", scene, scene, _said(scene, kind, random))
    if fault == "copies" and before:
        first = pick(random, before)
        again = replace(first.scene, quantiser=min(first.scene.quantiser + 6, 44))
        return told("copy", again, again, _said(again, kind, random))
    kind = pick(random, tuple(JUNK))
    return Drawn(id_, scene, None, "junk", kind, JUNK[kind].format(int(random.integers(10_000))))


def _said(scene: Scene, kind: str, random: Random) -> Caption:
    """A caption as somebody would write it: of a picture in which nothing moves, not that nothing does."""
    acting = any(thing.acts for shot in scene.shots for thing in shot.things)
    return caption(scene, kind if acting or kind != "temporal" else "general", random)


def stilled(scene: Scene) -> Scene:
    """The scene with nothing moving: every thing and the camera rest where they begin."""
    shot = scene.shots[0]
    things = tuple(replace(thing, acts=()) for thing in shot.things)
    return replace(scene, shots=(replace(shot, things=things, camera=replace(shot.camera, acts=())),))


def at_rest(scene: Scene) -> bool:
    """Whether nothing moves in it, not even a cut."""
    shots = scene.shots
    return len(shots) == 1 and not shots[0].camera.acts and not any(thing.acts for thing in shots[0].things)


def _worlds(source: WorldsSource, work: Work) -> Iterator[Raw]:
    lines = []
    for made in drawn(source, work.config.seed):
        name = f"videos/{made.id}.mp4"
        if not (work.out / name).exists():
            write(film(made.scene), work.out / name)
        record = {"video": name, **asdict(replace(made, scene=None, said=None))}  # type: ignore[arg-type]
        record |= {"scene": made.scene.to_json(), "said": made.said.to_json() if made.said else None}
        record["stated"] = sorted(made.stated)
        lines.append(json.dumps(record, ensure_ascii=False))
        yield Raw(id=made.id, video=name, text=made.text, licence="Apache-2.0")
    write_text("\n".join(lines) + "\n", work.run / TRUTH)


def truths(run: Path) -> dict[str, Drawn]:
    """Video name → what is true of it, of a run on worlds.

    Raises:
        ReelspaceError: the run is of other videos.
    """
    path = run / TRUTH
    if not path.exists():
        raise ReelspaceError(f"{run} knows of no drawn videos; the oracle answers only for worlds.")
    found = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            data = json.loads(line)
            name = data.pop("video")
            scene, said = from_json(data.pop("scene")), data.pop("said")
            stated = frozenset(map(tuple, data.pop("stated")))
            found[name] = Drawn(**data, scene=scene, said=from_json(said) if said else None, stated=stated)
    return found
