import pytest
import torch

from reelspace.errors import ReelspaceError
from reelspace.train.losses import DualSoftmax, InfoNCE, Matryoshka, Shown, paired


def unit(*shape, seed=0):
    rows = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=-1).float().requires_grad_()


def keys_of(batch, hard=0):
    return torch.arange(batch * (2 + hard)).reshape(batch, 2 + hard)


def plain(query, positive, negatives, tau, left_out=()):
    """Eq. 1 written out, sum by sum. `left_out`: (row, column) of pairs that are no negatives of each other."""
    losses = []
    for i in range(len(query)):
        own = torch.exp(query[i] @ positive[i] / tau)
        there = own + sum(
            torch.exp(query[i] @ positive[j] / tau) for j in range(len(query)) if j != i and (i, j) not in left_out
        )
        there = there + sum(torch.exp(query[i] @ negative[i] / tau) for negative in negatives)
        back = own + sum(
            torch.exp(query[j] @ positive[i] / tau) for j in range(len(query)) if j != i and (i, j) not in left_out
        )
        losses.append(-(torch.log(own / there) + torch.log(own / back)) / 2)
    return torch.stack(losses).mean()


def gradients(loss, *tensors):
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("hard", [0, 1, 3])
def test_infonce_is_the_papers_equation_in_values_and_gradients(hard):
    query, positive = unit(6, 8, seed=1), unit(6, 8, seed=2)
    negatives = [unit(6, 8, seed=3 + k) for k in range(hard)]
    ours = InfoNCE(0.07)(paired(query, positive, negatives, keys_of(6, hard))).mean()
    theirs = plain(query, positive, negatives, 0.07)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)
    for one, other in zip(
        gradients(ours, query, positive, *negatives), gradients(theirs, query, positive, *negatives), strict=True
    ):
        assert (one - other).abs().max() < 1e-5


def test_infonce_is_sentence_transformers_loss_where_both_mean_the_same():
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    raw = [unit(6, 8, seed=seed) for seed in (1, 2)]
    query, positive = (torch.nn.functional.normalize(rows, dim=-1) for rows in raw)  # as theirs does, gradients too
    theirs = MultipleNegativesRankingLoss(
        None, scale=1 / 0.05, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
    ).compute_loss_from_embeddings([query, positive], None)
    ours = InfoNCE(0.05)(paired(query, positive, [], keys_of(6))).mean()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)
    grown = [torch.autograd.grad(loss, raw, retain_graph=True) for loss in (ours, theirs)]
    for one, other in zip(*grown, strict=True):
        assert (one - other).abs().max() < 1e-5 * other.abs().max()


def test_duplicates_are_no_negatives_of_each_other():
    query, positive = unit(4, 8, seed=1), unit(4, 8, seed=2)
    keys = keys_of(4)
    keys[2, 1] = keys[0, 1]  # one candidate is right for both
    keys[3, 0] = keys[1, 0]  # one query asked twice
    ours = InfoNCE(0.05)(paired(query, positive, [], keys)).mean()
    theirs = plain(query, positive, [], 0.05, left_out={(0, 2), (2, 0), (1, 3), (3, 1)})
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)


def named(*rows):
    """Keys of rows of (content, what it shows) a part."""
    return torch.tensor([[part if isinstance(part, tuple) else (part, part) for part in row] for row in rows])


def test_parts_of_one_content_or_of_one_video_are_no_negatives_of_each_other():
    query, positive = unit(5, 8, seed=1), unit(5, 8, seed=2)
    keys = named(
        (1, (10, 90)),
        (2, (11, 90)),  # another view of the first one's video
        (3, (10, 91)),  # what answers the first, said of another video
        (10, (13, 92)),  # asks with what answers the first and the third
        (5, (14, 93)),
    )
    ours = InfoNCE(0.05)(paired(query, positive, [], keys)).mean()
    same = {(0, 1), (0, 2), (0, 3), (2, 3)}
    theirs = plain(query, positive, [], 0.05, left_out=same | {(j, i) for i, j in same})
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)


def test_hard_negatives_that_answer_the_same_query_in_another_row_are_left_out():
    query, positive, *hard = (unit(3, 8, seed=seed).detach() for seed in (1, 2, 3, 4))
    keys = named(
        (1, (10, 90), (12, 92), (20, 80)),
        (1, (11, 91), (21, 90), (22, 82)),  # asks as the first does; its first hard negative shows the first's video
        (3, (12, 92), (10, 90), (3, 83)),  # its second is what it asks with
    )
    shown = paired(query, positive, hard, keys)
    assert shown.spoilt().tolist() == [[False, False], [True, False], [False, True]]
    seen = Shown()
    seen.add(shown, InfoNCE()(shown))
    best = [
        max(float(query[0] @ hard[0][0]), float(query[0] @ hard[1][0])),
        float(query[1] @ hard[1][1]),
        float(query[2] @ hard[0][2]),
    ]
    margins = [float(query[n] @ positive[n]) - best[n] for n in range(3)]
    assert seen.means()["hard_negative_margin"] == pytest.approx(sum(margins) / 3, abs=1e-6)


def test_a_hard_negative_that_is_the_positive_is_left_out():
    query, positive, negative = unit(3, 8, seed=1), unit(3, 8, seed=2), unit(3, 8, seed=3)
    keys = keys_of(3, 1)
    keys[:, 2] = keys[:, 1]
    ours = InfoNCE()(paired(query, positive, [negative], keys)).mean()
    assert ours.item() == pytest.approx(plain(query, positive, [], 0.03).item(), abs=1e-5)


def test_a_margin_leaves_out_what_scores_above_the_positive():
    query = torch.eye(3)[:2]
    positive = torch.tensor([[0.6, 0.8, 0.0], [0.9, 0.43589, 0.0]])  # the second is nearer to the first query
    loose = InfoNCE(0.1, margin=0.5)(paired(query, positive, [], keys_of(2)))
    strict = InfoNCE(0.1, margin=0.1)(paired(query, positive, [], keys_of(2)))
    assert loose[0] == pytest.approx(InfoNCE(0.1)(paired(query, positive, [], keys_of(2)))[0])
    assert strict[0] < loose[0]


@pytest.mark.parametrize("same", [(), ((0, 2), (2, 0))])
def test_dual_softmax_is_its_definition_in_values_and_gradients(same):
    query, positive = unit(5, 8, seed=1), unit(5, 8, seed=2)
    keys = keys_of(5)
    if same:
        keys[2, 1] = keys[0, 1]
    ours = DualSoftmax(0.05, 0.1)(paired(query, positive, [], keys)).mean()
    losses = []
    for scores in (query @ positive.T, positive @ query.T):
        there = [[j for j in range(5) if (i, j) not in same] for i in range(5)]
        for i in range(5):
            share = {
                j: 5 * torch.exp(scores[i, j] / 0.1) / sum(torch.exp(scores[k, j] / 0.1) for k in there[j])
                for j in there[i]
            }
            grown = {j: torch.exp(scores[i, j] * share[j] / 0.05) for j in there[i]}
            losses.append(-torch.log(grown[i] / sum(grown.values())))
    theirs = sum(losses) / 10
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    for one, other in zip(gradients(ours, query, positive), gradients(theirs, query, positive), strict=True):
        assert (one - other).abs().max() < 1e-5 * max(1.0, other.abs().max().item())


def test_dual_softmax_refuses_hard_negatives():
    with pytest.raises(ReelspaceError, match="no hard negatives"):
        DualSoftmax()(paired(unit(2, 4), unit(2, 4, seed=1), [unit(2, 4, seed=2)], keys_of(2, 1)))


def test_matryoshka_is_the_mean_over_its_dimensions():
    query, positive = unit(5, 8, seed=1), unit(5, 8, seed=2)
    ours = Matryoshka(InfoNCE(), (8, 4))(paired(query, positive, [], keys_of(5)))
    short = [torch.nn.functional.normalize(rows[:, :4], dim=-1) for rows in (query, positive)]
    half = InfoNCE()(paired(*short, [], keys_of(5)))
    whole = InfoNCE()(paired(query, positive, [], keys_of(5)))
    assert torch.allclose(ours, (half + whole) / 2, atol=1e-6)


def test_the_order_of_rows_changes_nothing():
    query, positive, negative = unit(6, 8, seed=1), unit(6, 8, seed=2), unit(6, 8, seed=3)
    keys = keys_of(6, 1)
    keys[4, 1] = keys[0, 1]
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    ours = InfoNCE()(paired(query, positive, [negative], keys))
    other = InfoNCE()(paired(query[order], positive[order], [negative[order]], keys[order]))
    assert torch.allclose(ours[order], other, atol=1e-6)


def test_what_is_shown_is_what_it_says():
    query = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    positive = torch.tensor([[0.8, 0.6], [0.6, 0.8]])
    hard = torch.tensor([[0.28, 0.96], [0.96, 0.28]])
    pairs = paired(query, positive, [hard], keys_of(2, 1))
    shown = Shown()
    shown.add(pairs, InfoNCE()(pairs))
    assert shown.means() == pytest.approx(
        {"mean_score": 0.7, "mean_positive_score": 0.8, "max_negative_gap": 0.2, "hard_negative_margin": 0.52}
    )
