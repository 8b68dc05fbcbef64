import pytest
import torch

from reelspace.worlds.tiny.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(3, 8, 20), (2, 20, 8), (1, 6, 6)])
def test_a_step_goes_along_a_matrix_with_singular_values_near_one(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = torch.linalg.svdvals(orthogonal(matrices))
    assert found.min() > 0.5
    assert found.max() < 1.5


def test_it_keeps_the_directions():
    matrix = torch.randn((1, 6, 10), generator=torch.Generator().manual_seed(1))
    left, _, right = torch.linalg.svd(matrix[0], full_matrices=False)
    turned = left.T @ orthogonal(matrix)[0] @ right.T
    assert (turned - torch.diag(turned.diagonal())).abs().max() < 1e-4


def test_matrices_of_one_shape_go_together_as_they_would_alone():
    matrices = torch.randn((4, 5, 9), generator=torch.Generator().manual_seed(2))
    assert torch.allclose(orthogonal(matrices)[2:3], orthogonal(matrices[2:3]), atol=1e-5)


def test_it_finds_the_least_of_a_bowl_that_is_no_ball():
    target = torch.randn((4, 6, 2), generator=torch.Generator().manual_seed(3))
    stretch = torch.logspace(0, 2, 6)[:, None]
    filters = torch.nn.Parameter(torch.zeros(4, 6, 2))
    optimiser = Muon([filters], lr=0.05)
    losses = []
    for step in range(200):
        loss = ((filters - target) * stretch).square().mean()
        loss.backward()
        optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / 200)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]
