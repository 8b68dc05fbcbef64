"""Training: the eyes; then the next words of true answers, where texts go wrong, and which caption is whose."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelspace.errors import ReelspaceError
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.batches import SEEN, Batch, Sizes, batch
from reelspace.worlds.tiny.exam import exam
from reelspace.worlds.tiny.eyes import Eyes, opened
from reelspace.worlds.tiny.lessons import Plan
from reelspace.worlds.tiny.model import READOUT, Shape, build, looked, quickened
from reelspace.worlds.tiny.steps import Pace, Steps, keep, numbered
from reelspace.worlds.tiny.tokens import Writer

if TYPE_CHECKING:
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

CURVES = "curves.jsonl"
STATE = "state.pt"


@dataclass(frozen=True, kw_only=True)
class Recipe(Pace):
    """All that decides what is learnt, as it stands in the recipe's TOML file.

    Attributes:
        eyes: how the vision tower is taught first; it is left alone afterwards.
        temperature: of the contrastive loss.
        layer: the layer after which the contrastive loss reads embeddings: those behind it are left to the words. None:
            the last.
        wrong: weight of hearing where a text goes wrong.
        exam: scenes of each exam.
        vocabulary: worlds that the tokenizer is learnt from.
    """

    plans: tuple[Plan, ...]
    eyes: Eyes
    shape: Shape = field(default_factory=Shape)
    sizes: Sizes = field(default_factory=Sizes)
    temperature: float = 0.04
    layer: int | None = None
    wrong: float = 0.5
    exam: int = 96
    vocabulary: int = 3000

    def plan(self, step: int) -> Plan:
        """The plan that a step belongs to."""
        return next(plan for plan in self.plans if step < plan.until)


def read(path: Path) -> Recipe:
    """A recipe from its TOML file.

    Raises:
        ReelspaceError: something in it is not known.
    """
    data = tomllib.loads(path.read_text())
    try:
        plans = tuple(Plan(**row) for row in data.pop("plan"))
        shape, sizes = Shape(**data.pop("shape", {})), Sizes(**data.pop("batch", {}))
        rounds = tuple((int(steps), float(share)) for steps, share in data.pop("rounds", ()))
        made = Recipe(plans=plans, eyes=Eyes(**data.pop("eyes")), shape=shape, sizes=sizes, rounds=rounds, **data)
    except (TypeError, KeyError, ValueError) as fault:
        raise ReelspaceError(f"{path} is no recipe: {fault}.") from fault
    if made.layer is not None and not 0 <= made.layer <= made.shape.layers:
        raise ReelspaceError(f"{path}: there is no layer {made.layer} of {made.shape.layers}.")
    if made.plans[-1].until != made.steps or (rounds and sum(steps for steps, _ in rounds) != made.steps):
        raise ReelspaceError(f"{path}: its plans and its rounds must end with step {made.steps}.")
    return made


def train(recipe: Recipe, folder: Path, seed: int, say: Callable[[str], None] = print) -> None:
    """Trains a model and writes it to `folder/model`, with the curves beside it. An interrupted run goes on.

    Raises:
        ReelspaceError: the folder holds the run of another recipe or seed.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    writer = Writer(_tokenizer(folder, recipe.vocabulary))
    model = build(recipe.shape, seed)
    quickened(model)
    model.train()
    say(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    opened(model.model.visual, recipe.shape, recipe.eyes, folder, seed, say)
    _claim(folder, {"seed": seed, "recipe": asdict(recipe)})
    model.model.visual.requires_grad_(False)
    judge = torch.nn.Linear(recipe.shape.hidden, 1)  # hears where a text goes wrong; dropped afterwards
    steps = Steps(recipe, model, judge)
    step = _resumed(folder, model, judge, steps)
    say(f"Step {step} of {recipe.steps}")
    began, done = time.monotonic(), step
    for number, made in numbered(_Made(recipe, writer, model.model.visual, seed), step, recipe.steps):
        loss, shown = _loss(model, judge, made, recipe, recipe.plan(number))
        steps.take(loss, number)
        if (number + 1) % recipe.every == 0 or number + 1 == recipe.steps:
            pace = (number + 1 - done) / (time.monotonic() - began)
            row = {"step": number + 1, **shown, **exam(model, writer, count=recipe.exam)}
            _save(folder, row, model, judge, steps, number + 1)
            say(f"{json.dumps(row)} {pace:.2f} steps/s")
            began, done = time.monotonic(), number + 1
    publish(model, folder / "model", recipe.layer)
    tokens.save(writer.tokenizer, folder / "model")


def publish(model: Qwen2_5_VLForConditionalGeneration, folder: Path, layer: int | None) -> None:
    """The model as transformers loads it, float16 in safetensors, and after which layer embeddings are read from it."""
    import copy

    import torch

    from reelspace.embed.qwen_vl.readout import Readout

    copy.deepcopy(model).to(torch.float16).save_pretrained(folder)
    Readout.of({**READOUT, "layer": layer}).write(folder)


def _tokenizer(folder: Path, worlds: int) -> Any:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.exists():
        tokens.learnt(tokens.samples(worlds)).save(str(path))
    return Tokenizer.from_file(str(path))


def _claim(folder: Path, what: dict[str, Any]) -> None:
    path, text = folder / "run.json", json.dumps(what, indent=1) + "\n"
    if path.exists() and path.read_text() != text:
        raise ReelspaceError(f"{folder} holds the run of another recipe or seed; choose another folder.")
    path.write_text(text)


def _resumed(folder: Path, model: Qwen2_5_VLForConditionalGeneration, judge: torch.nn.Module, steps: Steps) -> int:
    import torch

    path = folder / STATE
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    judge.load_state_dict(state["judge"])
    steps.restore(state["steps"])
    step = int(state["step"])
    rows = [row for row in (folder / CURVES).read_text().splitlines() if json.loads(row)["step"] <= step]
    (folder / CURVES).write_text("".join(f"{row}\n" for row in rows))
    return step


def _save(
    folder: Path,
    row: dict[str, Any],
    model: Qwen2_5_VLForConditionalGeneration,
    judge: torch.nn.Module,
    steps: Steps,
    step: int,
) -> None:
    """Curve first, then the state, whole or not at all: what is resumed from has its curve."""
    with (folder / CURVES).open("a") as file:
        file.write(json.dumps(row) + "\n")
    state = {"model": model.state_dict(), "judge": judge.state_dict(), "steps": steps.state(), "step": step}
    keep(state, folder / STATE)


@dataclass(frozen=True)
class _Made:
    """The batches of a run by number, with what the eyes make of the pixels in their stead: they learn no more."""

    recipe: Recipe
    writer: Writer
    visual: torch.nn.Module
    seed: int

    def __call__(self, step: int) -> Batch:
        import torch

        torch.set_num_threads(1)
        made = batch(self.writer, self.recipe.plan(step), self.recipe.sizes, "train", self.seed, step)
        with torch.no_grad():
            for pixels, grid in SEEN.values():
                if pixels in made.inputs:
                    made.inputs[pixels] = looked(self.visual, made.inputs[pixels], made.inputs[grid])
        return made


def _loss(
    model: Qwen2_5_VLForConditionalGeneration, judge: torch.nn.Linear, made: Batch, recipe: Recipe, plan: Plan
) -> tuple[torch.Tensor, dict[str, float]]:
    """What a step goes down, and its parts."""
    layers = _states(model, made.inputs, made.turns)
    states = layers[-1]
    parts = {"words": next_words(model, states, made), "wrong": _heard_wrong(judge, states, made.wrong)}
    weights = {"wrong": recipe.wrong, "contrast": plan.contrast}
    if made.pairs is not None:
        videos, texts = (normed(model, states, recipe.layer) for states in (layers, _states(model, made.pairs.inputs)))
        videos, texts = at(videos[: len(made.pairs.videos)], made.pairs.videos), at(texts, made.pairs.readout)
        parts["contrast"] = contrastive(videos, texts, made.pairs.alike, recipe.temperature)
    loss = parts["words"] + sum(weights[name] * part for name, part in parts.items() if name != "words")
    return loss, {name: round(part.item(), 4) for name, part in parts.items()}


def _states(
    model: Qwen2_5_VLForConditionalGeneration, inputs: dict[str, torch.Tensor], turns: torch.Tensor | None = None
) -> tuple[torch.Tensor, ...]:
    """The states `[n, length, d]` before the first layer and after each, the last of them normed; given visual tokens
    in the place of pixels. Turns are each on their own.
    """
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    pixels = {medium: names[0] for medium, names in SEEN.items()}
    given: dict[str, Any] = {name: value for name, value in inputs.items() if name not in pixels.values()}
    seen = {
        medium: BaseModelOutputWithPooling(pooler_output=(inputs[name],))
        for medium, name in pixels.items()
        if name in inputs
    }
    if turns is not None:
        positions, _ = model.model.get_rope_index(**given)
        given["position_ids"] = apart(positions, turns)
        given["attention_mask"] = {"full_attention": visible(turns, given["attention_mask"])}
    made = model.model(**given, mm_encoder_outputs=seen, output_hidden_states=True)
    states: tuple[torch.Tensor, ...] = made.hidden_states
    return states


def normed(
    model: Qwen2_5_VLForConditionalGeneration, layers: Sequence[torch.Tensor], layer: int | None
) -> torch.Tensor:
    """The states after a layer (None: the last) as the model's head would take them."""
    if layer is None or layer == len(layers) - 1:
        return layers[-1]
    states: torch.Tensor = model.model.language_model.norm(layers[layer])
    return states


def apart(positions: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Positions `[3, n, length]` in which every turn `[n, length]` begins where the first does."""
    import torch

    most = torch.iinfo(positions.dtype).max
    begins = torch.full((len(turns), int(turns.max()) + 1), most, dtype=positions.dtype)
    begins.scatter_reduce_(1, turns, positions[0], "amin")
    late = (begins - begins[:, 1:2]).gather(1, turns)
    return positions - torch.where(turns > 0, late, 0)


def visible(turns: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """What is added to attention, float32 `[n, 1, length, length]`: a token sees what is before the turns, and its own.

    Args:
        turns: int64 `[n, length]`, 0 before the turns.
        mask: `[n, length]`: 0 where a row is padded.
    """
    import torch

    length = turns.shape[1]
    own = (turns[:, None, :] == 0) | (turns[:, None, :] == turns[:, :, None])
    seen = own & mask.bool()[:, None, :] & torch.ones(length, length, dtype=torch.bool).tril()
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)[:, None]


def _heard_wrong(judge: torch.nn.Linear, states: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
    """Whether something false has been said, by each token of the texts that are judged: mean binary cross-entropy."""
    from torch.nn import functional

    row, column = (wrong >= 0).nonzero(as_tuple=True)
    return functional.binary_cross_entropy_with_logits(
        judge(states[row, column])[:, 0], wrong[row, column].float(), reduction="sum"
    ) / max(1, len(row))


def at(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The state of each row `[n, length, d]` at its position `[n]`, unit length: `[n, d]`."""
    import torch

    return torch.nn.functional.normalize(states[torch.arange(len(states)), positions].float(), dim=-1)


def next_words(model: Qwen2_5_VLForConditionalGeneration, states: torch.Tensor, made: Batch) -> torch.Tensor:
    """Weighted mean negative log-likelihood of the answers' tokens."""
    import torch

    weights = made.weights[:, 1:]
    row, column = weights.nonzero(as_tuple=True)
    logits = model.lm_head(states[row, column]).float()
    losses = torch.nn.functional.cross_entropy(logits, made.inputs["input_ids"][row, column + 1], reduction="none")
    chosen = weights[row, column]
    return (losses * chosen).sum() / chosen.sum()


def contrastive(videos: torch.Tensor, texts: torch.Tensor, alike: torch.Tensor, temperature: float) -> torch.Tensor:
    """Symmetric InfoNCE of unit rows `[pairs, d]` and `[captions, d]`; captions beyond the pairs are nobody's.

    A caption that is true of another's video is no negative of it.
    """
    import torch

    table = videos @ texts.T / temperature
    own = torch.eye(*table.shape, dtype=torch.bool)
    table = table.masked_fill(alike & ~own, -1e4)
    target = torch.arange(len(videos))
    there, back = (torch.nn.functional.cross_entropy(side, target) for side in (table, table[:, : len(videos)].T))
    return (there + back) / 2
