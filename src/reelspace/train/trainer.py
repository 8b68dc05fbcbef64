"""The run: sentence-transformers' trainer, fed one task a step as the epoch's plan says."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import ValidationError
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from transformers import PrinterCallback, TrainerCallback, set_seed

from reelspace.embed import load
from reelspace.errors import ReelspaceError
from reelspace.item import Item
from reelspace.shard import Shard
from reelspace.synth.shards import aside, write_json, write_text
from reelspace.train.config import LOG, Config, located
from reelspace.train.data import Read, Seat, Steps, collate, decoded
from reelspace.train.draws import Plan, counts, plan
from reelspace.train.losses import Shown, make_loss
from reelspace.train.mine import embed, filled, search
from reelspace.train.mixture import Mixture, Task, described
from reelspace.train.model import card, divided, gathered, load_weights, prepare, publish, save_weights
from reelspace.train.probe import Cost, Encoder, alignment, measured, probe
from reelspace.train.schedule import Alignment, Epoch

if TYPE_CHECKING:
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder
    from reelspace.embed.qwen_vl.inputs import Preparer

log = logging.getLogger(__name__)
Say = Callable[[str], None]

COMPLETE = "complete"
"""In a checkpoint that was written to its end."""
PROGRESS = "progress.json"
LEAST_JUDGED = 1000
"""Rows before the share of those that cannot be read means anything."""
_FORMS = {"bf16": {"bf16": True}, "fp16": {"fp16": True}, "fp32": {}}
_OURS = ("task", "failed")
_SCHEDULERS = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}


def run(config: Config, base: Path = Path(), say: Say = print) -> Path:
    """Trains, from the last whole checkpoint in the output folder if there is one.

    Args:
        base: where relative sources and the output begin.
        say: is told how it goes, a line at a time.

    Returns:
        The folder of the trained model, `OUTPUT/model`.

    Raises:
        ReelspaceError: the configuration, the mixture or the model will not do; or the output folder holds another run.
    """
    output = base / config.output
    name = located(config.model, base)
    embedder = trainable(name, **config.options)
    lengths = config.loss.matryoshka
    if lengths and max(lengths) != embedder.dim:
        raise ReelspaceError(f"The longest of loss.matryoshka has to be the vectors' own length, {embedder.dim}.")
    tasks = Mixture(config.mixture, base, config.seed).tasks
    seat = _seat()
    if seat.rank == 0:
        _claim(output, config)
    model = embedder.model
    looked = Cost()
    if config.memory is not None:
        embedder.module.remember(base / config.memory)
        with resting(model), measured(looked):
            look(tasks, embedder.module.preparer, seat)
    set_seed(config.seed)  # for the adapters' first weights; the trainer sets it again
    prepare(model, config, name)
    steps = Epoch(0, config.epochs, tuple(t.name for t in tasks), tuple(t.batches / seat.world for t in tasks)).steps
    data = Steps(tasks, model.preprocess, _reading(embedder), config.seed, steps, seat)
    trainer = MixtureTrainer(config, output, embedder, data, say, base)
    trainer.looked = looked
    checkpoint = last_checkpoint(output)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    if trainer.is_world_process_zero():
        if divided(model):
            model = _put_together(name, config, output)
        publish(model, output / "model", config, card(config, described(tasks), trainer.state.global_step))
    return output / "model"


def _put_together(name: str, config: Config, output: Path) -> SentenceTransformer:
    """The trained model in one piece, of its last checkpoint: each process of FSDP holds but a part of it."""
    whole = trainable(name, device="cpu", **config.options).model
    prepare(whole, config, name)
    checkpoint = last_checkpoint(output)
    assert checkpoint is not None  # one is written after the last step
    load_weights(whole, checkpoint)
    return whole


def _reading(embedder: QwenVLEmbedder) -> Read:
    """What makes sure that an item can be read: its media are decoded, or remembered."""
    preparer = embedder.module.preparer
    if preparer.memory is None:
        return partial(decoded, sampling=embedder.sampling)

    return partial(_remembered, preparer=preparer)


def _remembered(item: Item, preparer: Preparer) -> Item:
    preparer.visuals(item)
    return item


def look(tasks: Sequence[Task], preparer: Preparer, seat: Seat) -> None:
    """Has all pictures and clips of the tasks seen, each process its share. What cannot be read is met again, and
    counted, where its row is drawn.
    """
    from accelerate import PartialState

    for task in tasks:
        for place in np.unique(task.chosen)[seat.rank :: seat.world].tolist():
            row = task.row(place)
            for part in (row.query, row.candidate, *row.negatives):
                with suppress(ReelspaceError, OSError):
                    preparer.visuals(task.rows.item(part))
    PartialState().wait_for_everyone()


def trainable(name: str, **options: str) -> QwenVLEmbedder:
    """The embedder of that name, if its weights can be trained here.

    Args:
        options: as `reelspace.load` takes them.

    Raises:
        ReelspaceError: it is none of ours.
    """
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

    embedder = load(name, **options)
    if not isinstance(embedder, QwenVLEmbedder):
        raise ReelspaceError(f"{name} cannot be trained here: what can are Qwen-VL models with a readout.")
    return embedder


def last_checkpoint(output: Path) -> Path | None:
    """The last checkpoint that was written to its end."""
    whole = [path.parent for path in output.glob(f"checkpoint-*/{COMPLETE}")]
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def _claim(output: Path, config: Config) -> None:
    """An output folder belongs to one run; unfinished checkpoints of it are swept away."""
    free = {"output", "memory", "workers", "log_every", "save_every", "keep"}
    told = config.model_dump(mode="json", exclude=free)
    path = output / "run.json"
    if path.exists():
        held = json.loads(path.read_text("utf-8"))
        with suppress(ValidationError):  # what an earlier version did not write down is what it is by default
            held = Config.model_validate({**held, "output": output}).model_dump(mode="json", exclude=free)
        if held != told:
            raise ReelspaceError(f"{output} holds another run; choose another output, or delete it.")
    write_json(told, path)
    for folder in output.glob("checkpoint-*"):
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder)


def _seat() -> Seat:
    from accelerate import PartialState

    state = PartialState(cpu=_on_cpu())  # not told so, processes on CPUs would each believe that they are alone
    return Seat(state.process_index, state.num_processes)


def _on_cpu() -> bool:
    return not (torch.cuda.is_available() or torch.backends.mps.is_available())


def _arguments(config: Config, output: Path) -> SentenceTransformerTrainingArguments:
    from importlib.util import find_spec

    return SentenceTransformerTrainingArguments(
        output_dir=str(output),
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        lr_scheduler_type=_SCHEDULERS[config.scheduler],
        warmup_steps=config.warmup_steps,
        optim={"adamw": "adamw_torch", "lion": "lion_32bit"}[config.optimizer],
        max_grad_norm=config.max_grad_norm,
        seed=config.seed,
        data_seed=config.seed,
        logging_steps=config.log_every,
        logging_nan_inf_filter=False,
        save_steps=config.save_every,
        save_total_limit=config.keep,
        report_to=["tensorboard"] if find_spec("tensorboard") else [],
        per_device_train_batch_size=1,  # a sample of the loader is a whole batch
        dataloader_num_workers=config.workers,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        disable_tqdm=True,
        use_cpu=_on_cpu(),
        **_FORMS[config.precision],
    )


class MixtureTrainer(SentenceTransformerTrainer):  # type: ignore[misc]  # its stubs are not read
    """A step is a batch of one task; an epoch begins with its plan."""

    def __init__(
        self, config: Config, output: Path, embedder: QwenVLEmbedder, data: Steps, say: Say, base: Path = Path()
    ) -> None:
        self.config, self.output, self.embedder, self.data, self.say = config, output, embedder, data, say
        self.base = base
        self.names = tuple(task.name for task in data.tasks)
        self.schedule = config.schedule.made()
        self.by_task: dict[int, Shown] = {}
        self.epoch_loss: dict[str, tuple[float, int]] = {}
        self.flops: dict[int, int] = {}
        self.trained, self.looked = Cost(), Cost()
        self.waited = 0.0
        self.seen = self.failed = 0
        loss = make_loss(embedder.model, config.loss.made(), config.loss.micro_batch_tokens, config.loss.gather)
        super().__init__(model=embedder.model, args=_arguments(config, output), loss=loss, callbacks=[_Planning(self)])
        self.remove_callback(PrinterCallback)

    # Data.

    def get_train_dataloader(self) -> DataLoader[Any]:
        """One sample is a whole batch, this process's own: nothing is left for accelerate to divide."""
        workers = self.config.workers
        return DataLoader(
            self.data,
            batch_sampler=BatchSampler(SequentialSampler(range(len(self.data))), 1, drop_last=False),
            collate_fn=collate,
            num_workers=workers,
            prefetch_factor=4 if workers else None,
        )

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> Any:
        began = time.perf_counter()
        found = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.waited += time.perf_counter() - began
        return found

    # The loss.

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        task, failed = inputs.pop("task"), inputs.pop("failed")
        self._note(failed, len(inputs["label"]))
        self.loss.shown = self.by_task.setdefault(task, Shown())
        return super().compute_loss(model, inputs, *args, **kwargs)

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        task = inputs["task"]
        before = self.by_task.get(task, Shown()).loss, self.by_task.get(task, Shown()).rows
        if task not in self.flops:
            self.flops[task] = self._counted(inputs)
        began = time.perf_counter()
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.trained += Cost(time.perf_counter() - began, self.flops[task])
        shown = self.by_task[task]
        total, rows = self.epoch_loss.get(self.names[task], (0.0, 0))
        self.epoch_loss[self.names[task]] = total + shown.loss - before[0], rows + shown.rows - before[1]
        if not torch.isfinite(loss):
            raise ReelspaceError(
                f"The loss is {loss.item()} at step {self.state.global_step + 1}; lower the learning rate."
            )
        return loss

    def _counted(self, inputs: dict[str, Any]) -> int:
        """About what a step of this task takes: the first one's forward pass three times over, four in pieces.

        It is counted apart from the step, and leaves the random state as it was: while operations are counted PyTorch
        computes them in another way, and the last bits differ.
        """
        features, _ = self.collect_features(self._prepare_inputs({k: v for k, v in inputs.items() if k not in _OURS}))
        cost = Cost()
        with torch.random.fork_rng(), torch.no_grad(), measured(cost):
            for column in features:
                self.embedder.model(dict(column))
        return cost.flops * (3 if self.config.loss.micro_batch_tokens is None else 4)

    def _note(self, failed: list[str], rows: int) -> None:
        self.seen += rows
        self.failed += len(failed)
        for reason in failed:
            log.warning("unreadable: %s", reason)
        # A few unreadable rows at the very beginning say nothing of the whole.
        if failed and self.failed > self.config.failures * max(self.seen, LEAST_JUDGED):
            raise ReelspaceError(
                f"{self.failed} of {self.seen} rows could not be read, more than `failures` allows; the last: "
                f"{failed[-1]}"
            )

    # The plan.

    def plan_epoch(self, number: int) -> None:
        """Probes and draws the epoch; one that was begun before goes on as it was drawn."""
        path = self.output / "epochs" / f"{number}.json"
        begins = self.state.global_step % len(self.data) == 0
        prober = self._prober(number) if begins else self.embedder
        if begins:  # a plan that is there was drawn by a run that got further before it was killed
            known = self._probed(prober, number) if self.schedule.needs == "alignment" else {}
            if self.is_world_process_zero():
                self._draw(number, known, path)
            self.accelerator.wait_for_everyone()
        self.data.plan = _read(number, path)
        self._mined(prober, number, begins)
        self.epoch_loss = {} if begins else self._held_losses()

    def _draw(self, number: int, known: dict[str, Alignment], path: Path) -> None:
        losses = self.epoch_loss or self._held_losses()
        epoch = Epoch(
            number,
            self.config.epochs,
            self.names,
            tuple(task.batches / self.args.world_size for task in self.data.tasks),
            known,
            {task: total / rows for task, (total, rows) in losses.items() if rows},
        )
        before = _read(number - 1, path.with_name(f"{number - 1}.json")).after() if number else (0,) * len(self.names)
        drawn = plan(self.schedule, epoch, before, self.config.seed)
        found = {task: asdict(row) for task, row in known.items()}
        write_json({"dealt": list(drawn.dealt), "tasks": drawn.tasks.tolist(), "alignment": found}, path)
        draws = counts(drawn, self.names)
        self._write({"event": "plan", "epoch": number, "draws": draws})
        # `log` is for steps; this goes to TensorBoard alone.
        super().log(
            {f"draws/{task}": float(steps) for task, steps in draws.items()}
            | {f"alignment/{task}": row.matched for task, row in known.items()}
        )

    def _prober(self, number: int) -> Encoder:
        """Before the first epoch a model that is named, where one is; then what has been learnt so far."""
        named = self.config.schedule.prober
        wanted = self.schedule.needs == "alignment" or self.config.mining is not None
        return load(located(named, self.base)) if named is not None and number == 0 and wanted else self.embedder

    def _probed(self, prober: Encoder, number: int) -> dict[str, Alignment]:
        cost = Cost()
        seat = self.args.process_index, self.args.world_size
        found = {}
        with self._resting(), measured(cost):
            for task in self.data.tasks:
                sums = probe(prober, task, self.config.schedule.pairs, self.config.seed, number, seat)
                found[task.name] = alignment(self._summed(sums))
        told = {task: asdict(row) for task, row in found.items()}
        self._write({"event": "probe", "epoch": number, "cost": asdict(cost), "alignment": told})
        if self.is_world_process_zero():
            shown = ", ".join(f"{task} {row.matched:.3f}" for task, row in found.items())
            self.say(f"epoch {number + 1}: alignment {shown} ({cost.seconds:.0f} s)")
        return found

    @contextmanager
    def _resting(self) -> Iterator[None]:
        """The model as it embeds: without dropout, and whole."""
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        with (
            resting(self.embedder.model),
            gathered(self.embedder.model, bool(getattr(plugin, "reshard_after_forward", True))),
        ):
            yield

    def _summed(self, sums: np.ndarray) -> np.ndarray:
        if self.args.world_size == 1:
            return sums
        whole = torch.from_numpy(sums).to(self.args.device, torch.float64 if self.args.device.type != "mps" else None)
        return np.asarray(self.accelerator.reduce(whole, "sum").cpu().numpy())

    def _mined(self, prober: Encoder, number: int, begins: bool) -> None:
        """Hard negatives anew, where the run asks for them; every process does its share."""
        if self.config.mining is None:
            return
        cost = Cost()
        tasks = []
        for task in self.data.tasks:
            path = self.output / "epochs" / f"{number}-{task.file}.npy"
            if task.config.hard_negatives:
                if begins:
                    with self._resting(), measured(cost):
                        self._mine(prober, task, path)
                tasks.append(replace(task, negatives=np.load(path)))
            else:
                tasks.append(task)
        if begins:
            self._write({"event": "mine", "epoch": number, "cost": asdict(cost)})
        self.data.tasks = tuple(tasks)

    def _mine(self, prober: Encoder, task: Task, path: Path) -> None:
        assert self.config.mining is not None
        mining, folder = self.config.mining.made(task.config.hard_negatives), path.with_suffix(".parts")
        share = Shard(self.args.process_index + 1, self.args.world_size)
        embed(prober, task, folder, share)
        self.accelerator.wait_for_everyone()
        found = search(prober, task, mining, folder, share)
        np.save(folder / f"found-{share.name}.npy", found)
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            with aside(path) as part, part.open("wb") as raw:
                np.save(raw, filled([np.load(folder / f"found-{one.name}.npy") for one in share.all()]))
            shutil.rmtree(folder)
        self.accelerator.wait_for_everyone()

    # What is written.

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            logs = {**logs, **self._whole().means()}
            spent = self.waited + self.trained.seconds
            logs["waiting_for_data"] = self.waited / spent if spent else 0.0
            tasks = {
                self.names[task]: {"loss": shown.loss / shown.rows, **shown.means(), "rows": shown.rows}
                for task, shown in sorted(self.by_task.items())
                if shown.rows
            }
            self._write(
                {"event": "step", "step": self.state.global_step, **logs, "cost": asdict(self.trained), "tasks": tasks}
            )
            logs |= {
                f"{name}/{task}": row[name] for task, row in tasks.items() for name in ("loss", "mean_positive_score")
            }
            self.by_task = {}
            if self.is_world_process_zero():
                drawn = ", ".join(f"{task} {row['loss']:.3f}" for task, row in tasks.items())
                self.say(f"step {self.state.global_step} of {self.state.max_steps}: loss {logs['loss']:.3f} ({drawn})")
        super().log(logs, start_time)

    def _whole(self) -> Shown:
        whole = Shown()
        for shown in self.by_task.values():
            for name, value in asdict(shown).items():
                setattr(whole, name, getattr(whole, name) + value)
        return whole

    def _write(self, row: dict[str, Any]) -> None:
        if self.is_world_process_zero():
            with (self.output / LOG).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    # Checkpoints: what is trained and nothing else, and whole or not there.

    def _save(self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None) -> None:
        save_weights(self.model, Path(output_dir or self.args.output_dir), state_dict)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load_weights(self.model if model is None else model, Path(resume_from_checkpoint))
        self.trained = Cost(**json.loads((Path(resume_from_checkpoint) / PROGRESS).read_text("utf-8"))["cost"])

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = self.output / f"checkpoint-{self.state.global_step}"
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            write_json({"loss": self.epoch_loss, "cost": asdict(self.trained)}, folder / PROGRESS)
            (folder / COMPLETE).touch()

    def _held_losses(self) -> dict[str, tuple[float, int]]:
        folder = last_checkpoint(self.output)
        if folder is None:
            return {}
        held = json.loads((folder / PROGRESS).read_text("utf-8"))
        return {task: tuple(row) for task, row in held["loss"].items()}


class _Planning(TrainerCallback):  # type: ignore[misc]
    def __init__(self, trainer: MixtureTrainer) -> None:
        self._trainer = trainer

    def _swept(self, done: int) -> None:
        """What was logged after the checkpoint that the run goes on from did not happen."""
        path = self._trainer.output / LOG
        if not self._trainer.is_world_process_zero() or not path.exists():
            return
        kept = []
        for line in path.read_text("utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the run was killed while it wrote it
            at = row["step"] if row["event"] == "step" else row["epoch"] * len(self._trainer.data)
            if at <= done and not (row["event"] != "step" and at == done):
                kept.append(line + "\n")
        write_text("".join(kept), path)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._swept(state.global_step)
        if self._trainer.looked.flops:
            self._trainer._write({"event": "look", "epoch": 0, "cost": asdict(self._trainer.looked)})

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._trainer.plan_epoch(state.global_step // len(self._trainer.data))


@contextmanager
def resting(model: SentenceTransformer) -> Iterator[None]:
    """The model as it is when it is used: no dropout."""
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


def _read(number: int, path: Path) -> Plan:
    told = json.loads(path.read_text("utf-8"))
    return Plan(number, np.array(told["tasks"], dtype=np.int64), tuple(told["dealt"]))
