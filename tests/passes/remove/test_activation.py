# SPDX-License-Identifier: Apache-2.0
"""Two activations in a row."""

from __future__ import annotations

from itertools import product

import pytest

from tests.passes.kit import check_pass

NAME = "remove_redundant_activation"
RANGE = {"Relu": (0, 99), "Relu6": (0, 6), "ReluN1To1": (-1, 1), "Relu0To1": (0, 1)}


def two(first: str, second: str, outputs: str = "%z") -> str:
    return f"""
        graph main(%x: f32[40]) -> {outputs} {{
          %y = {first}(%x)
          %z = {second}(%y)
        }}
    """


def within(a: str, b: str) -> bool:
    return RANGE[b][0] <= RANGE[a][0] and RANGE[a][1] <= RANGE[b][1]


@pytest.mark.parametrize(("first", "second"), list(product(RANGE, RANGE)))
def test_wider_activation_is_removed(first: str, second: str) -> None:
    if within(first, second):
        check_pass(two(first, second), NAME, [first])
    elif within(second, first):
        check_pass(two(first, second), NAME, [second])
    else:
        check_pass(two(first, second), NAME, [first, second])


def test_first_activation_with_other_users() -> None:
    check_pass(two("Relu", "Relu6", "%y, %z"), NAME, refused="%y: is an output of the graph")
    text = two("Relu6", "Relu", "%z, %w").replace("%z =", "%w = Neg(%y)\n%z =")
    check_pass(text, NAME, ["Relu6", "Neg"])


def test_quantized_activations_with_equal_parameters() -> None:
    """Two quantized activations in a row equal one if all parameters are equal."""
    grid = "quant(scale: 0.1, zero_point: -5)"
    text = f"""graph main(%x: i8[4] quant(scale: 0.2)) -> %z {{
      %a = Relu6(%x) : i8[4] {grid}
      %b = Relu(%a) : i8[4] {grid}
      %z = Dequantize(%b)
    }}"""
    check_pass(text, "remove_redundant_activation", ["Relu6", "Dequantize"])
    other = text.replace(f"%b = Relu(%a) : i8[4] {grid}", "%b = Relu(%a) : i8[4] quant(scale: 0.3)")
    check_pass(other, "remove_redundant_activation", refused="%b: has other quantization parameters than %a")


GRID = "{min: -1.5, max: 2.0, num_bits: 8, narrow_range: true}"


def on_a_grid(grid: str, behind: str) -> str:
    """Return %a = FakeQuant(%x) with the attributes ``grid``, then %b = ``behind``, then a Neg."""
    calls = f"%a = FakeQuant(%x) {grid} %b = {behind} %y = Neg(%b)"
    return f"graph main(%x: f32[8]) -> %y {{ {calls} }}"


def test_repeated_fake_quantization() -> None:
    text = on_a_grid(GRID, f"FakeQuant(%a) {GRID}")
    check_pass(text, "remove_redundant_activation", ["FakeQuant", "Neg"])
    other = text.replace(f"(%a) {GRID}", "(%a) {min: -1.0, max: 2.0, num_bits: 8, narrow_range: true}")
    check_pass(other, "remove_redundant_activation", refused="%b: min is -1.0, expected -1.5")


def test_relu_on_a_range_from_zero_is_removed() -> None:
    text = on_a_grid("{min: 0.0, max: 6.0, num_bits: 8}", "Relu(%a)")
    check_pass(text, "remove_redundant_activation", ["FakeQuant", "Neg"])
    below = text.replace("min: 0.0", "min: -0.5")
    check_pass(
        below,
        "remove_redundant_activation",
        refused="%a: min is -0.5, expected 0 or above",
    )
