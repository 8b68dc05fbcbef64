"""Two processes of a batch each learn what one learns of both batches."""

import os

import pytest
import torch

from reelspace.train.losses import DualSoftmax, InfoNCE, paired

B, D = 4, 6


def _data():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(3, 2 * B, D, generator=generator, dtype=torch.float64)
    keys = torch.arange(2 * B * 3).reshape(2 * B, 3)
    keys[B + 1, 1] = keys[0, 1]  # a candidate that both processes hold
    return inputs, keys


def _loss(weights, inputs, keys, criterion):
    query, positive, negative = (torch.nn.functional.normalize(torch.tanh(rows @ weights), dim=-1) for rows in inputs)
    hard = [negative] if isinstance(criterion, InfoNCE) else []
    return criterion(paired(query, positive, hard, keys if hard else keys[:, :2])).mean()


def _weights():
    return torch.randn(D, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()


CRITERIA = (InfoNCE(0.1), DualSoftmax(0.1, 0.1))


def _process(rank, port, out):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    inputs, keys = _data()
    mine = slice(rank * B, (rank + 1) * B)
    found = []
    for criterion in CRITERIA:
        weights = _weights()
        loss = _loss(weights, inputs[:, mine], keys[mine], criterion)
        loss.backward()
        total = torch.stack([loss.detach(), *weights.grad.flatten()])
        torch.distributed.all_reduce(total)
        found.append(total / 2)  # as DistributedDataParallel does
    if rank == 0:
        torch.save(found, out)
    torch.distributed.destroy_process_group()


def _port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_two_processes_are_one_of_twice_the_batch(tmp_path):
    torch.multiprocessing.spawn(_process, (_port(), tmp_path / "both.pt"), nprocs=2)
    for criterion, both in zip(CRITERIA, torch.load(tmp_path / "both.pt"), strict=True):
        weights = _weights()
        loss = _loss(weights, *_data(), criterion)
        loss.backward()
        gradient = weights.grad.flatten()
        assert both[0].item() == pytest.approx(loss.item(), abs=1e-6)
        assert (both[1:] - gradient).abs().max() < 1e-6 * gradient.abs().max()


def _divided(rank, port, folder):
    """What FSDP has divided is put back from a checkpoint, and embeds in each process as much as it has to."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import reelspace
    from reelspace.item import Item
    from reelspace.train.config import Config
    from reelspace.train.model import divided, gathered, load_weights, prepare, save_weights

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    embedder = reelspace.load(str(folder / "model"))
    texts = [Item(text) for text in ("a dog runs", "yes", "the cat sleeps", "no", "you are the cat")]
    before = embedder.encode_candidate(texts)
    mixture = {"tasks": [{"name": "a", "source": "a.jsonl"}]}
    plain = {"lora": None, "frozen": ["vision"], "gradient_checkpointing": False}
    model = embedder.model
    prepare(model, Config(model="model", output="out", mixture=mixture, **plain))
    if rank == 0:
        save_weights(model, folder / "checkpoint")
    torch.distributed.barrier()
    mesh = init_device_mesh("cpu", (2,))
    for layer in embedder.module.decoder.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert len(divided(model)) == 1 + len(embedder.module.decoder.layers)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.5 if weight.requires_grad else 1.0)
    load_weights(model, folder / "checkpoint")
    for _ in range(2):
        with gathered(model):
            for place in range(1 + 3 * rank):
                assert abs(embedder.encode_candidate([texts[place]])[0] - before[place]).max() < 1e-5
        found = model(model.preprocess(["a dog runs"]))["sentence_embedding"]
        assert abs(found.detach().numpy()[0] - before[0]).max() < 1e-5
        found.sum().backward()
    torch.distributed.destroy_process_group()


@pytest.mark.slow  # two processes that import all of it
def test_what_fsdp_has_divided_is_whole_where_it_embeds(tmp_path):
    import tinies

    tinies.write(tmp_path / "model", layers=2)
    torch.multiprocessing.spawn(_divided, (_port(), tmp_path), nprocs=2)
