# SPDX-License-Identifier: Apache-2.0
"""O1 on networks as exported from PyTorch: operators, values in both formats, LiteRT."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from circlekit.equivalence.litert import tflite_of
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.convolution.conv import TransposeConv
from tests.passes.nets.exported import Net
from tests.passes.nets.zoo import ZOO
from tools.random_graphs.checks import Original
from tools.random_graphs.litert_check import PassFile, litert_faults

TRANSPOSES = {
    "resnet": 1, "mobilenet_v2": 1, "mobilenet_v3": 1, "unet": 2, "dcgan": 1, "inception": 1,
    "group_convolution": 2, "convnext": 1, "pyramid": 3, "densenet": 1, "transformer": 4,
    "vision_transformer": 5, "shufflenet": 6, "gated": 3,
}  # fmt: skip
"""How many transposes may remain: one for each NCHW input and output, and those of the network itself."""

NORMS_STAY = {"densenet": 4, "transformer": 1, "vision_transformer": 2, "convnext": 2}
"""How many norms may remain: those of a value that no convolution produces, or that has other users."""


def original(model: Model) -> Original:
    """Return the model with random inputs."""
    random = np.random.default_rng(0)
    return Original(model, [random.normal(size=v.static_shape).astype("f4") for v in model.main.inputs])


def norms(model: Model) -> int:
    """Return the number of operators that multiply by a constant per channel."""
    return sum(
        isinstance(op, Mul) and any(v.is_const and v.numel > 1 for v in (op.lhs, op.rhs)) for op in model.main
    )


@pytest.mark.parametrize(("name", "seed"), [*((name, 0) for name in ZOO), ("resnet", 1)])
def test_o1_on_network(name: str, seed: int, tmp_path: Path) -> None:
    model = ZOO[name](seed)
    codes_before = Counter(op.code for op in model.main)
    before = original(model)
    after = before.check("O1", "circle")
    before.check_files(after, tmp_path)
    tflite = clone(model)
    before.run_on(tflite, "O1", "tflite")
    assert litert_faults(before, [PassFile("O1", tflite_of(tflite))]) == []
    left = Counter(op.code for op in after.main)
    assert left["TRANSPOSE"] <= TRANSPOSES[name]
    assert norms(after) <= NORMS_STAY.get(name, 0)
    assert left["TRANSPOSE_CONV"] == codes_before["TRANSPOSE_CONV"]
    assert all(op.bias is not None for op in after.main if isinstance(op, TransposeConv))
    for code in ("RELU", "RELU6", "SLICE", "DIV", "NEG"):
        assert left[code] == 0, code


@pytest.mark.parametrize("end", ["norm", "relu", "flatten", "head", "two outputs", "before a resize"])
@pytest.mark.parametrize("kind", ["conv", "depthwise", "upconv"])
def test_a_batch_norm_at_the_end_is_fused(kind: str, end: str) -> None:
    """The fusion does not depend on where the transposes for the NCHW output are."""
    net = Net(0, (1, 4, 6, 6))
    x = net.inputs[0]
    y = (
        net.conv(x, 4)
        if kind == "conv"
        else net.depthwise(x)
        if kind == "depthwise"
        else net.upconv(x, 4, 2, 2)
    )
    y = net.norm(y)
    outputs = [y if end == "norm" else net.relu(y)]
    if end == "flatten":
        outputs = [net.linear(net.reshape(outputs[0], 1, outputs[0].numel), 3)]
    elif end == "head":
        outputs = [net.head(outputs[0])]
    elif end == "two outputs":
        outputs.append(net.conv(outputs[0], 3))
    elif end == "before a resize":
        outputs = [net.upsample(outputs[0])]
    after = original(net.model(*outputs)).check("O1", "circle")
    assert norms(after) == 0
    assert not any(isinstance(op, Add) for op in after.main)
    assert Counter(op.code for op in after.main)["TRANSPOSE"] <= 1 + len(outputs)
