"""The tiny model that `reelspace worlds train` makes, as captioner and judge of worlds.

It knows a few short questions and no JSON: each part of an answer is asked for in the words that it was taught, and the
answers are put into the form that is wanted. What it says, right or wrong, is its own.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelspace.embed.base import fingerprint
from reelspace.embed.qwen_vl.pixels import normalised, patchified, resized
from reelspace.media.policy import Centres
from reelspace.synth.config import TinyMllm
from reelspace.synth.mllm import MllmError, Reply, Request, Show
from reelspace.synth.mllm.desk import settled
from reelspace.worlds.sample import generator, pick
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.lessons import EDGE, FRAMES, TELL, matched
from reelspace.worlds.tiny.model import CUT, load
from reelspace.worlds.tiny.tokens import Turn

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

_STYLES = {"concise": "brief", "spatio-temporal": "detailed", "abstract": "theme", "keywords": "keywords"}
_DWELLS = {"temporal": "temporal", "spatial": "spatial", "other": "theme"}


class Tiny:
    """Answers in the words of worlds."""

    together = 1

    def __init__(self, config: TinyMllm) -> None:
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise MllmError("The tiny model needs torch and transformers: pip install 'reelspace[torch]'.") from None
        self._config, self._taken, self._given = config, 0, 0

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return load(Path(self._config.model))

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(kind="tiny", version=1, revision=self.revision, most=self._config.max_tokens)

    @cached_property
    def revision(self) -> str:
        """What was given as such, or a hash of the weights."""
        folder = Path(self._config.model)
        folder = folder / "model" if (folder / "model").is_dir() else folder
        if self._config.revision:
            return self._config.revision
        if not (folder / "model.safetensors").exists():
            raise MllmError(f"{folder} holds no model; give the folder that `reelspace worlds train` wrote.")
        with (folder / "model.safetensors").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:12]

    def close(self) -> None:
        pass

    def ask(self, request: Request) -> Reply:
        self._taken = self._given = 0
        if request.task == "verify":
            likely = self._yes(request.shows[-1], str(request.slots["text"]))
            likelihoods = {"Yes": likely, "No": 1 - likely}
            return self._reply("Yes" if likely > 0.5 else "No", likelihoods)
        return self._reply(settled(getattr(self, f"_{request.task}")(request)), {})

    def _reply(self, text: str, likelihoods: dict[str, float]) -> Reply:
        return Reply(text, Path(self._config.model).name, self.revision, self._taken, self._given, likelihoods)

    def _captions(self, request: Request) -> dict[str, Any]:
        video = request.shows[0]
        kinds = {**_STYLES, "partial": _DWELLS[request.slots["profile"]]}
        if kinds["partial"] == kinds["abstract"]:
            kinds["partial"] = pick(generator("tiny partial", request.seed), ("object", "camera", "temporal"))
        return {"captions": [{"style": s, "text": self._say(video, TELL[kind])} for s, kind in kinds.items()]}

    def _frame(self, request: Request) -> dict[str, Any]:
        looks = self._say(request.shows[0], TELL["object"])
        return {"caption": f"{looks} {self._say(request.shows[1], TELL['temporal'])}"}

    def _from_picture(self, request: Request) -> dict[str, Any]:
        reference, target = request.shows
        word = "CLIP" if reference.moving else "IMAGE"
        looks = self._say(reference, TELL["object"])
        named = re.search(r"\b(red|orange|yellow|green|blue|purple|white|black)\b", looks)
        attribute = named[1] if named else next(iter(looks.rstrip(".").split()[-1:]), "thing")
        doing = self._say(target, TELL["temporal"]).rstrip(".")
        verb = re.sub(r"^(?:First |first )?[Tt]he (?:\w+ ){1,2}?(?=\w+s\b)", "", doing)
        return {"query": f"The {attribute} one FROM REFERENCE {word} {verb}", "attribute": attribute}

    def _from_clip(self, request: Request) -> dict[str, Any]:
        same = request.shows[0].source.path == request.shows[1].source.path
        relation = "temporal continuation" if same else "minor action variation"
        return {**self._from_picture(request), "relation": relation}

    # -- the model -----------------------------------------------------------------------------------------------

    def _inputs(self, show: Show, ask: str) -> dict[str, torch.Tensor]:
        import torch

        _, writer = self._loaded
        rows, grid = patchified(normalised(resized(_frames(show), EDGE, EDGE)), CUT)
        kind = tokens.VIDEO if show.moving else tokens.IMAGE
        row = writer.write(tokens.seen(kind, len(rows) // CUT.merge**2), "", (Turn(ask, ""),))
        ids = torch.tensor([row.ids[: row.asked[0] + 1]])
        pixels, size = ("pixel_values_videos", "video_grid_thw") if show.moving else ("pixel_values", "image_grid_thw")
        self._taken += ids.shape[1]
        return {
            **{"input_ids": ids, "attention_mask": torch.ones_like(ids), pixels: torch.from_numpy(rows)},
            **{
                size: torch.tensor([grid]),
                "mm_token_type_ids": (ids == tokens.IMAGE).long() + 2 * (ids == tokens.VIDEO),
            },
        }

    def _say(self, show: Show, ask: str) -> str:
        """What it says greedily."""
        import torch

        model, writer = self._loaded
        inputs = self._inputs(show, ask)
        with torch.inference_mode():
            ids = model.generate(**inputs, max_new_tokens=min(self._config.max_tokens, 160), do_sample=False)
        said = ids[0, inputs["input_ids"].shape[1] :].tolist()
        self._given += len(said)
        return str(writer.tokenizer.decode([token for token in said if token not in (tokens.END, tokens.PAD)])).strip()

    def _yes(self, show: Show, text: str) -> float:
        """How likely it is to say Yes and not No."""
        import torch

        model, writer = self._loaded
        with torch.inference_mode():
            logits = model(**self._inputs(show, matched(text))).logits[0, -1]
        self._given += 1
        yes, no = (float(logits[writer.tokens(word)[0]]) for word in ("Yes", "No"))
        return 1 / (1 + float(np.exp(no - yes)))


def _frames(show: Show) -> NDArray[np.uint8]:
    """As many frames as it was taught with."""
    if not show.moving or len(show.frames) == FRAMES:
        return show.frames
    step = float(np.median(np.diff(show.times))) if len(show.times) > 1 else 0.04
    chosen = Centres(FRAMES).choose(show.times, float(show.times[0]) - step / 2, float(show.times[-1]) + step / 2)
    return show.frames[chosen]
