"""Contrastive losses over one task's pairs, with each query's own hard negatives.

`InfoNCE` is the loss of GVE (Eq. 1): in the direction from query to candidate a query is told from the candidates of
the other pairs and from its own hard negatives; in the reverse, a candidate from the other queries only.
`DualSoftmax` is that of VidVec (CAMoE, arXiv 2109.04290). Both run through sentence-transformers' trainer; its own
`MultipleNegativesRankingLoss` is the same function where there is nothing to mask and no hard negative, but it sets
every query against everyone's hard negatives, and knows of no duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from reelspace.errors import ReelspaceError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass
class Pairs:
    """The embeddings of a batch, and who is who.

    Of several processes, `candidates`, `queries` and their keys are those of all, with gradients; a process's own
    rows begin at `offset`.

    Attributes:
        query: float `[B, d]`: this process's queries, unit rows.
        positive: float `[B, d]`: their candidates.
        negative: float `[B, K, d]`: each query's own hard negatives; K may be 0.
        queries, candidates: float `[W·B, d]`: the queries and candidates of all processes.
        keys: int64 `[B, 2 + K, F]`: of each own row what names its query, its positive and its negatives, in F ways:
            first by content, then by what it shows. Two parts that agree in any way are no negatives of each other.
        all_keys: int64 `[W·B, 2 + K, F]`.
        offset: the place of the first own row among all.
    """

    query: Tensor
    positive: Tensor
    negative: Tensor
    queries: Tensor
    candidates: Tensor
    keys: Tensor
    all_keys: Tensor
    offset: int

    @property
    def own(self) -> Tensor:
        """int64 `[B]`: the places of the own rows among all."""
        import torch

        return torch.arange(self.offset, self.offset + len(self.query), device=self.query.device)

    def alike(self) -> Tensor:
        """Bool `[B, W·B]`: the rows whose candidates are no negatives of this row's query, nor their queries of this
        row's candidate; never so for a row and itself.
        """
        return self.whole()[self.own]

    def whole(self) -> Tensor:
        """Bool `[W·B, W·B]`: the same of all rows: they ask the same, or are answered by the same, or one asks with
        what answers the other.
        """
        query, answer = self.all_keys[:, 0], self.all_keys[:, 1]
        echo = query[:, None, 0] == answer[None, :, 0]
        same = self._asked() | _agree(answer[:, None], answer[None]) | echo | echo.T
        return same.fill_diagonal_(False)

    def spoilt(self) -> Tensor:
        """Bool `[B, K]`: a hard negative that is in truth right: this row's candidate, or one of a row that asks the
        same; or that is what the query asks with.
        """
        asked, answer = self._asked()[self.own], self.all_keys[:, 1]
        hard = self.keys[:, 2:]
        right = (_agree(hard[:, :, None], answer[None, None]) & asked[:, None]).any(dim=2)
        return right | (hard[..., 0] == self.keys[:, :1, 0])

    def _asked(self) -> Tensor:
        """Bool `[W·B, W·B]`: rows with one query."""
        content = self.all_keys[:, 0, 0]
        return content[:, None] == content[None]


def _agree(one: Tensor, other: Tensor) -> Tensor:
    """Whether keys `[…, F]` agree in any way: bool `[…]`."""
    return (one == other).any(dim=-1)


def _wide(rows: Tensor) -> Tensor:
    """In 32 bits at least: 16 are too coarse for cosines that are divided by 0.03."""
    return rows if rows.element_size() > 4 else rows.float()


class Criterion(Protocol):
    """A loss of pairs."""

    def __call__(self, pairs: Pairs) -> Tensor:
        """The loss of each own row: float32 `[B]`."""


@dataclass(frozen=True)
class InfoNCE:
    """Symmetric InfoNCE (GVE Eq. 1).

    Attributes:
        temperature: τ.
        margin: a candidate that scores more than the positive plus this is taken for a false negative and left out;
            `None`: none is.
    """

    temperature: float = 0.03
    margin: float | None = None

    def __call__(self, pairs: Pairs) -> Tensor:
        import torch

        alike, own = pairs.alike(), pairs.own
        there = _wide(pairs.query) @ _wide(pairs.candidates).T
        back = _wide(pairs.positive) @ _wide(pairs.queries).T
        hard = torch.einsum("bd,bkd->bk", _wide(pairs.query), _wide(pairs.negative))
        right = there.gather(1, own[:, None])
        there = self._masked(there, alike, right, own)
        back = self._masked(back, alike, right, own)
        hard = self._masked(hard, pairs.spoilt(), right, None)
        forward = torch.nn.functional.cross_entropy(torch.cat([there, hard], dim=1), own, reduction="none")
        reverse = torch.nn.functional.cross_entropy(back, own, reduction="none")
        return (forward + reverse) / 2

    def _masked(self, scores: Tensor, out: Tensor, right: Tensor, own: Tensor | None) -> Tensor:
        """Logits, with what is no negative left out."""
        if self.margin is not None:
            false = scores.detach() > right.detach() + self.margin
            if own is not None:
                false[range(len(own)), own] = False
            out = out | false
        return (scores / self.temperature).masked_fill(out, float("-inf"))


@dataclass(frozen=True)
class DualSoftmax:
    """Dual-softmax loss (CAMoE; VidVec's text-only tuning): each score is weighed by the share its row has of its
    column before the rows' softmax is taken, and the other way round. It knows no hard negatives.

    Attributes:
        temperature: of the scores.
        prior: of the softmax that weighs them.
    """

    temperature: float = 0.05
    prior: float = 0.05

    def __call__(self, pairs: Pairs) -> Tensor:
        import torch

        if pairs.negative.shape[1]:
            raise ReelspaceError("The dual-softmax loss takes no hard negatives; leave them out of the task.")
        same, own = pairs.whole(), pairs.own
        whole = _wide(pairs.queries) @ _wide(pairs.candidates).T
        losses = []
        for table in (whole, whole.T):
            share = torch.softmax((table / self.prior).masked_fill(same, float("-inf")), dim=0) * len(table)
            logits = (table * share / self.temperature).masked_fill(same, float("-inf"))[own]
            losses.append(torch.nn.functional.cross_entropy(logits, own, reduction="none"))
        return (losses[0] + losses[1]) / 2


@dataclass(frozen=True)
class Matryoshka:
    """The mean of a loss over the first `dims` numbers of each embedding (arXiv 2205.13147)."""

    inner: Criterion
    dims: tuple[int, ...]

    def __call__(self, pairs: Pairs) -> Tensor:
        total = sum(self.inner(_truncated(pairs, dim)) for dim in self.dims)
        return total / len(self.dims)


def _truncated(pairs: Pairs, dim: int) -> Pairs:
    import torch

    def cut(rows: Tensor) -> Tensor:
        return torch.nn.functional.normalize(rows[..., :dim], dim=-1)

    return Pairs(
        cut(pairs.query),
        cut(pairs.positive),
        cut(pairs.negative),
        cut(pairs.queries),
        cut(pairs.candidates),
        pairs.keys,
        pairs.all_keys,
        pairs.offset,
    )


def paired(query: Tensor, positive: Tensor, negatives: Sequence[Tensor], keys: Tensor, gather: bool = True) -> Pairs:
    """The pairs of a batch, with the other processes' where there are any.

    Args:
        query, positive: `[B, d]`.
        negatives: K tensors `[B, d]`.
        keys: int64 `[B, 2 + K, F]`, or `[B, 2 + K]` where each part has one name.
        gather: whether the other processes' pairs are negatives too; gradients flow back to them.
    """
    import torch
    import torch.distributed.nn

    spread = gather and torch.distributed.is_available() and torch.distributed.is_initialized()

    def everyone(rows: Tensor) -> Tensor:
        return torch.cat(torch.distributed.nn.all_gather(rows)) if spread else rows

    hard = torch.stack(list(negatives), dim=1) if negatives else query.new_zeros(len(query), 0, query.shape[1])
    offset = torch.distributed.get_rank() * len(query) if spread else 0
    keys = keys[..., None] if keys.ndim == 2 else keys
    return Pairs(query, positive, hard, everyone(query), everyone(positive), keys, _gathered(keys, spread), offset)


def _gathered(keys: Tensor, spread: bool) -> Tensor:
    import torch

    if not spread:
        return keys
    parts = [torch.empty_like(keys) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(parts, keys.contiguous())
    return torch.cat(parts)


@dataclass
class Shown:
    """What a step showed, for the log (GVE A.10): sums over rows, so that steps can be added up.

    Attributes:
        rows: how many pairs.
        loss, positive, mean: sums of the loss, of the cosine of each pair, and of the mean cosine of a query with all
            candidates.
        gap: sum of how far the pair stands above the best other candidate of the batch.
        margin: sum of how far it stands above its best hard negative; of `hard` rows.
        hard: pairs that have hard negatives, those that are in truth right left out.
    """

    rows: int = 0
    loss: float = 0.0
    positive: float = 0.0
    mean: float = 0.0
    gap: float = 0.0
    margin: float = 0.0
    hard: int = 0

    def add(self, pairs: Pairs, losses: Tensor) -> None:
        """Takes in the pairs of a step and the loss of each."""
        import torch

        with torch.no_grad():
            scores = _wide(pairs.query) @ _wide(pairs.candidates).T
            right = scores.gather(1, pairs.own[:, None])[:, 0]
            others = scores.masked_fill(pairs.alike(), float("-inf"))
            others[range(len(right)), pairs.own] = float("-inf")
            nearest = others.max(dim=1).values
            self.rows += len(right)
            self.loss += float(losses.sum())
            self.positive += float(right.sum())
            self.mean += float(scores.mean(dim=1).sum())
            self.gap += float((right - nearest)[nearest.isfinite()].sum())
            if pairs.negative.shape[1]:
                hard = torch.einsum("bd,bkd->bk", _wide(pairs.query), _wide(pairs.negative))
                best = hard.masked_fill(pairs.spoilt(), float("-inf")).max(dim=1).values
                self.margin += float((right - best)[best.isfinite()].sum())
                self.hard += int(best.isfinite().sum())

    def means(self) -> dict[str, float]:
        """The means, under the names they are logged by."""
        if not self.rows:
            return {}
        found = {
            "mean_score": self.mean / self.rows,
            "mean_positive_score": self.positive / self.rows,
            "max_negative_gap": self.gap / self.rows,
        }
        if self.hard:
            found["hard_negative_margin"] = self.margin / self.hard
        return found


def make_loss(model: Any, criterion: Criterion, tokens: int | None = None, gather: bool = True) -> torch.nn.Module:
    """The loss as sentence-transformers' trainer takes it: an `nn.Module` called with the features of each column and
    the keys as labels.

    Args:
        model: the `SentenceTransformer`.
        criterion: what to compute.
        tokens: most tokens of a micro-batch. With it the batch is embedded in pieces and the gradients are exact all
            the same (GradCache, arXiv 2101.06983), at the price of a second forward pass; without it, all at once.
        gather: whether the pairs of other processes are negatives too.
    """
    from sentence_transformers.base.losses import CachedLossMixin
    from torch import nn

    class ContrastiveLoss(CachedLossMixin, nn.Module):  # type: ignore[misc]
        """In pieces or at once, the same function."""

        uses_gradient_cache = tokens is not None

        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.mini_batch_size = 1
            self.mini_batch_num_tokens = tokens
            self.show_progress_bar = False
            self.shown = Shown()

        def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
            features = list(sentence_features)
            if tokens is not None:
                return self.forward_cached(features, labels)
            reps = [[self.model(column)["sentence_embedding"]] for column in features]
            return self.calculate_loss(reps, labels)

        def calculate_loss(
            self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
        ) -> Tensor:
            import torch

            query, positive, *negatives = (torch.cat(column) for column in reps)
            pairs = paired(query, positive, negatives, labels, gather)
            losses = criterion(pairs)
            self.shown.add(pairs, losses.detach())
            loss = losses.mean()
            if with_backward:
                loss.backward()
                loss = loss.detach()
            return loss

        def get_config_dict(self) -> dict[str, Any]:
            return {"criterion": repr(criterion), "micro_batch_tokens": tokens, "gather_across_devices": gather}

    return ContrastiveLoss()
