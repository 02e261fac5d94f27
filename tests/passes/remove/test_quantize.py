# SPDX-License-Identifier: Apache-2.0
"""QUANTIZE is removed only if no value is rounded or clamped differently."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.text import parse_model
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.rewrite.base import Context
from tests.ops.litert import run_litert
from tests.passes.kit import check_pass, check_refusal

PASS = "remove_redundant_quantize"
GRID = "quant(scale: 0.5, zero_point: 3)"


def twice(first: str, second: str, outputs: str = "%y") -> str:
    """Return a graph that quantizes %x to ``first``, then to ``second``: each is a dtype and its grid."""
    return f"""graph main(%x: f32[2,8]) -> {outputs} {{
      %a = Quantize(%x) : {first.replace(" ", "[2,8] ", 1)}
      %b = Quantize(%a) : {second.replace(" ", "[2,8] ", 1)}
      %y = Dequantize(%b)
    }}"""


def test_repeated_quantize_is_removed() -> None:
    check_pass(twice(f"i8 {GRID}", f"i8 {GRID}"), PASS, ["Quantize", "Dequantize"])


def test_quantize_to_the_parameters_of_an_input_is_removed() -> None:
    text = f"graph main(%x: u8[4] {GRID}) -> %y {{ %a = Quantize(%x) : u8[4] {GRID} %y = Dequantize(%a) }}"
    check_pass(text, PASS, ["Dequantize"])


def test_a_first_quantize_of_the_same_scale_and_no_smaller_range_is_removed() -> None:
    """Both ranges of the first pair are -130 to 125 times the scale; the range of i16 includes that of i8."""
    check_pass(
        twice("i8 quant(scale: 0.5, zero_point: 2)", "u8 quant(scale: 0.5, zero_point: 130)"),
        PASS,
        ["Quantize", "Dequantize"],
    )
    check_pass(twice("i16 quant(scale: 0.5)", "i8 quant(scale: 0.5)"), PASS, ["Quantize", "Dequantize"])


@pytest.mark.parametrize(
    ("dtype", "grid"),
    [
        ("i8", "quant(scale: 0.1, zero_point: -7)"),
        ("u8", "quant(scale: 0.0031, zero_point: 8)"),
        ("i16", "quant(scale: 1e-40)"),
        ("i8", "quant(scale: [0.5, 0.25], zero_point: [1, 2])"),
    ],
)
def test_quantize_of_a_dequantized_value_to_its_own_grid_is_removed(dtype: str, grid: str) -> None:
    text = f"""graph main(%x: {dtype}[2,8] {grid}) -> %y, %d {{
      %d = Dequantize(%x)
      %z = Quantize(%d) : {dtype}[2,8] {grid}
      %y = Dequantize(%z)
    }}"""
    check_pass(text, PASS, ["Dequantize", "Dequantize"])
    check_pass(
        text.replace(grid, "quant(scale: 1e36)"),
        PASS,
        refused="expected scales above 0 for which all values are finite in float32",
    )
    other = text.replace(
        f"%z = Quantize(%d) : {dtype}[2,8] {grid}", f"%z = Quantize(%d) : {dtype}[2,8] {GRID}"
    )
    check_pass(other, PASS, refused="%z: has other quantization parameters than %x")


EXTREME = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.0, 70.0, -70.0] * 2, np.float32).reshape(2, 8)


@pytest.mark.parametrize("first", [0, 3, -1])
@pytest.mark.parametrize("second", [0, 5, -5])
def test_nan_and_overflow_of_two_quantize_stay(first: int, second: int) -> None:
    """Whether the zero point is negative decides to which end of the range they go, also in LiteRT."""
    a, b = (f"quant(scale: 0.5, zero_point: {number})" for number in (first, second))
    model = parse_model(twice(f"i16 {a}", f"i8 {b}"))
    direct = parse_model(
        f"graph main(%x: f32[2,8]) -> %y {{ %b = Quantize(%x) : i8[2,8] {b} %y = Dequantize(%b) }}"
    )
    (wanted,), (found,) = run(model, [EXTREME]), run(direct, [EXTREME])
    np.testing.assert_array_equal(run_litert(model.main, [EXTREME])[0], wanted)
    np.testing.assert_array_equal(run_litert(direct.main, [EXTREME])[0], found)
    run_passes(model, [PASS], Context())
    assert (len(model.main.ops) == 2) == np.array_equal(found, wanted)
    np.testing.assert_array_equal(run(model, [EXTREME])[0], wanted)


def test_zero_points_of_different_signs_are_no_obstacle_for_integers() -> None:
    """An integer is never NaN, and QUANTIZE multiplies it in fixed point."""
    text = twice("i16 quant(scale: 0.5)", "i8 quant(scale: 0.5, zero_point: -5)")
    text = text.replace("%x: f32[2,8]", "%x: i16[2,8] quant(scale: 0.25)")
    check_pass(text, PASS, ["Quantize", "Dequantize"])


def test_first_quantize_with_other_users_stays() -> None:
    kinds = ["Quantize", "Quantize", "Dequantize"]
    check_pass(twice("i16 quant(scale: 0.5)", f"i8 {GRID}", "%y, %a"), PASS, kinds)


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (
            f"i8 {GRID}",
            "i8 quant(scale: 0.25, zero_point: 3)",
            "%a: expected 0.25, the scale of %b, got 0.5",
        ),
        (
            f"i8 {GRID}",
            "i8 quant(scale: 0.5)",
            "%a: is clamped to -131 to 124 times the scale, %b to -128 to 127",  # -131 is -128 - 3
        ),
        (
            "i8 quant(scale: 0.5)",
            "i16 quant(scale: 0.5)",
            "is clamped to -128 to 127 times the scale, %b to -32768 to 32767",
        ),
    ],
)
def test_first_quantize_that_rounds_or_clamps_stays(first: str, second: str, sentence: str) -> None:
    check_pass(twice(first, second), PASS, refused=sentence)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("i8 quant(scale: 0.0)", "expected scales above 0"),
        ("i8 quant(scale: [0.5, 0.0], zero_point: [1, 2])", "expected scales above 0"),
        (f"i8 quant(scale: {2.0**111})", "all values are finite in float32"),
        (f"i8 quant(scale: {float(np.finfo(np.float32).max) / 2**17})", "all values are finite in float32"),
        ("i32 quant(scale: 0.5)", "expected integers of up to 16 bits, got i32"),
    ],
)
def test_dequantize_and_back_is_kept_where_numbers_change(kind: str, sentence: str) -> None:
    # a scale must be below the largest float32 / 2^17: integer minus zero point may need 17 bits
    text = f"""graph main(%x: {kind.replace(" ", "[2,8] ", 1)}) -> %y {{
      %d = Dequantize(%x) : f32[2,8]
      %z = Quantize(%d) : {kind.replace(" ", "[2,8] ", 1)}
      %y = Neg(%z) : {kind.replace(" ", "[2,8] ", 1)}
    }}"""
    check_refusal(text, PASS, sentence)


def test_the_largest_power_of_2_that_is_a_scale_of_finite_numbers() -> None:
    kind = f"i8[2,8] quant(scale: {2.0**110})"
    text = f"""graph main(%x: {kind}) -> %y {{
      %d = Dequantize(%x)
      %z = Quantize(%d) : {kind}
      %y = Dequantize(%z)
    }}"""
    check_pass(text, PASS, ["Dequantize"])


@pytest.mark.parametrize("place", ["first", "second"])
@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("i8 quant(scale: [0.5, 0.5], zero_point: [3, 3])", "i8 with 2 scales"),
        ("i4 quant(scale: 0.5)", "i4 with 1 scale"),
    ],
)
def test_two_quantize_without_one_scale_each_stay(place: str, other: str, found: str) -> None:
    one = f"i8 {GRID}"
    text, name = (twice(other, one), "a") if place == "first" else (twice(one, other), "b")
    check_refusal(text, PASS, f"%{name}: expected integers of at least 8 bits with one scale, got {found}")
