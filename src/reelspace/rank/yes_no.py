"""“Does the video match? Yes or No.”: a video language model as a judge of pairs.

The score is P(yes): what the model gives to “Yes” and “yes” as its next token, out of what it gives to these and to
“No” and “no”. With z the logits where the answer begins, in float32,

    P(yes) = (e^z[Yes] + e^z[yes]) / (e^z[Yes] + e^z[yes] + e^z[No] + e^z[no])

A word that is not one token of the model's is left out of both sums. Nothing is generated.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace import embed
from reelspace.embed.base import fingerprint
from reelspace.embed.presets import presets
from reelspace.embed.qwen_vl.readout import FILE as READOUT
from reelspace.embed.qwen_vl.readout import Readout
from reelspace.embed.served.address import is_address
from reelspace.errors import EncodeError, ModelError, ReelspaceError
from reelspace.item import Item
from reelspace.media.policy import Sampling

if TYPE_CHECKING:
    import torch
    from sentence_transformers import CrossEncoder

    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder
    from reelspace.embed.qwen_vl.inputs import Prepared

YES, NO = ("Yes", "yes"), ("No", "no")
BUDGET = 100  # VidVec looks at as many before it is tuned
FILE = "yes-no.json"
"""Beside the weights of a model that brings its own question along: keys of a readout."""
WORTH = 8
"""Tokens from which a prefix is worth keeping."""

_ASKED = "Does the {kind} match the sentence? Respond in a single word - Yes or No."
# What is asked for stands first, so that all candidates of a query share it.
QUESTION: Mapping[str, Any] = {
    "user": {
        "video+text": "Sentence: {text}\n{video}" + _ASKED.format(kind="video"),
        "image+text": "Sentence: {text}\n{image}" + _ASKED.format(kind="picture"),
        "video+image+text": "Picture: {image}\nSentence: {text}\n{video}"
        "Does the video match the picture, changed as the sentence says? Respond in a single word - Yes or No.",
        "video+image": "Picture: {image}\n{video}Does the video show the same as the picture? "
        "Respond in a single word - Yes or No.",
    },
    "appended": "",
}
"""Any model's that talks: changes to its readout."""
# As it was taught (worlds/tiny/lessons.py), video first: there is nothing its candidates could share.
TINY: Mapping[str, Any] = {"user": {"video+text": "{video}Does this match? {text} Yes or No?"}, "appended": ""}
QUESTIONS: Mapping[str, Mapping[str, Any]] = {"tiny": TINY, "<|user|>{user}<|assistant|>": TINY}
"""Models, by name or by the template of their contract, that were taught another."""
CHAT = "gve-3b"
"""Whose template folders and repositories without a contract are talked to in: that of all Qwen-VL models."""


class YesNo:
    """Any Qwen-VL model as a `PairScorer`.

    Args:
        name: the name it is loaded by.
        judge: the model, with the question as its readout (see `load`).
        budget: most candidates of a call.
        share: run what the prompts of a call begin with in common once, and keep it for all of them.
    """

    def __init__(self, name: str, judge: QwenVLEmbedder, budget: int = BUDGET, share: bool = True) -> None:
        self.name, self.budget, self.share = name, budget, share
        self._judge = judge

    @property
    def sampling(self) -> Sampling:
        """How it takes frames from a video."""
        sampling: Sampling = self._judge.sampling
        return sampling

    @cached_property
    def modalities(self) -> frozenset[str]:
        """Queries it takes: what a question has besides the video."""
        asked = {tuple(kind.split("+")) for kind in self._judge.readout.user}
        return frozenset("+".join(parts[1:]) for parts in asked if parts[0] == "video" and len(parts) > 1)

    @cached_property
    def fingerprint(self) -> str:
        """Of the model, its question, its frame policy and the words that are answers."""
        return fingerprint(judge=self._judge.fingerprint, yes=YES, no=NO)

    @property
    def contract(self) -> dict[str, Any]:
        """All that decides a score."""
        return {**self._judge.contract, "yes": list(YES), "no": list(NO)}

    def score(self, query: Item, candidates: Sequence[Item]) -> NDArray[np.float32]:
        """P(yes) float32 `[n]`: see the module.

        Raises:
            ModelError: there are more candidates than `budget`, or a question cannot be asked of such a query.
            EncodeError: some candidates could not be read; it carries the others' scores as `[n, 1]`.
        """
        try:
            return _probability(self.log_odds(query, candidates))
        except EncodeError as error:
            raise EncodeError(error.failures, error.positions, _probability(error.vectors)) from None

    def log_odds(self, query: Item, candidates: Sequence[Item]) -> NDArray[np.float32]:
        """The logarithm of P(yes) / P(no), float32 `[n]`: it tells apart what a probability rounds to 1.

        Raises:
            As `score`.
        """
        if len(candidates) > self.budget:
            raise ModelError(f"{self.name} looks at {self.budget} candidates a query at most, not {len(candidates)}.")
        if query.modality not in self.modalities:
            raise ModelError(f"{self.name} judges {', '.join(sorted(self.modalities))}, not {query.modality}.")
        prepared, failures = self._prepared(query, candidates)
        odds = np.zeros(len(candidates), dtype=np.float32)
        self._run(prepared, odds)
        if failures:
            good = sorted(prepared)
            raise EncodeError(failures, good, odds[good][:, None])
        return odds

    def cross_encoder(self) -> CrossEncoder:
        """The judge as sentence-transformers' `CrossEncoder`: `predict([(query, candidate), …])` gives P(yes).

        A pair's sides are `Item`s, or whatever sentence-transformers takes for them. It is saved, loaded and trained
        as any other.
        """
        from sentence_transformers import CrossEncoder

        from reelspace.rank.judge import Judge

        module = self._judge.module
        judge = Judge(module.backbone, module.tokenizer, module.readout, module.padding_side)
        return CrossEncoder(modules=[judge], device=self._judge.device)

    # Inputs

    def _prepared(self, query: Item, candidates: Sequence[Item]) -> tuple[dict[int, Prepared], dict[int, str]]:
        """Inputs by position, and why some have none."""
        from reelspace.embed.qwen_vl.embedder import ahead

        if not candidates:
            return {}, {}
        prepare = self._judge.module.preparer
        made: dict[int, Prepared] = {}
        failures: dict[int, str] = {}
        waiting = ahead(lambda candidate: prepare(together(query, candidate), "candidate"), candidates)
        for position, future in enumerate(waiting):
            try:
                made[position] = future.result()
            except (ReelspaceError, OSError) as error:
                failures[position] = str(error)
        return made, failures

    # The model

    def _run(self, prepared: Mapping[int, Prepared], odds: NDArray[np.float32]) -> None:
        """Writes the log-odds of each position."""
        import torch

        from reelspace.embed.qwen_vl import device as devices
        from reelspace.embed.qwen_vl.embedder import batches

        if not prepared:
            return
        module = self._judge.module
        budget = devices.budget(self._judge.device)
        with torch.inference_mode():
            kept = self._kept(list(prepared.values()))
            read = 0 if kept is None else kept[0]
            rest: Any = [(position, one.ids[read:]) for position, one in prepared.items()]  # what each batch is to read
            for batch in batches(rest, budget):
                features = module.collate([prepared[position] for position, _ in batch])
                features = {name: value.to(self._judge.device) for name, value in features.items()}
                if kept is None:
                    states = module.states(features, [(None, True)])[0]
                else:
                    states = _continued(module, features, *kept)
                odds[[position for position, _ in batch]] = leaning(module, states).float().cpu().numpy()

    def _kept(self, prepared: Sequence[Prepared]) -> tuple[int, Any] | None:
        """How many tokens all prompts begin with in common, and the cache of having read them; `None`: not worth it."""
        import torch

        length = shared(prepared)
        module = self._judge.module
        placed = hasattr(module.backbone.model, "get_rope_index") and module.preparer.family.typed
        if not (self.share and placed) or len(prepared) < 2 or length < WORTH:
            return None
        ids = torch.from_numpy(prepared[0].ids[None, :length]).to(self._judge.device)
        positions = torch.arange(length, device=ids.device).expand(3, 1, -1)
        out = module.backbone.model(
            input_ids=ids, attention_mask=torch.ones_like(ids), position_ids=positions, use_cache=True
        )
        return length, getattr(out, "cache", None) or out.past_key_values


def load(name: str, budget: int = BUDGET, **options: Any) -> YesNo:
    """The judge of that name: any Qwen-VL model that `reelspace.load` knows, asked instead of read.

    Args:
        name: a preset, a folder of weights, or `owner/name` on the hub. A folder with `yes-no.json` brings its own
            question; who has no contract is talked to as any Qwen-VL model.
        budget: most candidates of a query.
        options: as of `reelspace.load`: `device`, `dtype`, and keys of the readout.

    Raises:
        ModelError: there is none, or it is no model that can be asked.
    """
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

    own, contract = Path(name) / FILE, Path(name) / READOUT
    template = Readout.read(Path(name)).template if contract.is_file() else ""
    question = QUESTIONS.get(name) or QUESTIONS.get(template) or QUESTION
    if own.is_file():
        try:
            question = {"appended": "", **json.loads(own.read_text("utf-8"))}
        except ValueError as error:
            raise ModelError(f"{own} is no JSON: {error}") from None
    asked = {**question, "layer": None, "norm": True, "position": -1, **options}
    if not {"contract", "template"} & set(asked) and _without_contract(name):
        asked["contract"] = CHAT
    judge = embed.load(name, **asked)
    if not isinstance(judge, QwenVLEmbedder):
        raise ModelError(f"{name} is no model that can be asked: it gives vectors and no words.")
    return YesNo(name, judge, budget)


def _without_contract(name: str) -> bool:
    """Whether it is a folder or repository that says nothing of how it is to be talked to."""
    if name in presets():
        return False
    folder = Path(name)
    return not (folder / READOUT).is_file() if folder.is_dir() else "/" in name and not is_address(name)


def together(query: Item, candidate: Item) -> Item:
    """Query and candidate as one item.

    Raises:
        ModelError: both have a part of the same kind.
    """
    both = set(query.parts) & set(candidate.parts)
    if both:
        raise ModelError(f"query and candidate both have {' and '.join(sorted(both))}; one prompt can hold one.")
    parts = {part: getattr(item, part) for item in (query, candidate) for part in item.parts}
    return Item(**parts)


def shared(prepared: Sequence[Prepared]) -> int:
    """How many tokens all prompts begin with in common: those of text alone, and never a whole prompt."""
    first = prepared[0]
    length = min(map(len, prepared)) - 1
    for one in prepared:
        differs = np.flatnonzero((one.ids[:length] != first.ids[:length]) | (one.kinds[:length] != 0))
        length = int(differs[0]) if len(differs) else length
    return length


def leaning(module: Any, states: torch.Tensor) -> torch.Tensor:
    """Log-odds of Yes against No from the states where the answer begins: float `[n, d]` → `[n]`."""
    import torch

    yes, no = answers(module.tokenizer)
    head = module.backbone.get_output_embeddings()
    logits = torch.nn.functional.linear(states, head.weight[[*yes, *no]]).float()
    if getattr(head, "bias", None) is not None:
        logits = logits + head.bias[[*yes, *no]].float()
    return torch.logsumexp(logits[:, : len(yes)], dim=1) - torch.logsumexp(logits[:, len(yes) :], dim=1)


def answers(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Ids of the tokens that mean yes, and of those that mean no.

    Raises:
        ModelError: the tokenizer has no single token for one of the answers.
    """
    found = []
    for words in (YES, NO):
        ids = [tokenizer.encode(word, add_special_tokens=False) for word in words]
        found.append([one[0] for one in ids if len(one) == 1])
        if not found[-1]:
            raise ModelError(f"No token of this model is {' or '.join(words)}: it cannot be asked that way.")
    return found[0], found[1]


def _continued(module: Any, features: Mapping[str, torch.Tensor], length: int, kept: Any) -> torch.Tensor:
    """The state where each answer begins `[n, d]`, what the prompts share being read already. Padding is on the right.

    Positions are those of the whole prompts: a video's depend on what stands before it.
    """
    import torch

    inner = module.backbone.model
    mask, ids = features["attention_mask"], features["input_ids"]
    visual = {name: features[name] for name in _VISUAL if name in features}
    grids = {name: value for name, value in visual.items() if not name.startswith("pixel")}
    if "image_grid_thw" in grids or "video_grid_thw" in grids:
        positions, _ = inner.get_rope_index(
            ids, mm_token_type_ids=features["mm_token_type_ids"], attention_mask=mask, **grids
        )
    else:
        positions = (mask.cumsum(-1) - 1).clamp(min=0).expand(3, *ids.shape)
    cache = copy.deepcopy(kept)
    cache.batch_repeat_interleave(len(ids))
    parameters = inspect.signature(inner.forward).parameters
    out = inner(
        input_ids=ids[:, length:],
        attention_mask=mask,
        position_ids=positions[..., length:],
        mm_token_type_ids=features["mm_token_type_ids"][:, length:],
        use_cache=True,
        **visual,
        **{"cache" if "cache" in parameters else "past_key_values": cache},
    )
    last = mask.sum(dim=1) - 1 - length
    state: torch.Tensor = out.last_hidden_state[torch.arange(len(ids), device=ids.device), last]
    return state


_VISUAL = ("pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw", "second_per_grid_ts")


def _probability(odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / (1 + e^−odds), without overflow."""
    small = np.exp(-np.abs(odds.astype(np.float64)))
    return np.where(odds >= 0, 1 / (1 + small), small / (1 + small)).astype(np.float32)
