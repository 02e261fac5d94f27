# SPDX-License-Identifier: Apache-2.0
"""Conditions on shapes, quantization and constants, and the removal of unused producers."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # declares the operators of texts
from circlekit.ir.dtypes import f32
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Shape, Value
from circlekit.passes.support import conditions


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (None, False),
        ((2, 3), True),
        ((0, 3), True),
        ((None, 3), True),
        ((None, 1), True),
        ((None, 0), False),
        ((None, None), False),
    ],
)
def test_determined_by_the_number_of_elements(shape: Shape | None, expected: bool) -> None:
    assert conditions.is_determined(shape) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (None, None, False),
        (None, (2,), False),
        ((2,), None, False),
        ((2,), (2, 1), False),
        ((2, 3), (2, 3), True),
        ((2, 3), (3, 2), False),
        ((None, 3), (2, 3), True),
        ((None, 4), (2, 3), False),
        ((None, 3), (None, 3), True),
        ((1, None), (1, None), True),
        ((None, 3), (2, None), False),
        ((None, None), (None, None), False),
        ((0, 2), (0, 2), True),
        ((0, 2), (2, 0), False),
        ((0, None), (0, None), False),
        ((0, 3), (None, 3), False),
        ((None, 3), (0, 3), False),
    ],
)
def test_provably_equal_shapes(a: Shape | None, b: Shape | None, expected: bool) -> None:
    assert conditions.provably_equal(a, b) is expected


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ((2, 3), (2, 3), None),
        ((None, 3), (None, 3), None),
        ((2, 3), (3, 2), "%b: expected the shape of %a, [2,3], got [3,2]"),
        ((None, None), (None, None), "%b: has more than one unknown dimension: [?,?]"),
        ((None, 0), (None, 0), "%b: has an unknown dimension beside a 0: [?,0]"),
        (None, None, "%b: has an unknown rank"),
    ],
)
def test_same_shape(a: Shape | None, b: Shape | None, sentence: str | None) -> None:
    assert conditions.same_shape(Value("a", f32, a), Value("b", f32, b)) == sentence


def test_same_quantization_of_all_values() -> None:
    grids = [Quantization.per_tensor(s) for s in (1.0, 2.0)]
    a, b, c = (Value(name, f32, (1,), None, grids[name == "c"]) for name in "abc")
    assert conditions.same_quantization(a, b) is None
    for values in ((a, c), (a, b, c)):
        sentence = "%c: has other quantization parameters than %a"
        assert conditions.same_quantization(*values) == sentence


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([], "%k: is empty"),
        ([1], None),
        ([1, 1], None),
        ([1, 3], "%k: expected only 1, got 3"),
        ([4, 1, 3], "%k: expected only 1, got 4"),
    ],
)
def test_all_equal(numbers: list[int], sentence: str | None) -> None:
    assert conditions.all_equal(np.array(numbers, np.int32), 1, "k") == sentence


@pytest.mark.parametrize(
    ("shape", "constant", "keeps"),
    [
        ((2, 3), (), True),
        ((2, 3), (3,), True),
        ((2, 3), (1, 3), True),
        ((2, 3), (2, 1), True),
        ((2, 3), (2, 3), True),
        ((1, 3), (2, 3), False),
        ((2, 3), (1, 2, 3), False),
        ((None, 3), (1, 3), True),
        ((None, 3), (4, 3), False),
        (None, (1,), False),
    ],
)
def test_broadcasting_that_keeps_the_shape(
    shape: Shape | None, constant: tuple[int, ...], keeps: bool
) -> None:
    refusal = conditions.broadcast_refusal(
        Value("x", f32, shape), Value.constant("k", np.zeros(constant, "f4"))
    )
    assert (refusal is None) is keeps


def test_unused_producers_are_removed() -> None:
    """An operator stays if a result of it is read or is an output, or if it has side effects."""
    model = parse_model(
        """graph main(%x: f32[2,3]) -> %y, %s, %g {
             %s = Neg(%x)
             %u = Exp(%x)
             %a = Abs(%s)
             %b = Tanh(%u)
             %c = Add(%a, %a)
             %d = Mul(%c, %b)
             %e = FullyConnected(%d, [[1.0, 2.0, 3.0]], none)
             %f, %g = Split(0, %x) {num_splits: 2}
             %w = While(%x) {cond: @cond, body: @body} : f32[2,3]
             %y = Relu(%u)
           }
           graph cond(%p: f32[2,3]) -> %q { %q = Less(1.0, 0.0) : bool[] }
           graph body(%r: f32[2,3]) -> %t { %t = Neg(%r) }"""
    )
    values = {value.name: value for value in model.main.values()}
    conditions.remove_unused(model.main, values["x"], values["w"], values["e"], values["f"])
    assert [op.results[0].name for op in model.main] == ["s", "u", "f", "w", "y"]
