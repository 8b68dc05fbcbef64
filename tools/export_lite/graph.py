"""A few lines around ``onnx.helper``: nodes with readable names, weights stored small and decoded in the graph.

The graphs are written node by node instead of traced, so the bytes depend on the weights and on this file alone:
no exporter version, no stack traces, no paths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 20  # the first with Gelu; onnxruntime ≥ 1.17
IR_VERSION = 9


class Graph:
    """Collects nodes and weights; every method returns the name of the tensor it made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add one node; its output is called ``out`` or numbered."""
        out = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=out, **attributes))
        return out

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Store an array as it is."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def half(self, name: str, value: NDArray[np.float32]) -> str:
        """Store as float16, compute in float32: the cast is folded away when the session loads."""
        stored = self.constant(name + ".f16", value.astype(np.float16))
        return self.op("Cast", stored, out=name, to=TensorProto.FLOAT)

    def int8(self, name: str, value: NDArray[np.float32], kept: int) -> str:
        """Store as int8 with one scale per slice of the axis ``kept``, compute in float32 (folded at load, as above).

        Only the weights are rounded. Dynamic int8 rounds the activations too, by a scale taken over the whole
        batch, so a vector would depend on its neighbours and on the processor's int8 instructions.
        """
        stored, scale = self._rounded(name, value, kept)
        as_float = self.op("Cast", stored, out=f"{name}.cast", to=TensorProto.FLOAT)
        return self.op("Mul", as_float, scale, out=name)

    def int8_rows(self, name: str, table: NDArray[np.float32], rows: str) -> str:
        """The ``rows`` of a table stored as int8 with one scale per row; only what is looked up is decoded."""
        stored, scale = self._rounded(name, table, kept=0)
        as_float = self.op("Cast", self.op("Gather", stored, rows), to=TensorProto.FLOAT)
        return self.op("Mul", as_float, self.op("Gather", scale, rows), out=name)

    def _rounded(self, name: str, value: NDArray[np.float32], kept: int) -> tuple[str, str]:
        others = tuple(axis for axis in range(value.ndim) if axis != kept)
        scale = np.maximum(np.abs(value).max(axis=others, keepdims=True) / 127, 1e-12).astype(np.float32)
        rounded = np.rint(value / scale).astype(np.int8)
        return self.constant(f"{name}.i8", rounded), self.constant(f"{name}.scale", scale)

    def save(self, path: Path, inputs: dict[str, tuple[int, list[Any]]], outputs: dict[str, list[Any]]) -> None:
        """Check and write; ``inputs`` name → (element type, shape), ``outputs`` name → shape (float32)."""
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in outputs.items()],
            self.weights,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="reelspace export_lite",
        )
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString(deterministic=True))
