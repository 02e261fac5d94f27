# SPDX-License-Identifier: Apache-2.0
"""Unusual models by the rules of ONE: the results are right, or a note says what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.errors import UnsupportedError
from tests.quant.layer import changed, samples


@pytest.mark.parametrize("scheme", ["one_uint8", "one_int16"])
def test_biases_that_make_the_range_of_a_layer_keep_their_values(scheme: str) -> None:
    """The biases are so large that the multiplier would be below 2^-31, which kernels round to 0."""
    model = changed(2, lambda a: np.copyto(a, a * np.float32(1e13)))
    expected = circlekit.run(model, samples()[0])[0]
    circlekit.quantize(model, scheme, samples())
    result = circlekit.run(model, samples()[0])[0]
    assert np.abs(result - expected).max() <= 0.01 * np.abs(expected).max()


@pytest.mark.parametrize("scheme", ["one_uint8", "one_uint8_channel", "one_int16"])
def test_the_scale_of_a_bias_must_be_finite(scheme: str) -> None:
    model = circlekit.parse("""
    graph main(%x: f32[1,2]) -> %y {
      %w = const f32[2,2] [0.0, 3e38, 0.0, -3e38]
      %b = const f32[2] [1.0, 2.0]
      %y = FullyConnected(%x, %w, %b)
    }
    """)
    sentence = "%y: expected scales of input and weights with a finite product, got "
    with pytest.raises(UnsupportedError, match=sentence):
        circlekit.quantize(model, scheme, [[np.array([[3e38, 0.5]], np.float32)]], auto=False)


@pytest.mark.parametrize("scheme", ["one_uint8", "one_int16"])
def test_a_range_of_nearly_all_floats_has_a_scale(scheme: str) -> None:
    """With a zero point, the lowest number of the grid would be below the lowest float."""
    model = circlekit.parse("graph main(%x: f32[1,2]) -> %y { %y = Relu(%x) }")
    largest = np.float32(3.395e38)
    x = np.array([[-largest, largest]], np.float32)
    circlekit.quantize(model, scheme, [[x]])
    np.testing.assert_allclose(circlekit.run(model, [x])[0], [[0, largest]], rtol=0.01)


def test_recorded_scales_of_zero_are_replaced() -> None:
    """They divided by zero, with a warning of numpy."""
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y {
      %w = const f32[2,8] quant(scale: 0, zero_point: 0, min: 0, max: 0) gaussian(0, 1)
      %y = FullyConnected(%x, %w, none)
    }
    """)
    expected = circlekit.run(model, samples()[0])[0]
    circlekit.quantize(model, "one_uint8", samples())
    np.testing.assert_allclose(circlekit.run(model, samples()[0])[0], expected, atol=0.1)


def test_int16_operands_of_concatenation_get_its_scale() -> None:
    """The kernel only copies integers, so a QUANTIZE converts an operand with another scale.

    In ONE, operands with other users (%a, %x) keep their scales, which gives wrong numbers.
    """
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y, %z {
      %a = Mul(%x, 0.1)
      %z = Neg(%a)
      %y = Concatenation(%a, %x) {axis: 1}
    }
    """)
    expected = circlekit.run(model, samples()[0])[0]
    circlekit.quantize(model, "one_int16", samples())
    np.testing.assert_allclose(circlekit.run(model, samples()[0])[0], expected, atol=2e-4)


@pytest.mark.parametrize("scheme", ["one_uint8", "one_int16"])
def test_tensors_that_are_quantized_before_keep_their_scales(scheme: str) -> None:
    """If the result of FLOOR_DIV were quantized here, it would get an integer scale."""
    model = circlekit.parse("""
    graph main(%x: f32[1,8], %i: i8[1,8] quant(scale: 0.5)) -> %y, %d {
      %y = Neg(%x)
      %d = FloorDiv(%i, %i) : i8[1,8] quant(scale: 0.25)
    }
    """)
    circlekit.quantize(model, scheme, [[*samples()[0], np.ones((1, 8), np.int8)]])
    quantization = model.main.outputs[1].quantization
    assert quantization is not None
    assert quantization.scale.tolist() == [0.25]


def test_constants_of_rank_0_run_by_the_rules_of_one() -> None:
    model = circlekit.parse("graph main(%x: f32[1,8]) -> %y { %y = Add(%x, 2.0) }")
    circlekit.quantize(model, "one_uint8", samples())
    (x,) = samples()[0]
    np.testing.assert_allclose(circlekit.run(model, [x])[0], x + 2, atol=0.03)


@pytest.mark.parametrize(
    ("operator", "reason"), [("Pow(%x, 2.0)", "has no POW"), ("Div(1.0, %x)", "divisor rounds to 0")]
)
def test_operators_that_may_not_run_by_the_rules_of_one_are_reported(operator: str, reason: str) -> None:
    model = circlekit.parse(f"graph main(%x: f32[1,8]) -> %y {{ %y = {operator} }}")
    notes = circlekit.quantize(model, "one_uint8", [[np.arange(8, dtype=np.float32)[None]]]).notes
    assert any(reason in note for note in notes)


@pytest.mark.parametrize(
    ("operator", "is_noted"),
    [
        ("Maximum(%a, %b)", True),
        ("MaxPool2D(%a) {filter_height: 2, filter_width: 2}", True),
        ("Maximum(%a, %a)", False),
        ("Concatenation(%a, %b) {axis: 3}", False),
        ("Add(%a, %b)", False),
    ],
)
def test_kernels_that_need_one_scale_are_reported_if_one_chooses_several(
    operator: str, is_noted: bool
) -> None:
    text = "graph main(%a: f32[1,4,4,1], %b: f32[1,4,4,1]) -> %y { %y = OPERATOR }".replace(
        "OPERATOR", operator
    )
    wave = np.sin(np.arange(16, dtype=np.float32)).reshape(1, 4, 4, 1)
    model, data = circlekit.parse(text), [wave, 3 * wave[:, ::-1]]
    (expected,) = circlekit.run(model, data)
    notes = circlekit.quantize(model, "one_uint8", [data]).notes
    assert any("gives wrong results" in note for note in notes) is is_noted
    (result,) = circlekit.run(model, data)
    assert bool(np.abs(result - expected).max() < 0.06) is not is_noted
