# SPDX-License-Identifier: Apache-2.0
"""QUANTIZE goes only where no value is rounded or limited otherwise."""

from __future__ import annotations

import pytest

from tests.passes.kit import check_pass

PASS = "remove_redundant_quantize"
GRID = "quant(scale: 0.5, zero_point: 3)"


def twice(first: str, second: str, outputs: str = "%y") -> str:
    return f"""graph main(%x: f32[2,8]) -> {outputs} {{
      %a = Quantize(%x) : {first.replace(" ", "[2,8] ", 1)}
      %b = Quantize(%a) : {second.replace(" ", "[2,8] ", 1)}
      %y = Dequantize(%b)
    }}"""


def test_the_same_again() -> None:
    check_pass(twice(f"i8 {GRID}", f"i8 {GRID}"), PASS, ["Quantize", "Dequantize"])


def test_to_what_an_input_is_already() -> None:
    text = f"graph main(%x: u8[4] {GRID}) -> %y {{ %a = Quantize(%x) : u8[4] {GRID} %y = Dequantize(%a) }}"
    check_pass(text, PASS, ["Dequantize"])


def test_the_same_steps_in_another_type() -> None:
    check_pass(
        twice("i8 quant(scale: 0.5, zero_point: -120)", "u8 quant(scale: 0.5, zero_point: 8)"),
        PASS,
        ["Quantize", "Dequantize"],
    )
    check_pass(twice("i16 quant(scale: 0.5)", "i8 quant(scale: 0.5)"), PASS, ["Quantize", "Dequantize"])


def test_the_first_stays_for_others() -> None:
    kinds = ["Quantize", "Quantize", "Dequantize"]
    check_pass(twice("i16 quant(scale: 0.5)", f"i8 {GRID}", "%y, %a"), PASS, kinds)


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (f"i8 {GRID}", "i8 quant(scale: 0.25, zero_point: 3)", "%a: is rounded to another grid than %b"),
        (
            f"i8 {GRID}",
            "i8 quant(scale: 0.5)",
            "%a: is limited to steps from -131 to 124, %b reaches further",
        ),
        ("i8 quant(scale: 0.5)", "i16 quant(scale: 0.5)", "from -128 to 127, %b reaches further"),
    ],
)
def test_a_first_that_rounds_or_limits_stays(first: str, second: str, sentence: str) -> None:
    check_pass(twice(first, second), PASS, refused=sentence)
