"""Which layer of a model to read: every layer's retrieval on labelled pairs, with how sure that is.

R@1 says how often the right video (text) is nearest to its text (video). Alignment is the mean squared distance of a
pair, uniformity the logarithm of the mean Gaussian kernel of two items of one side (Wang and Isola 2020): pairs should
be near, the rest spread out; of both, less is better. Intervals are of a bootstrap over pairs.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ItemError, MediaError, ModelError
from reelspace.item import Item, Span, parse_seconds
from reelspace.rank import dual_softmax

if TYPE_CHECKING:
    from reelspace.media.policy import Sampling
    from reelspace.media.reader import Reader

Rows = NDArray[np.float32]
Tap = tuple[int | None, bool]
DRAWS = 1000
AT_ONCE = 16  # videos in memory together
LEVEL = 0.95


class Layered(Protocol):
    """An embedder that can be read at any layer."""

    @property
    def sampling(self) -> Sampling:
        """How it takes frames."""

    def encode_layers(self, items: Sequence[Item], side: str, taps: Sequence[Tap]) -> Rows:
        """Unit rows float32 `[taps, n, d]`."""


class Pair(NamedTuple):
    """A text and the video it belongs to."""

    text: str
    video: Span


class Measured(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Layer:
    """What is measured at one place of a model.

    Attributes:
        layer: after how many layers; 0 are the embeddings.
        norm: whether the final norm was applied.
        recall: mean of both directions; `text_to_video` and `video_to_text` are theirs.
        alignment, uniformity: see the module.
    """

    layer: int
    norm: bool
    recall: Measured
    text_to_video: Measured
    video_to_text: Measured
    alignment: Measured
    uniformity: Measured


@dataclass(frozen=True)
class Probe:
    """A sweep over the layers.

    Attributes:
        pairs: how many pairs it rests on.
        layers: all that were looked at.
        picked: the one with the highest recall; of equals the deepest, with the norm.
        over_last: how much its recall is above that of the last layer with the norm, by a paired bootstrap.
        held_out: recall of what is picked on one half of the pairs, measured on the other half, mean of both ways: what
            to expect of a choice made so. (The interval of `picked` is of a layer named before looking.)
        dual: what dual softmax adds at the picked layer: fitted on one half, measured on the other. Transductive: it
            needs all queries at once, and is never to be compared with the rest.
    """

    pairs: int
    layers: tuple[Layer, ...]
    picked: Layer
    over_last: Measured
    held_out: float
    dual: dict[str, float]


def read_pairs(path: Path) -> list[Pair]:
    """Pairs of a CSV file with a header `text,path[,start,end]`, or of JSON Lines with these keys.

    Paths are relative to the file; `start` and `end` are seconds or `m:ss`, and may be left empty.

    Raises:
        ItemError: a line that cannot be understood, or no pair at all.
    """
    content = path.read_bytes().decode("utf-8-sig", "surrogateescape")
    pairs = []
    for number, row in _rows(content, path):
        try:
            times = [None if row.get(key) in (None, "") else parse_seconds(str(row[key])) for key in ("start", "end")]
            video = Span(path.parent / str(row["path"]), times[0] or 0.0, times[1])
            pairs.append(Pair(str(Item(text=row["text"]).text), video))
        except KeyError as error:
            raise ItemError(
                f"{path}:{number}: there is no {error}; a pair has text, path and may have start, end."
            ) from None
        except ItemError as error:
            raise ItemError(f"{path}:{number}: {error}") from None
    if len(pairs) < 2:
        raise ItemError(f"{path}: {len(pairs)} pairs are nothing to retrieve among; give a few dozen or more.")
    return pairs


def _rows(content: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if content.lstrip().startswith("{"):
        for number, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise ItemError(f"{path}:{number}: is no JSON: {error}") from None
                if not isinstance(row, dict):
                    raise ItemError(f"{path}:{number}: a line must be an object.")
                yield number, row
        return
    reader = csv.DictReader(io.StringIO(content))
    for row in reader:
        yield reader.line_num, row


def probe(
    model: Layered,
    pairs: Sequence[Pair],
    layers: int,
    reader: Reader,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Probe, list[str]]:
    """Measures every layer, and says which pairs could not be read.

    Args:
        model: what to look into.
        layers: how many it has.
        progress: called with how many of how many items are embedded.

    Raises:
        ModelError: the model fails, or fewer than two pairs are left.
    """
    taps: list[Tap] = [(layer, norm) for layer in range(layers + 1) for norm in (True, False)]
    good: list[Pair] = []
    parts: list[Rows] = []
    failed = []
    for start in range(0, len(pairs), AT_ONCE):
        read: list[tuple[Pair, Item]] = []
        for pair in pairs[start : start + AT_ONCE]:
            try:
                read.append((pair, Item(video=reader.sample(pair.video, model.sampling))))
            except MediaError as error:
                failed.append(str(error))
        if read:
            parts.append(model.encode_layers([item for _, item in read], "candidate", taps))
            good += [pair for pair, _ in read]
        if progress is not None:
            progress(min(start + AT_ONCE, len(pairs)), len(pairs))
    if len(good) < 2:
        raise ModelError(f"Only {len(good)} of {len(pairs)} pairs could be read: {failed[0]}")
    videos = np.concatenate(parts, axis=1)
    texts = model.encode_layers([Item(text=pair.text) for pair in good], "query", taps)
    return measured(texts, videos, good, taps), failed


def measured(texts: Rows, videos: Rows, pairs: Sequence[Pair], taps: Sequence[Tap], seed: int = 0) -> Probe:
    """The sweep, from unit rows float32 `[taps, n, d]` of the texts and of the videos of n pairs."""
    count = len(pairs)
    said, seen = [pair.text for pair in pairs], [str(pair.video) for pair in pairs]
    # Several videos may have one text, and several texts one video: any of them is right.
    alike = np.array(
        [[a == b or c == d for b, d in zip(said, seen, strict=True)] for a, c in zip(said, seen, strict=True)]
    )
    draws = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=DRAWS).astype(np.float64)
    rows = [_layer(texts[at], videos[at], alike, draws, *taps[at]) for at in range(len(taps))]
    hits = np.stack([row[1] for row in rows])  # [taps, n], mean of both directions
    best = _best([row[0] for row in rows], hits)
    last = max(range(len(taps)), key=lambda at: (taps[at][0] or 0, taps[at][1]))
    halves = np.arange(count) % 2 == 0
    crossed = [
        float(hits[_best([row[0] for row in rows], hits[:, own])][~own].mean())
        for own in (halves, ~halves)
        if own.any()
    ]
    return Probe(
        pairs=count,
        layers=tuple(row[0] for row in rows),
        picked=rows[best][0],
        over_last=_interval(hits[best] - hits[last], draws),
        held_out=float(np.mean(crossed)),
        dual=_dual(texts[best] @ videos[best].T, halves, alike),
    )


def _best(layers: Sequence[Layer], hits: NDArray[np.float64]) -> int:
    means = hits.mean(axis=1)
    return max(range(len(layers)), key=lambda at: (round(float(means[at]), 9), layers[at].norm, layers[at].layer))


def _layer(
    texts: Rows, videos: Rows, alike: NDArray[np.bool_], draws: NDArray[np.float64], layer: int | None, norm: bool
) -> tuple[Layer, NDArray[np.float64]]:
    scores = texts @ videos.T
    ways = [_hits(scores, alike), _hits(scores.T, alike.T)]
    both = (ways[0] + ways[1]) / 2
    apart = ((texts - videos).astype(np.float64) ** 2).sum(axis=1)
    spread = [_uniformity(rows, draws) for rows in (texts, videos)]
    uniform = [(one + other) / 2 for one, other in zip(*spread, strict=True)]
    made = Layer(
        layer=layer or 0,
        norm=norm,
        recall=_interval(both, draws),
        text_to_video=_interval(ways[0], draws),
        video_to_text=_interval(ways[1], draws),
        alignment=_interval(apart, draws),
        uniformity=_quantiles(uniform[0][0], uniform[1]),
    )
    return made, both


def _hits(scores: Rows, right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For each row, what it may expect of R@1 if what scores equally best is drawn from by lot."""
    best = scores >= scores.max(axis=1, keepdims=True)
    return np.asarray((best & right).sum(axis=1) / best.sum(axis=1), dtype=np.float64)


def _interval(values: NDArray[np.float64], draws: NDArray[np.float64]) -> Measured:
    return _quantiles(float(values.mean()), draws @ values / draws.sum(axis=1))


def _quantiles(value: float, drawn: NDArray[np.float64]) -> Measured:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Measured(float(value), float(low), float(high))


def _uniformity(rows: Rows, draws: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`log E exp(−2 |x − y|²)` over two different items: as it is `[1]`, and of every draw."""
    kernel = np.exp(-4 * (1 - np.clip(rows @ rows.T, -1, 1)).astype(np.float64))  # |x − y|² = 2 − 2 x·y
    np.fill_diagonal(kernel, 0.0)

    def of(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        pairs = weights.sum(axis=1) ** 2 - (weights**2).sum(axis=1)
        mean = ((weights @ kernel) * weights).sum(axis=1) / np.maximum(pairs, 1e-12)
        return np.asarray(np.log(np.maximum(mean, 1e-300)), dtype=np.float64)

    return of(np.ones((1, len(rows)))), of(draws)


def _dual(scores: Rows, first: NDArray[np.bool_], alike: NDArray[np.bool_]) -> dict[str, float]:
    """Recall on the second half, plain and with dual softmax fitted on the first; empty where that makes no sense."""
    own, other = np.flatnonzero(first), np.flatnonzero(~first)
    if len(other) < 2 or alike.sum() > len(alike):  # it is fitted on pairs in which nothing is shared
        return {}
    tuned = dual_softmax.fit(scores[np.ix_(own, own)], right=range(len(own)))
    held = scores[np.ix_(other, other)]
    right = np.eye(len(other), dtype=bool)
    forward, backward = tuned(held)
    return {
        "pairs": float(len(other)),
        "text_to_video": float(_hits(held, right).mean()),
        "video_to_text": float(_hits(held.T, right).mean()),
        "text_to_video_dual": float(_hits(forward, right).mean()),
        "video_to_text_dual": float(_hits(backward, right).mean()),
        "temperature_forward": float(tuned.forward or 0.0),
        "temperature_backward": float(tuned.backward or 0.0),
    }


# The plot.

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 360, 56, 36, 16, 44


def plotted(found: Probe, title: str) -> str:
    """Recall by layer as an SVG: with the final norm as a line in its interval, without it dashed."""
    from xml.sax.saxutils import escape

    deepest = max(layer.layer for layer in found.layers) or 1
    top = max(0.05, *(layer.recall.high for layer in found.layers))
    top = min(1.0, float(np.ceil(top * 10)) / 10)

    def x(layer: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * layer / deepest, 1)

    def y(value: float) -> float:
        return round(float(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for step in range(6):
        value = top * step / 5
        parts.append(f'<path d="M{_LEFT} {y(value)}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:.2f}</text>')
    every = max(1, round(deepest / 14))
    for layer in range(0, deepest + 1, every):
        parts.append(f'<text x="{x(layer)}" y="{_HEIGHT - 24}" text-anchor="middle">{layer}</text>')
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">layer (0: embeddings)</text>')
    parts.append(
        f'<text transform="translate(14 {_HEIGHT // 2}) rotate(-90)" text-anchor="middle">R@1, both directions</text>'
    )
    for norm, colour, dash in ((False, "#b3541e", ' stroke-dasharray="5 4"'), (True, "#1f5fa8", "")):
        line = [layer for layer in found.layers if layer.norm == norm]
        if not line:
            continue
        upper = [f"{x(layer.layer)},{y(layer.recall.high)}" for layer in line]
        lower = [f"{x(layer.layer)},{y(layer.recall.low)}" for layer in reversed(line)]
        if norm:
            parts.append(f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" fill-opacity="0.15"/>')
        points = " ".join(f"{x(layer.layer)},{y(layer.recall.value)}" for layer in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
    picked = found.picked
    parts.append(f'<circle cx="{x(picked.layer)}" cy="{y(picked.recall.value)}" r="5" fill="none" stroke="#111"/>')
    named = f"picked: {picked.layer}{'' if picked.norm else ', without the norm'}"
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="20" text-anchor="end">{named} · dashed: without the norm</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
