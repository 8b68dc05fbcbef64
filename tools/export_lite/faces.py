"""CenterFace (Xu et al. 2019), reduced to one number a picture: how sure the net is of its surest face."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from graph import Graph
from onnx import TensorProto, helper, numpy_helper

SIDE = 224
HEAT = "537"  # of the four heads (heat, scale, offset, landmarks) the one that is kept


def export(source: Path, path: Path) -> None:
    """Write the graph: uint8 ``frames`` [n, 224, 224, 3] RGB → ``faces`` [n], between 0 and 1."""
    model = onnx.load(source).graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.initializer}
    made_by = {output: node for node in model.node for output in node.output}
    g = Graph("centerface_heat")
    frames = g.op("Cast", "frames", to=TensorProto.FLOAT)
    known = {"input.1": g.op("Transpose", frames, perm=[0, 3, 1, 2])}

    def tensor(name: str, node: onnx.NodeProto) -> str:
        """The name in the new graph, after whatever it needs has been copied there."""
        if name in weights and name not in known:
            kernel = node.op_type in ("Conv", "ConvTranspose") and name == node.input[1]
            # The axis of the kernel's output channels.
            kept = int(node.op_type == "ConvTranspose" and weights[name].shape[1] > 1)
            known[name] = g.int8(name, weights[name], kept) if kernel else g.constant(name, weights[name])
        elif name not in known:
            maker = made_by[name]
            attributes = {a.name: helper.get_attribute_value(a) for a in maker.attribute}
            inputs = [tensor(part, maker) for part in maker.input]
            # The spatial attribute of old batch norms is gone; all else means the same in both versions.
            known[name] = g.op(maker.op_type, *inputs, **{k: v for k, v in attributes.items() if k != "spatial"})
        return known[name]

    heat = tensor(HEAT, made_by[HEAT])
    g.op("Reshape", g.op("GlobalMaxPool", heat), g.constant("flat", np.array([-1])), out="faces")
    g.save(path, {"frames": (TensorProto.UINT8, ["n", SIDE, SIDE, 3])}, {"faces": ["n"]})
