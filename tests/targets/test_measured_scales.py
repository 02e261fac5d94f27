# SPDX-License-Identifier: Apache-2.0
"""Scales, and dtypes of biases, with which LiteRT refuses an operator, crashes or computes garbage."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.litert import run_litert_forked
from circlekit.equivalence.litert_undefined import undefined
from circlekit.errors import EquivalenceError
from circlekit.ir.value import Array
from circlekit.targets.target import find_target
from tests.targets.test_measured_tables import assert_runs
from tools.probe_targets.probe import content_of

BIASED = {
    "i8": ("[1,4]", "[2,4]", "FullyConnected(%x, %w, %b)", "[1,2]"),
    "u8": ("[1,2,2,4]", "[2,1,1,4]", "TransposeConv([1,2,2,2], %w, %x, %b)", "[1,2,2,2]"),
}
"""{dtype: (shape of the data, shape of the weights, layer, shape of the result)}"""


@pytest.mark.parametrize("dtype", BIASED)
@pytest.mark.parametrize(
    ("bias", "runs"), [("quant(scale: 0.125)", True), ("quant(scale: 0.15)", False), ("", False)]
)
def test_litert_checks_the_scale_of_a_bias(bias: str, runs: bool, dtype: str) -> None:
    """It is the scale of the data times that of the weights: 0.125."""
    data, weights, layer, result = BIASED[dtype]
    model = circlekit.parse(
        f"""graph main(%x: {dtype}{data} quant(scale: 0.5)) -> %y {{
          %w = const {dtype}{weights} quant(scale: 0.25) constant(1)
          %b = const i32[2] {bias} [1, 2]
          %y = {layer} : {dtype}{result} quant(scale: 1.0)
        }}"""
    )
    shape = tuple(map(int, data[1:-1].split(",")))
    assert_runs("litert", model, [np.ones(shape, np.int8 if dtype == "i8" else np.uint8)], runs)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("bias", ["i32", "i64"])
@pytest.mark.parametrize("weights", ["i8", "i16"])
@pytest.mark.parametrize("bias_type", ["f32", "i32", "i64"])
def test_litert_reads_the_bias_of_int16_data_by_an_attribute(
    bias_type: str, weights: str, bias: str, channels: int
) -> None:
    """By default, it reads int64 numbers, and with int16 weights int32 numbers.

    With int8 weights and an int32 bias, only the reference kernel reads int64 numbers.
    """
    scale = "0.0078125" if channels == 1 else "[0.0078125, 0.0078125], axis: 0"
    model = circlekit.parse(
        f"""graph main(%x: i16[1,2] quant(scale: 0.5)) -> %y {{
          %w = const {weights}[2,2] quant(scale: {scale}) [[1, 20], [3, 40]]
          %b = const {bias}[2] quant(scale: {scale.replace("0.0078125", "0.00390625")}) [30001, -20003]
          %y = FullyConnected(%x, %w, %b) {{quantized_bias_type: {bias_type}}} : i16[1,2] quant(scale: 0.25)
        }}"""
    )
    inputs: list[Array] = [np.array([[500, 700]], np.int16)]
    runs = bias_type == bias or (bias_type == "f32" and (bias == "i64") == (weights == "i8"))
    assert (find_target("litert").refusal(model.main.ops[0]) is None) == runs
    assert (undefined(model) is None) == runs
    if find_spec("ai_edge_litert") is not None:
        found = None
        with suppress(EquivalenceError):  # LiteRT does not accept the model
            found = run_litert_forked(content_of(model.main, "tflite"), [inputs])[0]
        assert (found is not None and np.array_equal(found, circlekit.run(model, inputs))) == runs


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("code", "dtype", "power"),
    [
        *((code, dtype, -19) for code in ("Add", "Sub") for dtype in ("i8", "u8")),
        *((code, "i16", -14) for code in ("Add", "Sub")),
        ("SquaredDifference", "i8", -12),
        ("HardSwish", "i8", -7),
        ("HardSwish", "u8", -7),
    ],
)
def test_litert_needs_a_result_scale_above_a_part_of_the_operand_scales(
    code: str, dtype: str, power: int, is_first: bool, near: bool
) -> None:
    """The larger operand scale is 1; the smallest result scale that runs is just above 2^``power``."""
    scales = [1.0] if code == "HardSwish" else [1.0, 0.75][:: 1 if is_first else -1]
    inputs = [f"%x{n}: {dtype}[2] quant(scale: {scale})" for n, scale in enumerate(scales)]
    operands = ", ".join(f"%x{n}" for n, _ in enumerate(scales))
    result = f"{dtype}[2] quant(scale: {2.0**power * (1.001 if near else 1)!r})"
    text = f"graph main({', '.join(inputs)}) -> %y {{ %y = {code}({operands}) : {result} }}"
    model = circlekit.parse(text)
    assert_runs("litert", model, [np.array([1, 2], x.dtype.numpy) for x in model.main.inputs], near)


@pytest.mark.parametrize("code", ["Add", "Sub"])
@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "attributes", "runs"),
    [
        (1.0, 0.5, 1.0, "", True),
        (0.5, 1.0, 1.0, "", True),
        (1.0, 1.0, 2.0, "", False),
        (1.0, 0.5, 0.5, "", False),
        (0.5, 1.0, 0.5, "", False),
        (1.0, 1.0, 2.0, "pot_scale_int16: false", True),
        (1.0, 0.75, 2.0, "", True),
        (0.75, 1.0, 2.0, "", True),
        (1.0, 1.0, 1.5, "", True),
    ],
)
def test_litert_adds_int16_of_powers_of_2_to_the_larger_scale_only(
    code: str, lhs: float, rhs: float, out: float, attributes: str, runs: bool
) -> None:
    model = circlekit.parse(
        f"""graph main(%x: i16[2] quant(scale: {lhs}), %v: i16[2] quant(scale: {rhs})) -> %y {{
          %y = {code}(%x, %v) {{{attributes}}} : i16[2] quant(scale: {out})
        }}"""
    )
    assert_runs("litert", model, [np.array([1, 2], np.int16)] * 2, runs)
