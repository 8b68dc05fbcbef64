"""EfficientNet-Lite0 (Tan & Le 2019; the Lite variant of 2020) as an ONNX graph.

Lite: ReLU6 instead of swish, no squeeze-and-excite, stem and head not scaled. The weights are TensorFlow's, so padding
is TF "SAME", batch-norm epsilon 1e-3 and pixels are ``(x − 127) / 128``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from graph import Graph
from numpy.typing import NDArray
from onnx import TensorProto

SIDE = 224
FEATURES = 1280
CLASSES = 1000
# (repeats, kernel, stride, expand, channels in, channels out)
STAGES = [
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
]
State = dict[str, NDArray[np.float32]]


def read_weights(path: Path) -> State:
    """The checkpoint's tensors (lukemelas' key style: ``_blocks.N._depthwise_conv.weight``)."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    return {key: value.numpy().astype(np.float32) for key, value in state.items()}


def _conv(g: Graph, state: State, x: str, conv: str, norm: str, *, stride: int = 1, groups: int = 1) -> str:
    """Convolution with the batch norm behind it folded in."""
    scale = state[f"{norm}.weight"] / np.sqrt(state[f"{norm}.running_var"] + 1e-3)
    weight = state[f"{conv}.weight"] * scale[:, None, None, None]
    bias = state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale
    kernel = weight.shape[2]
    return g.op(
        "Conv",
        x,
        g.half(conv, weight),
        g.constant(f"{conv}.bias", bias),
        auto_pad="SAME_UPPER",
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        group=groups,
    )


def _relu6(g: Graph, x: str) -> str:
    return g.op("Clip", x, "zero", "six")


def _block(g: Graph, state: State, x: str, name: str, stride: int, expand: int, cin: int, cout: int) -> str:
    """One inverted bottleneck: expand, depthwise, project, and the shortcut where shapes allow."""
    y = x
    if expand != 1:
        y = _relu6(g, _conv(g, state, y, f"{name}._expand_conv", f"{name}._bn0"))
    y = _relu6(g, _conv(g, state, y, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, groups=cin * expand))
    y = _conv(g, state, y, f"{name}._project_conv", f"{name}._bn2")
    return g.op("Add", x, y) if stride == 1 and cin == cout else y


def export(state: State, path: Path) -> None:
    """Write the graph: uint8 ``frames`` [n, 224, 224, 3] RGB → ``features`` [n, 1280], ``logits`` [n, 1000]."""
    g = Graph("efficientnet_lite0")
    for name, value in {"zero": 0, "six": 6, "middle": 127, "half_range": 128}.items():
        g.constant(name, np.array(value, np.float32))
    x = g.op("Transpose", g.op("Cast", "frames", to=TensorProto.FLOAT), perm=[0, 3, 1, 2])
    x = g.op("Div", g.op("Sub", x, "middle"), "half_range")
    x = _relu6(g, _conv(g, state, x, "_conv_stem", "_bn0", stride=2))
    number = 0
    for repeats, kernel, stride, expand, cin, cout in STAGES:
        for i in range(repeats):
            assert state[f"_blocks.{number}._depthwise_conv.weight"].shape[2] == kernel
            first = i == 0
            x = _block(g, state, x, f"_blocks.{number}", stride if first else 1, expand, cin if first else cout, cout)
            number += 1
    x = _relu6(g, _conv(g, state, x, "_conv_head", "_bn1"))
    x = g.op("Flatten", g.op("GlobalAveragePool", x), out="features")
    g.op(
        "Gemm", x, g.half("_fc", state["_fc.weight"]), g.constant("_fc.bias", state["_fc.bias"]), out="logits", transB=1
    )
    g.save(
        path,
        {"frames": (TensorProto.UINT8, ["n", SIDE, SIDE, 3])},
        {"features": ["n", FEATURES], "logits": ["n", CLASSES]},
    )
