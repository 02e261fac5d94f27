# SPDX-License-Identifier: Apache-2.0
"""Types, ranges and quantization that prevent a rewrite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.text import parse_model
from circlekit.ir.value import Shape, Value
from circlekit.rewrite.base import Context
from circlekit.rewrite.build import _largest, type_refusal
from circlekit.rewrite.rewrite import Rewrite

Typed = tuple[DType, Shape | None]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ((f32, (2, 3)), (f32, (2, 3)), None),
        ((f32, (None, 3)), (f32, (2, 3)), None),
        ((f32, (2, 3)), (f32, (None, 3)), None),
        ((f32, None), (f32, None), None),
        ((f32, (2, 3)), (i32, (2, 3)), "%old: is f32, the rewrite gives i32"),
        ((f32, (2, 3)), (f32, (2, 4)), "%old: has shape [2,3], the rewrite gives [2,4]"),
        ((f32, (None, 3)), (f32, (2, 4)), "%old: has shape [?,3], the rewrite gives [2,4]"),
        ((f32, (2, 3)), (f32, (2,)), "%old: has shape [2,3], the rewrite gives [2]"),
        ((f32, None), (f32, (2,)), "%old: has shape [*], the rewrite gives [2]"),
        ((f32, (2,)), (f32, None), "%old: has shape [2], the rewrite gives [*]"),
    ],
)
def test_types(old: Typed, new: Typed, sentence: str | None) -> None:
    assert type_refusal(Value("old", *old), Value("new", *new)) == sentence


@pytest.mark.parametrize(
    ("numbers", "largest"), [([], 0), ([1, 3, -2], 3), ([1, 3, -4], 4), ([-5, -4], 5), ([0], 0)]
)
def test_largest_magnitude(numbers: list[float], largest: float) -> None:
    assert _largest(np.array(numbers, np.float32)) == largest


class Product(Rewrite):
    """x * a * b  ==  x * ab."""

    before = "y = Mul(x, a: const)\nz = Mul(y, b: const)"
    after = "z = Mul(x, ab)"

    def constants(self, a: Any, b: Any) -> dict[str, Any]:
        return {"ab": a * b}


BROKEN = "%z: ab would not be finite"
TINY = "%z: ab would be too small for its dtype"


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ("[2.0, 3.0]", "[4.0, 5.0]", None),
        ("[2.0, 1e30]", "[4.0, 1e30]", BROKEN),
        ("[2.0, -1e30]", "[4.0, 1e30]", BROKEN),
        ("[1e-30, 1e-30]", "[1e-30, 1e-30]", TINY),
        ("[1e-30, 1e-30]", "[1e-10, 1e-10]", TINY),
        ("[1e-30, 1.0]", "[1e-30, 1.0]", None),
        ("[0.0, 0.0]", "[1e-30, 1e-30]", None),
        ("[0.0, 1e-30]", "[1e-30, 1e-10]", TINY),
    ],
)
def test_ranges_of_computed_constants(a: str, b: str, sentence: str | None) -> None:
    model = parse_model(f"graph g(%x: f32[2]) -> %z {{ %y = Mul(%x, {a}) %z = Mul(%y, {b}) }}")
    context = Context(refusals=[])
    assert Product().run(model, context) == (sentence is None)
    assert [r.sentence for r in context.refusals or ()] == ([] if sentence is None else [sentence])


def test_quantized_values_are_refused() -> None:
    model = parse_model(
        """graph g(%x: f32[2]) -> %z {
             %y = Mul(%x, [2.0]) : f32[2] quant(scale: 0.5)
             %z = Mul(%y, [3.0])
           }"""
    )
    context = Context(refusals=[])
    assert Product().run(model, context) == 0
    sentence = "%y: is quantized, this pass does not keep quantization parameters"
    assert [r.sentence for r in context.refusals or ()] == [sentence]
