# SPDX-License-Identifier: Apache-2.0
"""Layout optimization of quantized values: quantized dimensions follow their axes, or transposes stay."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value
from circlekit.passes.layout.optimize import OptimizeLayout
from circlekit.passes.support.axes import permuted_constant, permuted_quantization
from circlekit.rewrite.base import Context
from tests.passes.layout.pooled_models import NCHW, NHWC, kinds


def per_channel(dimension: int, count: int = 3) -> Quantization:
    return Quantization(np.arange(1, count + 1, dtype=np.float32), np.zeros(count, np.int64), dimension)


def quantized_model(result: Quantization | None) -> Model:
    """Return transposes around a Relu, whose operand has one scale per channel.

    ``result``: the quantization of the result of the Relu.
    """
    model = parse_model(
        f"""graph main(%x: i8[1,4,5,3]) -> %y {{
              %m = Transpose(%x, {NCHW})
              %r = Relu(%m)
              %y = Transpose(%r, {NHWC})
            }}"""
    )
    values = {v.name: v for v in model.main.values()}
    values["x"].quantization, values["m"].quantization = per_channel(3), per_channel(1)
    values["r"].quantization = result
    values["y"].quantization = permuted_quantization(result, (0, 2, 3, 1))
    return model


def test_the_quantized_dimension_follows_its_axis() -> None:
    model = quantized_model(per_channel(1))
    assert OptimizeLayout().run(model, Context()) > 0
    assert kinds(model) == ["Relu"]
    assert [v.quantization for v in (*model.main.inputs, *model.main.outputs)] == [per_channel(3)] * 2


def test_a_transpose_that_rescales_stays() -> None:
    model = quantized_model(per_channel(1))
    model.main.outputs[0].quantization = Quantization(np.ones(3, np.float32), np.zeros(3, np.int64), 3)
    OptimizeLayout().run(model, Context())
    assert kinds(model).count("Transpose") >= 1


def test_a_relu_with_blockwise_quantization_stays() -> None:
    blockwise = Quantization(details={"": "BlockwiseQuantization"})
    model = quantized_model(blockwise)
    assert OptimizeLayout().run(model, Context()) == 0


def test_constants_are_permuted_with_their_quantization() -> None:
    constant = Value.constant("k", np.arange(6, dtype=np.int8).reshape(3, 2, 1), per_channel(0))
    moved = permuted_constant(constant, (0, 2, 3, 1))
    assert moved.shape == (1, 2, 1, 3)
    assert moved.quantization == per_channel(3)
    np.testing.assert_array_equal(moved.array()[0, :, 0, :], constant.array()[:, :, 0].T)
