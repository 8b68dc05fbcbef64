"""Training: next words of true answers, and in its first part which caption belongs to which video."""

from __future__ import annotations

import json
import math
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelspace.errors import ReelspaceError
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.batches import Batch, Plan, Sizes, batch
from reelspace.worlds.tiny.exam import exam
from reelspace.worlds.tiny.model import Shape, build
from reelspace.worlds.tiny.tokens import Writer

if TYPE_CHECKING:
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

CURVES = "curves.jsonl"
STATE = "state.pt"


@dataclass(frozen=True)
class Recipe:
    """All that decides what is learnt, as it stands in the recipe's TOML file.

    Attributes:
        steps: optimiser steps.
        rate: highest learning rate; it rises for `warmup` steps, and falls to nothing over the last part `cooldown`.
        temperature: of the contrastive loss.
        every: steps between two exams, and between two saved states.
        exam: scenes of each exam.
        vocabulary: worlds that the tokenizer is learnt from.
    """

    plans: tuple[Plan, ...]
    shape: Shape = field(default_factory=Shape)
    sizes: Sizes = field(default_factory=Sizes)
    steps: int = 4000
    rate: float = 2e-3
    muon: float = 0.0
    warmup: int = 100
    cooldown: float = 0.4
    decay: float = 0.02
    temperature: float = 0.04
    every: int = 200
    exam: int = 96
    vocabulary: int = 3000

    def plan(self, step: int) -> Plan:
        """The plan that a step belongs to."""
        return next(plan for plan in self.plans if step < plan.until * self.steps)

    def factor(self, step: int) -> float:
        """The learning rate of a step as a share of the highest."""
        left = (self.steps - step) / (self.steps * self.cooldown)
        return min(1.0, (step + 1) / self.warmup, left)


def read(path: Path) -> Recipe:
    """A recipe from its TOML file.

    Raises:
        ReelspaceError: something in it is not known.
    """
    data = tomllib.loads(path.read_text())
    try:
        plans = tuple(Plan(**row) for row in data.pop("plan"))
        shape, sizes = Shape(**data.pop("shape", {})), Sizes(**data.pop("batch", {}))
        return Recipe(plans=plans, shape=shape, sizes=sizes, **data)
    except (TypeError, KeyError) as fault:
        raise ReelspaceError(f"{path} is no recipe: {fault}.") from fault


def train(recipe: Recipe, folder: Path, seed: int, say: Callable[[str], None] = print) -> None:
    """Trains a model and writes it to `folder/model`, with the curves beside it. An interrupted run goes on.

    Raises:
        ReelspaceError: the folder holds the run of another recipe or seed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _claim(folder, {"seed": seed, "recipe": asdict(recipe)})
    writer = Writer(_tokenizer(folder, recipe.vocabulary))
    model = build(recipe.shape, seed)
    optimisers = _optimisers(model, recipe)
    step = _resumed(folder, model, optimisers)
    # On a CPU the plain attention's gradient costs a fraction of the fused one's at such lengths.
    model.set_attn_implementation("eager")
    model.train()
    say(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters; step {step} of {recipe.steps}")
    began, done = time.monotonic(), step
    for number, made in _batches(recipe, writer, seed, step):
        shown = _step(model, optimisers, made, recipe, number)
        if (number + 1) % recipe.every == 0 or number + 1 == recipe.steps:
            pace = (number + 1 - done) / (time.monotonic() - began)
            row = {"step": number + 1, **shown, **exam(model, writer, count=recipe.exam)}
            _save(folder, row, model, optimisers, number + 1)
            say(f"{json.dumps(row)} {pace:.2f} steps/s")
            began, done = time.monotonic(), number + 1
    publish(model, folder / "model")
    tokens.save(writer.tokenizer, folder / "model")


def publish(model: Qwen2_5_VLForConditionalGeneration, folder: Path) -> None:
    """The model as transformers loads it: float16 in safetensors."""
    import copy

    import torch

    copy.deepcopy(model).to(torch.float16).save_pretrained(folder)


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


def _optimisers(model: torch.nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """AdamW; with `muon`, Muon for the matrices inside the layers."""
    import torch

    inner = [
        weight
        for name, weight in model.named_parameters()
        if recipe.muon and weight.ndim == 2 and "embed" not in name and "lm_head" not in name
    ]
    chosen = set(map(id, inner))
    rest = [weight for weight in model.parameters() if id(weight) not in chosen]
    optimisers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=recipe.rate, betas=(0.9, 0.98), weight_decay=recipe.decay)
    ]
    if inner:
        optimisers.append(torch.optim.Muon(inner, lr=recipe.muon, weight_decay=recipe.decay))
    return optimisers


def _resumed(folder: Path, model: torch.nn.Module, optimisers: list[torch.optim.Optimizer]) -> int:
    import torch

    path = folder / STATE
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    for optimiser, held in zip(optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(held)
    step = int(state["step"])
    rows = [row for row in (folder / CURVES).read_text().splitlines() if json.loads(row)["step"] <= step]
    (folder / CURVES).write_text("".join(f"{row}\n" for row in rows))
    return step


def _save(
    folder: Path, row: dict[str, Any], model: torch.nn.Module, optimisers: list[torch.optim.Optimizer], step: int
) -> None:
    """Curve first, then the state, whole or not at all: what is resumed from has its curve."""
    import torch

    with (folder / CURVES).open("a") as file:
        file.write(json.dumps(row) + "\n")
    held = [optimiser.state_dict() for optimiser in optimisers]
    part = folder / f"{STATE}.part"
    torch.save({"model": model.state_dict(), "optimisers": held, "step": step}, part)
    part.replace(folder / STATE)


class _Batches:
    """The batches of a run by number, for a loader's worker."""

    def __init__(self, recipe: Recipe, writer: Writer, seed: int) -> None:
        self.recipe, self.writer, self.seed = recipe, writer, seed

    def __len__(self) -> int:
        return self.recipe.steps

    def __getitem__(self, step: int) -> Batch:
        return batch(self.writer, self.recipe.plan(step), self.recipe.sizes, "train", self.seed, step)


def _batches(recipe: Recipe, writer: Writer, seed: int, start: int) -> Iterator[tuple[int, Batch]]:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        _Batches(recipe, writer, seed),
        batch_size=None,
        sampler=range(start, recipe.steps),
        num_workers=1,
        prefetch_factor=4,
    )
    return zip(range(start, recipe.steps), loader, strict=True)


def _step(
    model: Qwen2_5_VLForConditionalGeneration,
    optimisers: list[torch.optim.Optimizer],
    made: Batch,
    recipe: Recipe,
    number: int,
) -> dict[str, float]:
    import torch

    plan = recipe.plan(number)
    for optimiser in optimisers:
        highest = recipe.muon if isinstance(optimiser, torch.optim.Muon) else recipe.rate
        for group in optimiser.param_groups:
            group["lr"] = highest * recipe.factor(number)
    with torch.autocast("cpu", torch.bfloat16):
        states = model.model(**made.inputs).last_hidden_state
        words = next_words(model, states, made)
        loss, shown = words, {"words": words.item()}
        if made.pairs is not None:
            videos = at(states[: len(made.pairs.videos)], made.pairs.videos)
            texts = at(model.model(**made.pairs.inputs).last_hidden_state, made.pairs.readout)
            contrast = contrastive(videos, texts, made.pairs.alike, recipe.temperature)
            loss, shown = loss + plan.contrast * contrast, shown | {"contrast": contrast.item()}
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimiser in optimisers:
        optimiser.step()
        optimiser.zero_grad()
    if not math.isfinite(loss.item()):
        raise ReelspaceError(f"The loss is {loss.item()} at step {number + 1}; lower the learning rate.")
    return {key: round(value, 4) for key, value in shown.items()}


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
    """Symmetric InfoNCE of paired unit rows; a caption that is true of another's video is no negative of it."""
    import torch

    table = videos @ texts.T / temperature
    own = torch.eye(len(videos), dtype=torch.bool)
    table = table.masked_fill(alike & ~own, -1e4)
    target = torch.arange(len(videos))
    there, back = (torch.nn.functional.cross_entropy(side, target) for side in (table, table.T))
    return (there + back) / 2
