# SPDX-License-Identifier: Apache-2.0
"""Errors of single layers: clipped elements, dead channels, channels that equalization rescaled."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit import parse
from circlekit.equivalence.judgement.layer_errors import (
    MIN_RESCALING,
    LayerError,
    LayerErrors,
    unscaled,
)
from circlekit.ir.value import Array


def error_of(form: str, *records: tuple[Array, Array], shape: str = "2,2") -> LayerError:
    """Return the error of a RELU that is quantized in ``form``.

    Each record is the float result of the RELU and its quantized result, as real numbers.
    """
    before = parse(f"graph main(%x: f32[{shape}]) -> %y {{ %y = Relu(%x) }}")
    after = parse(
        f"graph main(%x: f32[{shape}]) -> %y {{\n"
        f"%q = Quantize(%x) : i8[{shape}] {form}\n"
        f"%r = Relu(%q) : i8[{shape}] {form}\n"
        f"%y = Dequantize(%r) : f32[{shape}]\n}}"
    )
    errors = LayerErrors(before, after)
    for reference, result in records:
        arrays = {"x": reference, "y": reference}
        errors.add(arrays, {"x": reference, "q": reference, "r": reference, "y": result})
    (layer,) = errors.layers
    return layer


def array(*rows: list[float]) -> Array:
    return np.array(rows, np.float32)


def test_an_element_is_clipped_if_it_lies_more_than_a_step_outside() -> None:
    """Scale 0.5 and zero point 0: the range is -64 to 63.5."""
    given = array([64.0, 64.5], [-64.5, -65.0])
    layer = error_of("quant(scale: 0.5)", (given, given), (given, given))
    assert (layer.clipped_count, layer.error.count, layer.clipped) == (4, 8, 0.5)
    layer = error_of("quant(scale: 0.5)", (array([64.0, -64.5], [0, 63.5]),) * 2)
    assert (layer.clipped_count, layer.clipped) == (0, 0.0)
    assert layer.scale == 0.5
    assert error_of("quant(scale: 0.5)").clipped == 0
    unbounded = array([np.inf, -np.inf], [np.nan, 0])
    assert error_of("quant(scale: 0.5)", (unbounded, array([63.5, -64], [0, 0]))).clipped == 0.5


def test_clipped_elements_of_a_per_channel_result_are_not_counted() -> None:
    given = array([64.5, 0.0], [0.0, 64.5])
    form = "quant(scale: [0.5, 0.5], zero_point: [0, 0], axis: 1)"
    assert error_of(form, (given, given)).clipped_count == 0


@pytest.mark.parametrize(("small", "dead"), [(0.9, 0), (1.0, 0), (1.1, 1), (5.0, 1)])
def test_a_channel_dies_if_it_varied_by_more_than_1_percent_of_the_largest_range(
    small: float, dead: int
) -> None:
    """The second channel is constant in the quantized model."""
    given, result = array([0, 0], [100, small]), array([0, 3], [100, 3])
    assert error_of("quant(scale: 1)", (given, result)).dead_channels == dead


def test_ranges_of_channels_extend_over_the_records() -> None:
    first, second = array([1, 5], [2, 5]), array([-3, 5], [0, 6])
    layer = error_of("quant(scale: 1)", (first, first), (second, second))
    for low, high in ((layer.low, layer.high), (layer.quantized_low, layer.quantized_high)):
        assert (low.tolist(), high.tolist()) == ([-3, 5], [2, 6])
    assert layer.dead_channels == 0
    vector = error_of("quant(scale: 1)", (first[0], first[0]), shape="2")
    assert (vector.low.size, vector.dead_channels) == (0, 0)
    assert error_of("quant(scale: 1)").dead_channels == 0
    nothing = error_of("quant(scale: 1)", (first[:0], first[:0]), (first, first))
    assert nothing.low.tolist() == [1, 5]


def test_the_share_of_a_single_clipped_element() -> None:
    given = np.array([200], np.float32)
    assert error_of("quant(scale: 1)", (given, given), shape="1").clipped == 1.0


def test_records_of_other_shapes_or_names_are_left_out() -> None:
    given = array([1, 2], [3, 4])
    layer = error_of("quant(scale: 1)", (given, given[:1]))
    assert layer.error.count == 0
    before, after = (parse("graph main(%x: f32[2,2]) -> %y { %y = Relu(%x) }") for _ in range(2))
    errors = LayerErrors(before, after)
    for left, right in (({"y": given}, {}), ({}, {"y": given})):
        errors.add(left, right)
    assert errors.layers[0].error.count == 0


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("Concatenation(%x, %x, %x) {axis: 1}", 18),
        ("Concatenation(%x, %w) {axis: 1}", 0),
        ("Pad(%x, [[0, 0], [0, 6]])", 0),
    ],
)
def test_only_the_same_operator_with_as_many_operands_adds_an_error(line: str, count: int) -> None:
    text = "graph main(%x: f32[2,3], %w: f32[2,6]) -> %y {{ %y = {} }}"
    errors = LayerErrors(parse(text.format("Concatenation(%x, %x, %x) {axis: 1}")), parse(text.format(line)))
    arrays = {"x": np.ones((2, 3), np.float32), "w": np.ones((2, 6), np.float32)}
    arrays["y"] = np.ones((2, 9), np.float32)
    errors.add(arrays, arrays)
    (layer,) = errors.layers
    assert (layer.error.count, layer.added.count) == (18, count)


REFERENCE = np.random.default_rng(3).normal(size=(50, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("factors", "is_rescaled"),
    [
        ([1.0, 1.0, MIN_RESCALING * 1.01], True),
        ([1.0, 1.0, MIN_RESCALING * 0.99], False),
        ([1.0, 1.0, 0.99 / MIN_RESCALING], True),
        ([1.0, 1.0, 1.01 / MIN_RESCALING], False),
        ([4.0, 0.25, 2.0], True),
        ([1.0, 1.0, -2.0], False),
    ],
)
def test_factors_of_channels_are_taken_back(factors: list[float], is_rescaled: bool) -> None:
    result = REFERENCE * np.array(factors, np.float32)
    found = unscaled(REFERENCE, result)
    np.testing.assert_allclose(found, REFERENCE if is_rescaled else result, rtol=1e-5)


@pytest.mark.parametrize(("noise", "explains"), [(0.1, True), (0.6, True), (1.1, False), (3.0, False)])
def test_factors_must_explain_most_of_the_difference(noise: float, explains: bool) -> None:
    other = np.random.default_rng(4).normal(size=REFERENCE.shape) * noise
    result = REFERENCE * np.float32(2) + other
    found = unscaled(REFERENCE, result)
    assert (found is result) is not explains
    if explains:
        np.testing.assert_allclose(found, REFERENCE, atol=noise * 3)


def test_elements_that_are_not_finite_do_not_hide_the_factors() -> None:
    """Such elements are in the border of an image that is padded with -inf before pooling."""
    reference, result = REFERENCE.copy(), REFERENCE * np.array([4.0, 0.25, 2.0], np.float32)
    reference[0], result[0] = -np.inf, -100
    reference[1], result[1] = 3, np.nan
    np.testing.assert_allclose(unscaled(reference, result)[2:], REFERENCE[2:], rtol=1e-5)


def test_vectors_empty_arrays_and_zeros_are_returned_unchanged() -> None:
    for reference in (REFERENCE[0], np.zeros((0, 3), np.float32), np.float32(3)):
        result = np.asarray(reference) * 4
        assert unscaled(np.asarray(reference), result) is result
    zeros = np.zeros((4, 3), np.float32)  # without a factor, because the least squares would divide by 0
    np.testing.assert_array_equal(unscaled(zeros, zeros + 1), zeros + 1)


def test_a_channel_of_zeros_has_no_factor() -> None:
    """Two channels of ones become zeros and eights; only the eights are divided by their factor."""
    reference = np.ones((4, 2), np.float32)
    found = unscaled(reference, reference * np.array([0, 8], np.float32))
    assert found.tolist() == [[0, 1]] * 4
    assert unscaled(reference, reference * MIN_RESCALING).tolist() == reference.tolist()
