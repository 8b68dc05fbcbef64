"""A training run as one file. What is left out has the value of the paper (GVE Table 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reelspace.errors import ReelspaceError
from reelspace.train.losses import Criterion, DualSoftmax, InfoNCE, Matryoshka
from reelspace.train.mine import Mining
from reelspace.train.mixture import PRESETS, MixtureConfig, preset
from reelspace.train.schedule import Fixed, LossWeighted, Proportional, Pyramid, RoundRobin, Schedule, Uniform

LOG = "log.jsonl"
"""In the output folder: a line for every logged step, plan, probe and round of mining."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LoraConfig(_Section):
    """Low-rank adapters of the language model (GVE A.8)."""

    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    targets: tuple[str, ...] = ("q_proj", "v_proj", "k_proj", "up_proj", "down_proj", "gate_proj")


class ScheduleConfig(_Section):
    """Which task each step is given to."""

    kind: Literal["pyramid", "uniform", "proportional", "fixed", "loss", "round-robin"] = "pyramid"
    sigma_min: float = Field(default=0.1, gt=0)
    sigma_max: float = Field(default=1.0, gt=0)
    score: Literal["cosine", "contrast"] = "cosine"
    """What the Pyramid goes by: R_k itself, or how far it stands above the task's mismatched pairs."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Of the fixed schedule: task → weight."""
    prober: str | None = None
    """The embedder that probes and mines before the first epoch (the paper: GME-7B); left out, the model itself as it
    begins."""
    pairs: int = Field(default=256, ge=2)
    """N, how many pairs of each task are probed; the paper does not say."""

    def made(self) -> Schedule:
        """The schedule."""
        if self.kind == "pyramid":
            return Pyramid(self.sigma_min, self.sigma_max, self.score)
        if self.kind == "fixed":
            return Fixed(self.weights)
        plain: dict[str, Schedule] = {
            "uniform": Uniform(),
            "proportional": Proportional(),
            "loss": LossWeighted(),
            "round-robin": RoundRobin(),
        }
        return plain[self.kind]


class LossConfig(_Section):
    """What is learnt from a batch."""

    kind: Literal["infonce", "dual-softmax"] = "infonce"
    temperature: float = Field(default=0.03, gt=0)
    prior: float = Field(default=0.03, gt=0)
    """Temperature of the softmax that weighs the scores of the dual-softmax loss."""
    margin: float | None = None
    """A candidate that scores more than the positive plus this is taken for a false negative."""
    matryoshka: tuple[int, ...] = ()
    """Lengths to which vectors may be cut later; the full length among them."""
    gather: bool = True
    """The pairs of other processes are negatives too, from the first step on."""
    micro_batch_tokens: int | None = Field(default=None, ge=1)
    """With it a batch is embedded in pieces of so many tokens, with exact gradients, in less memory (GradCache)."""

    def made(self) -> Criterion:
        """The loss."""
        inner: Criterion
        if self.kind == "infonce":
            inner = InfoNCE(self.temperature, self.margin)
        else:
            inner = DualSoftmax(self.temperature, self.prior)
        return Matryoshka(inner, self.matryoshka) if self.matryoshka else inner


class MiningConfig(_Section):
    """Hard negatives mined anew by the prober before each epoch; without this section, the rows' own are used."""

    skip: int = Field(default=0, ge=0)
    margin: float | None = None
    depth: int = Field(default=64, ge=1)

    def made(self, count: int) -> Mining:
        """For a task that wants that many."""
        return Mining(count, self.skip, self.margin, self.depth)


class Config(_Section):
    """A run."""

    model: str
    """A model that `reelspace.load` knows and that can be trained: a Qwen-VL model with its readout. The name of a
    folder begins at the configuration's own."""
    contract: str | None = None
    """A preset whose readout the model is read by, where it has none of its own: `gve-3b` for the plain Qwen2.5-VL."""
    output: Path
    """Where checkpoints, logs and the trained model go."""
    mixture: MixtureConfig
    schedule: ScheduleConfig = Field(default_factory=ScheduleConfig)
    loss: LossConfig = Field(default_factory=LossConfig)
    mining: MiningConfig | None = None
    lora: LoraConfig | None = Field(default_factory=LoraConfig)
    """`null`: all that is not frozen is trained."""
    frozen: tuple[Literal["vision", "embeddings"], ...] = ("vision", "embeddings")
    memory: Path | None = None
    """A folder to keep what frozen eyes have seen, for this run and others of the same vision tower: a picture or clip
    then goes through it once."""
    save_as: Literal["merged", "adapter"] = "merged"
    """What LoRA leaves behind: whole weights, or its own beside a note of what they belong to."""
    optimizer: Literal["adamw", "lion"] = "adamw"
    learning_rate: float = Field(default=3e-5, gt=0)
    weight_decay: float = Field(default=0.1, ge=0)
    scheduler: Literal["cosine", "linear", "constant"] = "cosine"
    warmup_steps: int = Field(default=0, ge=0)
    epochs: int = Field(default=3, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    """Stop after so many; the learning rate is planned for them."""
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    gradient_checkpointing: bool = True
    max_grad_norm: float = Field(default=1.0, gt=0)
    workers: int = Field(default=1, ge=0)
    """Processes that decode and prepare batches."""
    seed: int = 42
    log_every: int = Field(default=10, ge=1)
    save_every: int = Field(default=500, ge=1)
    keep: int = Field(default=2, ge=1)
    """How many checkpoints are kept."""
    failures: float = Field(default=0.01, ge=0, le=1)
    """Share of rows that may be unreadable; another of the task takes the place of each."""

    @property
    def options(self) -> dict[str, str]:
        """What the model is loaded with."""
        return {} if self.contract is None else {"contract": self.contract}

    @model_validator(mode="after")
    def _still_eyes(self) -> Config:
        if self.memory is not None and "vision" not in self.frozen:
            raise ValueError(
                "what the eyes see can be kept only while they are frozen: freeze vision or leave out memory"
            )
        return self


def located(model: str, base: Path) -> str:
    """The name of a model, or the whole path of a folder that is called so from `base` on."""
    folder = base / model
    return str(folder.resolve()) if folder.is_dir() else model


def read(path: Path, **overrides: Any) -> Config:
    """A run's configuration from its YAML file; relative sources and the output begin at the file's folder.

    Raises:
        ReelspaceError: the file is missing or says something unknown.
    """
    import yaml

    try:
        told = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ReelspaceError(f"{path} cannot be read: {error}") from None
    try:
        return Config.model_validate({**(told or {}), **overrides})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ReelspaceError(f"{path}: {place}: {first['msg'].lower()}") from None


def published(name: str) -> str:
    """The run by which the paper trained a model, as YAML: its Table 9, with its mixture (Tables 6 and 7) of which only
    the sources are to be filled in.

    Args:
        name: `gve-3b` or `gve-7b`.

    Raises:
        ReelspaceError: there is no such preset.
    """
    import yaml

    if name not in PRESETS:
        raise ReelspaceError(f"There is no preset “{name}”; there are {' and '.join(PRESETS)}.")
    size = name.removeprefix("gve-").upper()
    settings = Config.model_validate(
        {
            "model": f"Qwen/Qwen2.5-VL-{size}-Instruct",
            "contract": name,
            "output": f"runs/{name}",
            "mixture": {"preset": name, "partial": True},
        }
    ).model_dump(mode="json", exclude={"mixture"}, exclude_none=True)
    head, rest = {key: settings.pop(key) for key in ("model", "contract", "output")}, settings
    lines = [
        f"# {name.upper()} as it was published: settings of its Table 9, tasks of its Tables 6 and 7. What the paper",
        "# leaves open has our defaults. Its first prober is GME-7B (schedule.prober); its batch of 1024 and more is",
        "# that of all processes together.",
        yaml.safe_dump(head, sort_keys=False),
        "mixture:",
        f"  preset: {name}",
        "  partial: true  # tasks that have no source are left out: take away the lines of those that you do without",
        "  sources:  # where your copies lie, as rows of a query, its candidate and hard negatives",
    ]
    for task in preset(name):
        held = f"{task.formats}; rows {task.rows:,}; a batch {task.batch_size}; hard negatives {task.hard_negatives}"
        lines.append(f"    {task.name}: rows/{task.name.replace(' ', '-').replace('>', '2')}.jsonl  # {held}")
    return "\n".join([*lines, "", yaml.safe_dump(rest, sort_keys=False)])
