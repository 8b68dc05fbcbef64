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


def test_two_processes_are_one_of_twice_the_batch(tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_process, (port, tmp_path / "both.pt"), nprocs=2)
    for criterion, both in zip(CRITERIA, torch.load(tmp_path / "both.pt"), strict=True):
        weights = _weights()
        loss = _loss(weights, *_data(), criterion)
        loss.backward()
        gradient = weights.grad.flatten()
        assert both[0].item() == pytest.approx(loss.item(), abs=1e-6)
        assert (both[1:] - gradient).abs().max() < 1e-6 * gradient.abs().max()
