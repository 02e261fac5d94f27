# SPDX-License-Identifier: Apache-2.0
"""Layers of one input become one layer and a SPLIT, which moves past equal operators on its parts."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.text import parse_model
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.pipelines import pipeline_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, refusals

QUANTIZED = """graph main(%x: i8[5,8] quant(scale: 0.1)) -> %z {
  %v = const i8[2,8] quant(scale: [0.01, 0.02]) uniform(-100, 100)
  %w = const i8[3,8] quant(scale: [0.03, 0.04, 0.05]) uniform(-100, 100)
  %b = const i32[2] quant(scale: [0.001, 0.002]) [1000, -2000]
  %c = const i32[3] quant(scale: [0.003, 0.004, 0.005]) [100, -200, 300]
  %p = FullyConnected(%x, %v, %b) : i8[5,2] quant(scale: 0.5, zero_point: 7)
  %q = FullyConnected(%x, %w, %c) : i8[5,3] quant(scale: 0.5, zero_point: 7)
  %z = Concatenation(%q, %p) {axis: 1} : i8[5,5] quant(scale: 0.5, zero_point: 7)
}"""

HEADS = """graph main(%x: f32[1,6,8]) -> %z {
  %v = const f32[8,8] gaussian(0, 1)
  %w = const f32[8,8] gaussian(0, 1)
  %p = FullyConnected(%x, %v) {keep_num_dims: true}
  %q = FullyConnected(%x, %w) {keep_num_dims: true}
  %z = Mul(%p, %q)
}"""


def test_scales_per_row_are_joined() -> None:
    model = check_pass(QUANTIZED, "join_fully_connected", ["FullyConnected", "SplitV", "Concatenation"])
    layer = next(op for op in model.main if isinstance(op, FullyConnected))
    for value, unit in ((layer.weights, 0.01), (layer.bias, 0.001)):
        assert value is not None
        assert value.quantization is not None
        np.testing.assert_allclose(value.quantization.scale, np.arange(1, 6) * unit, rtol=1e-6)


def test_results_with_other_scales_stay() -> None:
    text = QUANTIZED.replace("i8[5,2] quant(scale: 0.5", "i8[5,2] quant(scale: 0.25")
    assert refusals(text, "join_fully_connected")[0].startswith("%p: no other layer of %x has the same")


@pytest.mark.parametrize("name", ["join_fully_connected", "replace_non_const_fc_with_batch_matmul"])
def test_a_layer_with_two_results_stays(name: str) -> None:
    text = """graph main(%x: f32[2,3], %w: f32[4,3]) -> %y {
      %y, %s = FullyConnected(%x, %w) : f32[2,4], f32[2,3]
      %z, %r = FullyConnected(%x, %w) : f32[2,4], f32[2,3]
    }"""
    assert "%y: expected one result, got 2" in refusals(text, name)


def test_a_pipeline_joins_two_layers_only_with_the_operators_behind() -> None:
    model, context = parse_model(HEADS), Context(exact=True, refusals=[])
    run_passes(model, ["join_fully_connected"], context)
    assert len(model.main) == 3
    assert [r.sentence for r in context.refusals or ()] == [
        "%p: joining 2 layers would remove 0 operators and move 576 bytes more"
    ]


def test_queries_keys_and_values_are_one_layer_one_transpose_and_one_split() -> None:
    names = "qkv"
    text = "graph main(%x: f32[2,5,8]) -> %z {" + "".join(
        f"""%w{n} = const f32[8,8] gaussian(0, 1)
            %{n} = FullyConnected(%x, %w{n}) {{keep_num_dims: true}}
            %h{n} = Reshape(%{n}, [2, 5, 2, 4])
            %t{n} = Transpose(%h{n}, {[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]})
        """
        for n in names
    )
    text += "%a = BatchMatMul(%tq, %tk) %s = Softmax(%a) {beta: 1.0} %z = BatchMatMul(%s, %tv) }"
    expected = ["FullyConnected", "Reshape", "Transpose", "Split", "BatchMatMul", "Softmax", "BatchMatMul"]
    check_pass(text, pipeline_passes("O1"), expected)
