"""The suites as mteb's tasks, and our embedders as mteb's models.

    import mteb
    from reelspace.embed import load
    from reelspace.uvrb.on_mteb import ReelspaceEncoder, benchmark
    from reelspace.uvrb.run import Suite

    mteb.evaluate(ReelspaceEncoder(load("lite")), benchmark(Suite("worlds")).tasks)

Any mteb model runs these tasks, without torchcodec: a video comes as a `reelspace.uvrb.decoder.VideoDecoder`. The
scores are those of `reelspace uvrb run`. Importing this module imports mteb, which takes seconds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import datasets
import mteb
import numpy as np
from datasets.features.features import register_feature
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from reelspace.embed import load
from reelspace.embed.base import Embedder, Vectors
from reelspace.errors import ReelspaceError
from reelspace.item import Item, Span
from reelspace.uvrb.adapters import decoded
from reelspace.uvrb.cache import default_folder
from reelspace.uvrb.data import Loaded
from reelspace.uvrb.decoder import VideoDecoder
from reelspace.uvrb.protocol import Protocol
from reelspace.uvrb.run import PREFIX, Suite
from reelspace.uvrb.tasks import TaskFacts

PAPER = "https://arxiv.org/abs/2510.27571"
CITATION = r"""@article{guo2025universal,
  author = {Guo, Zhuoning and Li, Mingxin and Zhang, Yanzhao and Long, Dingkun and Xie, Pengjun and Chu, Xiaowen},
  journal = {arXiv preprint arXiv:2510.27571},
  title = {Towards Universal Video Retrieval},
  year = {2025},
}"""
_CODES = {"text": "t", "image": "i", "video": "v", "image+text": "it", "video+text": "vt"}


@dataclass
class PlainVideo(datasets.Video):  # type: ignore[misc]
    """A column of videos that come out as our decoders; `datasets.Video` itself needs torchcodec."""

    _type: str = field(default="PlainVideo", init=False, repr=False)
    dtype: ClassVar[str] = "reelspace.uvrb.decoder.VideoDecoder"

    def decode_example(self, value: Any, token_per_repo_id: Any = None) -> Any:
        """A decoder of a file, given its path or its bytes; of a stretch of it, where the path says so."""
        if not isinstance(value, str | dict):
            return value
        path, content = (value, None) if isinstance(value, str) else (value.get("path"), value.get("bytes"))
        return VideoDecoder(content) if content is not None else VideoDecoder(Span.parse(str(path)))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it says that it may change
    register_feature(PlainVideo, "PlainVideo")


class Retrieval(AbsTaskRetrieval):  # type: ignore[misc]
    """A task of a suite. Its data are loaded by `reelspace`, from a folder; nothing is taken from a hub."""

    k_values = (1, 3, 5, 10, 20, 100, 1000)
    suite: ClassVar[Suite]
    facts: ClassVar[TaskFacts]
    cache: ClassVar[Path]
    data_loaded: bool = False

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        """Loads the data.

        Raises:
            ReelspaceError: they are not there, or an item is unusable: mteb has no place for failures.
        """
        if self.data_loaded:
            return
        loaded = self.suite.load(self.facts, self.cache)
        if loaded.faults:
            fault = loaded.faults[0]
            raise ReelspaceError(f"{fault.task}: {fault.side} {fault.id}: {fault.reason}")
        self.dataset = {"default": {"test": split(loaded)}}
        self.data_loaded = True


def split(loaded: Loaded) -> RetrievalSplitData:
    """A task's data as mteb takes them; pools are its `top_ranked`."""
    return RetrievalSplitData(
        corpus=_table(loaded.corpus, loaded.task.candidate),
        queries=_table(loaded.queries, loaded.task.query),
        relevant_docs={query: dict.fromkeys(sorted(right), 1) for query, right in loaded.right.items()},
        top_ranked=None if loaded.pools is None else {query: list(pool) for query, pool in loaded.pools.items()},
    )


def _table(items: Mapping[str, Item], modality: str) -> datasets.Dataset:
    kinds: dict[str, Any] = {"text": datasets.Value("string"), "image": datasets.Image(), "video": PlainVideo()}
    parts = modality.split("+")
    columns: dict[str, list[Any]] = {"id": list(items), **{part: [] for part in parts}}
    for item in items.values():
        for part in parts:
            value = getattr(item, part)
            columns[part].append(value if part == "text" else str(value))
    features = datasets.Features({"id": datasets.Value("string"), **{part: kinds[part] for part in parts}})
    return datasets.Dataset.from_dict(columns, features=features)


def task(suite: Suite, facts: TaskFacts, cache: Path | None = None) -> Retrieval:
    """A task of a suite for mteb.

    Args:
        suite: where its data are, and how much of them is used.
        facts: which task.
        cache: the folder that worlds are drawn into; None: the usual one.
    """
    name = f"{PREFIX[suite.name]}{facts.name}"
    modalities = list(dict.fromkeys([*facts.query.split("+"), *facts.candidate.split("+")]))
    metadata = TaskMetadata(
        name=name,
        description=f"{facts.dataset}: {facts.query} to {facts.candidate}, {facts.metric}.",
        reference=PAPER,
        dataset={
            "path": "Alibaba-NLP/UVRB" if suite.name == "uvrb" else f"reelspace/{suite.name}",
            "revision": "local",
        },
        type="Any2AnyRetrieval",
        category=f"{_CODES[facts.query]}2{_CODES[facts.candidate]}",
        modalities=modalities,
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=facts.metric.replace("@", "_at_"),
        prompt={"query": facts.instruction},
        date=("2025-01-01", "2025-10-31"),
        domains=["Web"],
        task_subtypes=[],
        license="not specified",
        annotations_creators="derived",
        dialect=[],
        sample_creation="found",
        bibtex_citation=CITATION,
        is_public=True,
    )
    made = type(
        name.replace("-", ""),
        (Retrieval,),
        {
            "metadata": metadata,
            "suite": suite,
            "facts": facts,
            "cache": cache or default_folder(),
            "__module__": __name__,
        },
    )
    built: Retrieval = made()
    return built


def benchmark(suite: Suite, cache: Path | None = None) -> mteb.Benchmark:
    """A suite as an mteb benchmark: its chosen tasks, cheap ones first."""
    return mteb.Benchmark(
        name={"uvrb": "UVRB", "worlds": "UVRB-Worlds"}.get(suite.name, suite.name),
        tasks=[task(suite, facts, cache) for facts in suite.facts()],
        description="Universal video retrieval: 16 tasks, nine abilities.",
        reference=PAPER,
        citation=CITATION,
    )


class ReelspaceEncoder(AbsEncoder):  # type: ignore[misc]
    """An embedder of ours as mteb's encoder.

    Args:
        embedder: an embedder, or the name of one.
        revision: ignored: the embedder's fingerprint is what tells its vectors.
        protocol: which frames it is given; None: as it declares.
    """

    def __init__(
        self, embedder: Embedder | str, revision: str | None = None, protocol: Protocol | None = None, **kwargs: Any
    ) -> None:
        self.model = load(embedder) if isinstance(embedder, str) else embedder
        self._sampling = (protocol or Protocol()).sampling(self.model)
        self.mteb_model_meta = model_meta(self.model)

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> Vectors:
        """Vectors of everything the loader gives, float32 `[n, d]`, unit rows.

        Raises:
            EncodeError: items could not be embedded: mteb has no place for failures.
        """
        kept = [np.empty((0, self.model.dim), dtype=np.float32)]
        told = instruction(task_metadata)
        for items in self._batches(inputs):
            if prompt_type == PromptType.document:
                kept.append(self.model.encode_candidate(items))
            else:
                kept.append(self.model.encode_query(items, told))
        return np.concatenate(kept)

    def _batches(self, inputs: Any) -> Iterator[list[Item]]:
        rows = without_torchcodec(inputs.dataset)
        size = inputs.batch_size or 1
        for start in range(0, len(rows), size):
            yield [self._item(rows[at]) for at in range(start, min(start + size, len(rows)))]

    def _item(self, row: Mapping[str, Any]) -> Item:
        taken = {part for kinds in self.model.modalities for part in kinds.split("+")}
        given = {part: row[part] for part in ("text", "image", "video") if part in taken and row.get(part) is not None}
        if isinstance(given.get("video"), VideoDecoder):
            given["video"] = given["video"].item.video
        return decoded(Item(**given), self._sampling)


def without_torchcodec(table: Any) -> Any:
    """A table whose videos come out as our decoders."""
    features = getattr(table, "features", None) or {}
    if isinstance(features.get("video"), datasets.Video) and not isinstance(features["video"], PlainVideo):
        return table.cast_column("video", PlainVideo())
    return table


def instruction(metadata: TaskMetadata) -> str | None:
    """The instruction that a task carries itself; None if it has none."""
    prompt = metadata.prompt
    return prompt.get("query") if isinstance(prompt, dict) else prompt


def model_meta(embedder: Embedder) -> ModelMeta:
    """What mteb wants to know of an embedder. Its revision is its fingerprint: results are never mixed up."""
    parts = {part for kinds in embedder.modalities for part in kinds.split("+")}
    return ModelMeta.create_empty(
        {
            "name": f"reelspace/{embedder.name.replace('/', '__')}",
            "revision": embedder.fingerprint,
            "languages": ["eng-Latn"],
            "embed_dim": embedder.dim,
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": True,
            "modalities": sorted(parts),
        }
    )
