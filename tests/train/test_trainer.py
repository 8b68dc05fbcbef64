import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml

import reelspace
import tinies
from reelspace.errors import ReelspaceError
from reelspace.item import Item
from reelspace.train.config import Config, published, read
from reelspace.train.mixture import Mixture, preset
from reelspace.train.probe import alignment, probe
from reelspace.train.trainer import MixtureTrainer, last_checkpoint, run

READOUT = {
    "template": "{instruction} {user}<|endoftext|>",
    "frames": "uniform(2)",
    "image_pixels": [28**2, 4 * 28**2],
    "frame_pixels": [28**2, 4 * 28**2],
    "max_length": 256,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tinies.write(tmp_path_factory.mktemp("base"), readout=READOUT, layers=2)


WORDS = {
    "dog": "runs",
    "cat": "sleeps",
    "yes": "and",
    "no": "the",
    "a": "what",
    "find": "user",
    "you": "system",
    "are": "this",
}


@pytest.fixture
def tasks(tmp_path):
    """Two tasks of short texts: the same words, and every word replaced by its partner."""
    pairs = [(one, other) for one in WORDS for other in WORDS if one != other][:40]
    for name, said in (("again", lambda word: word), ("partners", WORDS.get)):
        rows = [
            {
                "id": f"{name}{n}",
                "query": {"text": " ".join(pair)},
                "candidate": {"text": " ".join(map(said, pair)) + "."},
            }
            for n, pair in enumerate(pairs)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [{"name": name, "source": f"{name}.jsonl", "batch_size": 8} for name in ("again", "partners")]


def config(base, tasks, output="out", **more):
    plain = {
        **{"lora": None, "frozen": ["vision"], "precision": "fp32", "gradient_checkpointing": False, "workers": 0},
        **{"learning_rate": 3e-3, "epochs": 2, "log_every": 1, "save_every": 4},
        "schedule": {"pairs": 8},
    }
    return Config.model_validate({"model": str(base), "output": output, "mixture": {"tasks": tasks}, **plain, **more})


def log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_run_learns_and_its_model_opens_everywhere(base, tasks, tmp_path):
    from reelspace.embed.qwen_vl.module import reopened

    folder = run(config(base, tasks, schedule={"pairs": 8, "sigma_min": 1.0}), tmp_path)
    rows = log(tmp_path / "out")
    steps = [row for row in rows if row["event"] == "step"]
    assert [row["step"] for row in steps] == list(range(1, 21))
    losses = [row["tasks"]["partners"]["loss"] for row in steps if "partners" in row["tasks"]]
    assert losses[-1] < 0.7 * losses[0]
    assert {"mean_score", "mean_positive_score", "max_negative_gap", "waiting_for_data", "grad_norm"} <= set(steps[0])
    plans = [row for row in rows if row["event"] == "plan"]
    assert [sum(row["draws"].values()) for row in plans] == [10, 10]
    probes = [row for row in rows if row["event"] == "probe"]
    assert [row["epoch"] for row in probes] == [0, 1]
    assert all(row["cost"]["flops"] > 0 and row["cost"]["seconds"] > 0 for row in probes)
    assert steps[-1]["cost"]["flops"] > probes[0]["cost"]["flops"]

    shown = scalars(tmp_path / "out")
    assert [value for _, value in shown["train/loss"]] == pytest.approx([row["loss"] for row in steps])
    for task in ("again", "partners"):
        assert [(step, value) for step, value in shown[f"train/draws/{task}"]] == [
            (10 * row["epoch"], row["draws"][task]) for row in plans
        ]
        found = [row["alignment"][task]["matched"] for row in probes]
        assert [value for _, value in shown[f"train/alignment/{task}"]] == pytest.approx(found)

    items = [Item("a dog runs"), Item("yes and no")]
    ours = reelspace.load(str(folder)).encode_candidate(items)
    theirs = reopened(folder).encode_document(["a dog runs", "yes and no"])
    assert abs(ours - theirs).max() < 1e-5
    assert abs(ours - reelspace.load(str(base)).encode_candidate(items)).max() > 1e-2
    card = (folder / "README.md").read_text()
    assert "| partners | T>T | 40 | 8 | 0 |" in card and f"base_model: {base}" in card


def scalars(folder):
    """What TensorBoard shows of a run: name → [(step, value)]."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = folder.rglob("events.out.tfevents.*")
    events = EventAccumulator(str(file))
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def weights(folder):
    from safetensors.torch import load_file

    return load_file(str(folder / "model.safetensors"))


DROPPING = {"lora": {"rank": 4, "alpha": 8, "dropout": 0.1}, "frozen": ["vision", "embeddings"]}


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft's own affair
@pytest.mark.parametrize(("died", "more"), [(7, {}), (14, DROPPING)], ids=["whole weights", "LoRA with dropout"])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(base, tasks, tmp_path, monkeypatch, died, more):
    whole = run(config(base, tasks, "whole", **more), tmp_path)
    step = MixtureTrainer.training_step

    def dying(self, *args):
        if self.state.global_step == died:
            raise KeyboardInterrupt
        return step(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(MixtureTrainer, "training_step", dying)
        with pytest.raises(KeyboardInterrupt):
            run(config(base, tasks, "stopped", **more), tmp_path)
    assert last_checkpoint(tmp_path / "stopped").name == f"checkpoint-{died // 4 * 4}"
    (tmp_path / "stopped" / "checkpoint-999").mkdir()  # what a kill in the middle of writing leaves
    with (tmp_path / "stopped" / "log.jsonl").open("a") as file:
        file.write('{"event": "step", "st')
    again = run(config(base, tasks, "stopped", **more), tmp_path)
    one, other = weights(whole), weights(again)
    assert all(torch.equal(one[name], other[name]) for name in one)
    kept = ("step", "loss", "tasks", "draws", "alignment", "epoch")
    told = [[{k: row[k] for k in kept if k in row} for row in log(tmp_path / name)] for name in ("whole", "stopped")]
    assert told[0] == told[1]


@pytest.mark.slow  # four processes that import all of it
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(base, tasks, tmp_path):
    import subprocess
    import sys
    import time

    more = {"schedule": {"kind": "loss"}, "save_every": 2}
    whole = run(config(base, tasks, "whole", **more), tmp_path)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config(base, tasks, "killed", **more).model_dump(mode="json")))
    command = [sys.executable, "-m", "reelspace", "train", "run", "--config", str(tmp_path / "run.yaml")]
    for step in (3, 9, 15):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = tmp_path / "killed" / "log.jsonl"
        while not (path.exists() and f'"step": {step},' in path.read_text()):
            assert child.poll() is None
            time.sleep(0.002)
        child.kill()
        child.wait()
    subprocess.run(command, check=True, capture_output=True)
    one, other = weights(whole), weights(tmp_path / "killed" / "model")
    assert all(torch.equal(one[name], other[name]) for name in one)
    kept = ("step", "loss", "draws", "epoch")
    told = [[{k: row[k] for k in kept if k in row} for row in log(tmp_path / name)] for name in ("whole", "killed")]
    assert told[0] == told[1]


def test_rows_that_cannot_be_read_are_held_against_all_rows_so_far():
    trainer = SimpleNamespace(seen=0, failed=0, config=SimpleNamespace(failures=0.01))
    for _ in range(500):
        MixtureTrainer._note(trainer, ["no picture"], 200)  # one of two hundred
    with pytest.raises(ReelspaceError, match="more than `failures` allows; the last: no picture"):
        for _ in range(500):
            MixtureTrainer._note(trainer, ["no picture"] * 5, 200)


@pytest.fixture
def pictures(tmp_path):
    """A task of words with pictures on either side, one of which is no picture."""
    from PIL import Image

    rows = []
    for number in range(12):
        pixels = np.random.default_rng(number).integers(256, size=(40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        words = " ".join(list(WORDS)[:number])
        before = {"text": words, "image": {"path": f"{max(number - 1, 0)}.png"}}
        rows.append({"query": before, "candidate": {"text": "a dog", "image": {"path": f"{number}.png"}}})
    (tmp_path / "3.png").write_bytes(b"no picture")
    (tmp_path / "pictures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[1:]))
    return [{"name": "pictures", "source": "pictures.jsonl", "batch_size": 4, "formats": "TI>TI"}]


def test_frozen_eyes_look_once_and_the_run_is_the_same(base, pictures, tmp_path):
    kept = {"memory": "seen", "epochs": 2, "failures": 1.0, "schedule": {"pairs": 4}}
    run(config(base, pictures, "with", **kept), tmp_path)
    seen = sorted((tmp_path / "seen").rglob("*.safetensors"))
    assert len(seen) == 11
    run(config(base, pictures, "without", **{**kept, "memory": None}), tmp_path)
    told = [log(tmp_path / name) for name in ("with", "without")]
    assert [row["event"] for row in told[0]][:2] == ["look", "probe"] and told[0][0]["cost"]["flops"] > 0
    losses = [[row["loss"] for row in rows if row["event"] == "step"] for rows in told]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    # Probing looks at nothing again.
    costs = [[row["cost"]["flops"] for row in rows if row["event"] == "probe"] for rows in told]
    assert all(one < other for one, other in zip(*costs, strict=True))


def test_what_eyes_see_is_not_kept_while_they_learn(base, pictures):
    with pytest.raises(ValueError, match="freeze vision or leave out memory"):
        config(base, pictures, memory="seen", frozen=[])


def test_another_run_in_the_same_folder_is_refused(base, tasks, tmp_path):
    run(config(base, tasks, epochs=1, max_steps=1), tmp_path)
    with pytest.raises(ReelspaceError, match="holds another run"):
        run(config(base, tasks, epochs=1, max_steps=1, seed=1), tmp_path)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft's own affair
@pytest.mark.parametrize("save_as", ["merged", "adapter"])
def test_lora_trains_the_language_model_alone_and_is_saved_whole_or_apart(base, tasks, tmp_path, save_as):
    from reelspace.embed.qwen_vl.module import reopened

    # A folder beside the configuration; of the other, a preset tells how it is read.
    shutil.copytree(base, tmp_path / "plain", ignore=shutil.ignore_patterns("readout.json"))
    (tmp_path / "start").symlink_to(base)
    name, options = ("start", {}) if save_as == "merged" else ("plain", {"contract": "gve-3b"})
    lora = {"rank": 4, "alpha": 8, "dropout": 0.0}
    more = {"lora": lora, "save_as": save_as, "max_steps": 3, "frozen": ["vision", "embeddings"], **options}
    folder = run(config(name, tasks, **more), tmp_path)
    vectors = reelspace.load(str(folder)).encode_candidate([Item("a dog runs")])
    start = reelspace.load(str(tmp_path / name), **options)
    assert abs(vectors - start.encode_candidate([Item("a dog runs")])).max() > 1e-4
    assert abs(vectors - reopened(folder).encode_document(["a dog runs"])).max() < 1e-5
    before = weights(base)
    if save_as == "merged":
        after = weights(folder)
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        assert set(before) == set(after)
        assert changed and all("visual" not in name and "proj" in name for name in changed)
    else:
        assert (folder / "adapter_model.safetensors").stat().st_size < 0.5 * (base / "model.safetensors").stat().st_size
        assert not (folder / "model.safetensors").exists()


def test_what_is_trained_is_kept_in_32_bits(base, tasks):
    from reelspace.train.model import prepare

    model = reelspace.load(str(base), dtype="bfloat16").model
    prepare(model, config(base, tasks, **DROPPING))
    kinds = {weight.requires_grad: weight.dtype for weight in model.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}


def test_lengths_of_a_matryoshka_are_held_against_the_model(base, tasks, tmp_path):
    with pytest.raises(ReelspaceError, match="the vectors' own length, 64"):
        run(config(base, tasks, loss={"matryoshka": [32, 16]}), tmp_path)


def test_hard_negatives_are_mined_anew_each_epoch(base, tasks, tmp_path):
    tasks = [{**task, "hard_negatives": 1} for task in tasks]
    made = config(base, tasks, mining={"depth": 8}, schedule={"pairs": 8, "prober": "lite"})
    run(made, tmp_path)
    rows = log(tmp_path / "out")
    # An embedder from elsewhere, of vectors of another length, before the first epoch; then what has been learnt.
    opened = Mixture(made.mixture, tmp_path, made.seed).tasks
    by_lite = {task.name: alignment(probe(reelspace.load("lite"), task, 8, made.seed)).matched for task in opened}
    probes = [row for row in rows if row["event"] == "probe"]
    assert {task: row["matched"] for task, row in probes[0]["alignment"].items()} == pytest.approx(by_lite)
    assert probes[0]["cost"]["flops"] == 0 < probes[1]["cost"]["flops"]
    mines = [row for row in rows if row["event"] == "mine"]
    assert [row["epoch"] for row in mines] == [0, 1]
    assert mines[1]["cost"]["flops"] > 0 and all(row["cost"]["seconds"] > 0 for row in mines)
    assert all("hard_negative_margin" in row for row in rows if row["event"] == "step")
    found = [np.load(tmp_path / "out" / "epochs" / f"{epoch}-again.npy") for epoch in (0, 1)]
    assert found[0].shape == (40, 1) and (found[0] >= 0).all() and not np.array_equal(*found)


def test_schedules_that_measure_nothing_probe_nothing(base, tasks, tmp_path):
    run(config(base, tasks, schedule={"kind": "round-robin"}, epochs=1, max_steps=4), tmp_path)
    rows = log(tmp_path / "out")
    assert [row["event"] for row in rows][:1] == ["plan"]
    assert [list(row["tasks"]) for row in rows if row["event"] == "step"] == [["again"], ["partners"]] * 2


def test_a_loss_that_is_no_number_stops_the_run(base, tasks, tmp_path):
    with pytest.raises(ReelspaceError, match="lower the learning rate"):
        run(config(base, tasks, learning_rate=1e12, max_grad_norm=1e30), tmp_path)


def test_gradients_in_pieces_are_the_gradients(base):
    from reelspace.train.losses import InfoNCE, make_loss

    texts = ["a dog", "the cat sleeps and runs and runs", "yes", "no no no a dog"]
    keys = torch.arange(8).reshape(4, 2)
    found = []
    for tokens in (None, 24, 60):
        model = reelspace.load(str(base)).model.double()
        columns = [
            model.preprocess([Item(text) for text in texts]),
            model.preprocess([Item(f"{text}!") for text in texts]),
        ]
        loss = make_loss(model, InfoNCE(), tokens)(columns, keys)
        loss.backward()
        named = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        found.append((loss.item(), named))
    for value, gradients in found[1:]:
        assert value == pytest.approx(found[0][0], abs=1e-6)
        assert set(gradients) == set(found[0][1])
        for name, gradient in gradients.items():
            assert (gradient - found[0][1][name]).abs().max() < 1e-6 * max(1.0, found[0][1][name].abs().max().item())


def test_padding_changes_no_loss(base):
    from reelspace.train.losses import InfoNCE, make_loss

    found = []
    for side in ("right", "left"):
        model = reelspace.load(str(base), padding_side=side).model
        columns = [model.preprocess([Item("a dog"), Item("the cat sleeps and runs and runs")]) for _ in range(2)]
        found.append(make_loss(model, InfoNCE())(columns, torch.arange(4).reshape(2, 2)).item())
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_a_configuration_is_the_papers_where_nothing_is_said(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        yaml.safe_dump({"model": "m", "output": "o", "mixture": {"tasks": [{"name": "a", "source": "a.jsonl"}]}})
    )
    made = read(path)
    table9 = {
        **{"learning_rate": 3e-5, "weight_decay": 0.1, "scheduler": "cosine", "epochs": 3, "precision": "bf16"},
        **{"gradient_checkpointing": True, "seed": 42, "workers": 1, "frozen": ("vision", "embeddings")},
    }
    assert {name: getattr(made, name) for name in table9} == table9
    assert (made.optimizer, made.schedule.prober, made.warmup_steps) == ("adamw", None, 0)
    assert (made.lora.rank, made.lora.alpha, made.lora.dropout) == (16, 32, 0.1)
    assert made.lora.targets == ("q_proj", "v_proj", "k_proj", "up_proj", "down_proj", "gate_proj")
    assert (made.loss.kind, made.loss.temperature, made.loss.gather) == ("infonce", 0.03, True)
    assert (made.schedule.kind, made.schedule.sigma_min, made.schedule.sigma_max) == ("pyramid", 0.1, 1.0)


@pytest.mark.parametrize("name", ["gve-3b", "gve-7b"])
def test_the_papers_run_is_printed_and_is_the_default(name, tmp_path):
    from reelspace.embed.presets import contract

    (tmp_path / "run.yaml").write_text(published(name))
    made = read(tmp_path / "run.yaml")
    assert made.model == f"Qwen/Qwen2.5-VL-{name[4:].upper()}-Instruct"
    assert contract(made.contract)["frames"] == "fps(1, max=8)"
    assert len(made.mixture.sources) == 38 and set(made.mixture.sources) == {task.name for task in preset(name)}
    plain = Config(model=made.model, contract=name, output=made.output, mixture=made.mixture)
    assert made == plain


def test_a_configuration_says_what_it_does_not_know(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: m\noutput: o\nmixture: {tasks: [{name: a, source: a}]}\nlearning_rat: 1\n")
    with pytest.raises(ReelspaceError, match="learning_rat: extra inputs are not permitted"):
        read(path)


@pytest.mark.slow  # three processes that import all of it
def test_two_processes_end_as_one_of_twice_the_batch(base, tasks, tmp_path):
    import subprocess
    import sys

    more = {"schedule": {"kind": "round-robin"}, "learning_rate": 1e-3, "max_steps": 4}
    one = run(config(base, [{**task, "batch_size": 16} for task in tasks], "one", **more), tmp_path)
    # In pieces and divided, both at once.
    two = config(base, tasks, "two", loss={"micro_batch_tokens": 64}, **more)
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(two.model_dump(mode="json")))
    shown = subprocess.run(
        [sys.executable, "-m", "reelspace", "train", "launch", "cpu"], capture_output=True, check=True
    )
    (tmp_path / "cpu.yaml").write_bytes(shown.stdout)
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(tmp_path / "cpu.yaml")]
    command = [*launch, "-m", "reelspace", "train", "run", "--config", str(tmp_path / "two.yaml")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    first, second = weights(one), weights(tmp_path / "two" / "model")
    # Adam's first steps divide what is all but nothing by itself: weights agree to a hundredth of a step.
    apart = {name: float((first[name] - second[name]).abs().max()) for name in first}
    assert max(apart.values()) < 1e-5, sorted(apart.items(), key=lambda pair: -pair[1])[:6]
