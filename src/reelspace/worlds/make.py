"""A folder of videos with their truth: the same bytes for the same seed, finished by running it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from reelspace.errors import ReelspaceError
from reelspace.worlds.captions import captions, questions
from reelspace.worlds.edits import match
from reelspace.worlds.film import film, write
from reelspace.worlds.sample import PROFILES, Profile, Random, Split, generator, scenes, split_of
from reelspace.worlds.scene import GENERATOR, Scene, truth

MANIFEST = "worlds.json"
ROWS = "scenes.jsonl"


def make(
    folder: Path,
    seed: int,
    count: int,
    profile: str = "full",
    split: Split | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Writes `videos/000000.mp4` … and `scenes.jsonl`, a line a video: scene, truth by frame, captions, questions.

    What an interrupted run left is used; the lines are written last. More may be asked for later, with the same
    seed, profile and split.

    Args:
        folder: made if it is not there.
        count: how many videos the folder is to hold.
        profile: a name in `PROFILES`.
        progress: is told how many videos are there.

    Raises:
        ReelspaceError: no such profile, or the folder holds other worlds, or more of these.
    """
    if profile not in PROFILES:
        raise ReelspaceError(f"There is no profile “{profile}”; choose one of {', '.join(PROFILES)}.")
    _claim(folder, {"generator": GENERATOR, "seed": seed, "profile": profile, "split": split}, count)
    rows = []
    for number, scene in enumerate(islice(scenes(seed, PROFILES[profile], split), count)):
        name = f"videos/{number:06d}.mp4"
        if not (folder / name).exists():
            write(film(scene), folder / name)
        row = describe(scene, generator("words", seed, number), PROFILES[profile])
        rows.append(json.dumps({"video": name, **row}, ensure_ascii=False))
        progress(number + 1)
    write(("\n".join(rows) + "\n").encode(), folder / ROWS)


def describe(scene: Scene, random: Random, profile: Profile) -> dict[str, Any]:
    """All that a line says of a video, but its name."""
    matches = (match(scene, kind, random, profile) for kind in ("brief", "general", "detailed"))
    return {
        "key": scene.key,
        "split": split_of(scene),
        "duration": scene.duration,
        "captions": {kind: said.text for kind, said in captions(scene, random).items()},
        "questions": [vars(question) for question in questions(scene, random)],
        "matches": [vars(pair) for pair in matches],
        "truth": list(truth(scene)),
        "scene": scene.to_json(),
    }


def _claim(folder: Path, what: dict[str, Any], count: int) -> None:
    """Sees that the folder is ours, and notes what it is for."""
    path = folder / MANIFEST
    if path.exists():
        held = json.loads(path.read_text())
        if {key: held.get(key) for key in what} != what:
            raise ReelspaceError(f"{folder} holds other worlds ({path.read_text().strip()}); choose an empty folder.")
        if held["count"] > count:
            raise ReelspaceError(f"{folder} holds {held['count']} videos of these; ask for at least as many.")
    elif folder.exists() and any(folder.iterdir()):
        raise ReelspaceError(f"{folder} is not empty and holds no worlds; choose an empty folder.")
    for part in folder.glob("**/.*.part"):  # what a killed run was writing
        part.unlink()
    write((json.dumps(what | {"count": count}) + "\n").encode(), path)
