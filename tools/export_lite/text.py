"""all-MiniLM-L6-v2 (a BERT of 6 layers; Reimers & Gurevych's sentence-transformers) as an ONNX graph.

Mean pooling and L2 normalisation are in the graph. There is no attention mask: texts are run in groups of equal length,
so there is no padding, and a vector cannot depend on its neighbours.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from graph import Graph
from numpy.typing import NDArray
from onnx import TensorProto
from safetensors.numpy import load_file

DIM = 384
HEADS = 12
LAYERS = 6
State = dict[str, NDArray[np.float32]]


def read_weights(path: Path) -> State:
    """The checkpoint's tensors, by their Hugging Face names."""
    return {key: value.astype(np.float32) for key, value in load_file(path).items() if "position_ids" not in key}


def _linear(g: Graph, state: State, x: str, name: str) -> str:
    weight = g.int8(f"{name}.weight", state[f"{name}.weight"].T, kept=1)
    return g.op("Add", g.op("MatMul", x, weight), g.constant(f"{name}.bias", state[f"{name}.bias"]))


def _norm(g: Graph, state: State, x: str, name: str) -> str:
    weight = g.constant(f"{name}.weight", state[f"{name}.weight"])
    bias = g.constant(f"{name}.bias", state[f"{name}.bias"])
    return g.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-12)


def _heads(g: Graph, x: str) -> str:
    """[n, t, 384] → [n, 12, t, 32]."""
    return g.op("Transpose", g.op("Reshape", x, "split_heads"), perm=[0, 2, 1, 3])


def _attention(g: Graph, state: State, x: str, name: str) -> str:
    q, k, v = (_heads(g, _linear(g, state, x, f"{name}.self.{part}")) for part in ("query", "key", "value"))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    weights = g.op("Softmax", g.op("Mul", scores, "attention_scale"), axis=-1)
    mixed = g.op("Transpose", g.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    return _linear(g, state, g.op("Reshape", mixed, "join_heads"), f"{name}.output.dense")


def _layer(g: Graph, state: State, x: str, name: str) -> str:
    x = _norm(
        g, state, g.op("Add", x, _attention(g, state, x, f"{name}.attention")), f"{name}.attention.output.LayerNorm"
    )
    inner = g.op("Gelu", _linear(g, state, x, f"{name}.intermediate.dense"))
    return _norm(g, state, g.op("Add", x, _linear(g, state, inner, f"{name}.output.dense")), f"{name}.output.LayerNorm")


def _embed(g: Graph, state: State) -> str:
    """Word plus position; the token-type row is always the first, so it is folded into the positions."""
    positions = state["embeddings.position_embeddings.weight"] + state["embeddings.token_type_embeddings.weight"][0]
    words = g.int8_rows("words", state["embeddings.word_embeddings.weight"], "ids")
    length = g.op("Shape", "ids", start=1, end=2)
    table = g.op("Slice", g.half("positions", positions), g.constant("start", np.array([0])), length)
    return _norm(g, state, g.op("Add", words, table), "embeddings.LayerNorm")


def export(state: State, path: Path) -> None:
    """Write the graph: int64 token ``ids`` [n, t] of equal length → unit ``vectors`` [n, 384]."""
    g = Graph("minilm_l6")
    g.constant("attention_scale", np.array((DIM // HEADS) ** -0.5, np.float32))
    g.constant("split_heads", np.array([0, 0, HEADS, DIM // HEADS]))
    g.constant("join_heads", np.array([0, 0, DIM]))
    x = _embed(g, state)
    for number in range(LAYERS):
        x = _layer(g, state, x, f"encoder.layer.{number}")
    mean = g.op("ReduceMean", x, g.constant("over_tokens", np.array([1])), keepdims=0)
    g.op("LpNormalization", mean, out="vectors", axis=1, p=2)
    g.save(path, {"ids": (TensorProto.INT64, ["n", "t"])}, {"vectors": ["n", DIM]})
