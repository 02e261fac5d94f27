# SPDX-License-Identifier: Apache-2.0
"""Every operator's quantization rule names its own operands, and fits the table of LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import BY_SHORT, f32
from circlekit.ir.op import REGISTRY
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Quantization, Value
from circlekit.ops.recurrent.sequence import RecurrentLayer, StackedWeights, Weight
from circlekit.ops.recurrent.svdf import Svdf
from circlekit.targets.target import find_target
from circlekit.testing import is_available, run_litert, tflite_of

WITH_RULE = sorted(code for code, kind in REGISTRY.items() if kind.quantization_rule is not None)


def rule_of(code: str) -> QuantizationRule:
    rule = REGISTRY[code].quantization_rule
    assert rule is not None
    return rule


def test_rules_name_operands_and_results() -> None:
    for code in WITH_RULE:
        kind = REGISTRY[code]
        rule = rule_of(code)
        operands = {operand.name for operand in kind.operands}
        named = {*rule.operands_follow, *rule.weights, *rule.not_negative, *rule.not_zero}
        named |= {name for name in (rule.results_follow, rule.bias) if name is not None}
        assert named <= operands, code
        assert set(rule.symmetric) <= operands | set(kind.result_names), code


@pytest.mark.parametrize("code", ["LOGISTIC", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "TANH"])
def test_fixed_parameters_are_those_that_litert_was_measured_to_require(code: str) -> None:
    fixed = rule_of(code).fixed
    measured = {
        BY_SHORT[data.removesuffix("q")]: tuple(constraints["scale"]["output"][:2])  # without a tolerance
        for form, constraints in find_target("litert").operators[code]["forms"].items()
        for data, result in [form.split(":")]
        if "scale" in constraints and data == result
    }
    assert measured
    assert {dtype: fixed[dtype] for dtype in measured} == measured


LAYERS = {
    "CONV_2D": "%w = const f32[6,3,3,4] gaussian(0, 1)\n%y = Conv2D(%x, %w, none)",
    "DEPTHWISE_CONV_2D": "%w = const f32[1,3,3,4] gaussian(0, 1)\n"
    "%y = DepthwiseConv2D(%x, %w, none) {depth_multiplier: 1}",
    "TRANSPOSE_CONV": "%w = const f32[6,3,3,4] gaussian(0, 1)\n%y = TransposeConv([1,5,5,6], %w, %x, none)",
    "FULLY_CONNECTED": "%w = const f32[6,4] gaussian(0, 1)\n"
    "%y = FullyConnected(%x, %w, none) {keep_num_dims: true}",
}


@pytest.mark.parametrize("code", LAYERS)
def test_weights_have_a_scale_for_each_channel_of_the_result(code: str) -> None:
    """A factor for each index of the declared axis multiplies the channels of the result."""
    body = LAYERS[code]
    model = circlekit.parse(f"graph main(%x: f32[1,5,5,4]) -> %y {{\n{body}\n}}")
    op = model.main.ops[-1]
    ((name, axis),) = rule_of(code).weights.items()
    weights = dict(op.operand_items())[name]
    x = np.random.default_rng(1).normal(size=(1, 5, 5, 4)).astype(np.float32)
    before = circlekit.run(model, [x])[0]
    assert axis is not None
    factors = np.arange(1, weights.static_shape[axis] + 1, dtype=np.float32)
    weights.data = weights.array() * factors.reshape(
        [-1 if i == axis else 1 for i in range(weights.rank or 0)]
    )
    np.testing.assert_allclose(circlekit.run(model, [x])[0], before * factors, rtol=1e-5, atol=1e-5)


RECURRENT = [code for code in WITH_RULE if issubclass(REGISTRY[code], RecurrentLayer | Svdf)]


@pytest.mark.parametrize("code", RECURRENT)
def test_recurrent_weights_have_their_channels_where_products_have_them(code: str) -> None:
    rule, rng = rule_of(code), np.random.default_rng(2)
    x, numbers = rng.normal(size=(2, 4)), rng.normal(size=(4, 4))
    factors = np.arange(1, 5)
    assert rule.weights
    for name, axis in rule.weights.items():
        if axis is not None:
            value = Value(name, f32, (4, 4))
            whole, scaled = (
                StackedWeights([Weight(value, matrix)], False).products(x)
                for matrix in (numbers, numbers * factors.reshape((-1, 1) if axis == 0 else (1, -1)))
            )
            np.testing.assert_allclose(scaled, whole * factors)


@pytest.mark.parametrize(
    ("line", "dtype", "code"),
    [
        ("Add(%x, %x)", "i8", "ADD"),
        ("Sub(%x, %x)", "u8", "SUB"),
        ("Add(%x, %x) {pot_scale_int16: false}", "i16", "ADD"),
        ("HardSwish(%x)", "i8", "HARD_SWISH"),
        ("HardSwish(%x)", "u8", "HARD_SWISH"),
        ("SquaredDifference(%x, %x)", "i8", "SQUARED_DIFFERENCE"),
    ],
)
def test_kernels_do_not_work_with_less_than_the_least_step(line: str, dtype: str, code: str) -> None:
    """With half of this step, LiteRT's last multiplier is not below 1, and LiteRT ends the program.

    Our kernel of HARD_SWISH refuses half of the step; our other kernels compute with it.
    """
    rule = rule_of(code)
    least = {**rule.least_step, **rule.least_square_step}[BY_SHORT[dtype]]  # with the operand scale 1
    x = np.arange(-3, 5).astype(BY_SHORT[dtype].numpy)
    form = "{d}[8] quant(scale: {s}, zero_point: 0)"
    given, result = (form.format(d=dtype, s=repr(step)) for step in (1.0, least))
    model = circlekit.parse(f"graph main(%x: {given}) -> %y {{\n%y = {line} : {result}\n}}")
    ours = circlekit.run(model, [x])[0]
    if is_available():
        np.testing.assert_array_equal(ours, run_litert(tflite_of(model), [x])[0])
    if code == "HARD_SWISH":
        half = Quantization.per_tensor(least / 2)
        model.main.outputs[0].quantization = half
        with pytest.raises(CirclekitError, match="output scale above"):
            circlekit.run(model, [x])
