# SPDX-License-Identifier: Apache-2.0
"""``is_folded``: which values are computed from constants by a limited number of pure operators."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.support.lone_model import is_folded


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%v = Neg(%c)", True),
        ("%v = Add(%c, %c)", True),
        ("%v = Neg(%x)", False),
        ("%v = Add(%c, %x)", False),
        ("%v = RandomUniform([3])", False),  # not pure
        ("%a = Neg(%c) %v = Neg(%a)", True),
        ("%a = Neg(%c) %b = Neg(%a) %v = Neg(%b)", False),  # three operators
    ],
)
def test_values_that_at_most_two_pure_operators_compute_from_constants(body: str, expected: bool) -> None:
    constant = "%c = const f32[3] gaussian(0, 1)"
    model = parse_model(f"graph main(%x: f32[3]) -> %y {{ {constant} {body} %y = Add(%x, %v) }}")
    value = model.main.ops[-1].inputs[1]
    assert value is not None
    assert is_folded(value, 2) is expected


def test_values_with_many_paths_to_a_constant() -> None:
    """200 ** 4 paths lead to the constant: each value is visited once, not each path."""
    lines = [f"%v{i + 1} = AddN({', '.join([f'%v{i}'] * 200)})" for i in range(4)]
    constant = "%v0 = const f32[1] [0.0]"
    model = parse_model(f"graph main(%x: f32[1]) -> %y {{ {constant} {' '.join(lines)} %y = Add(%x, %v4) }}")
    assert is_folded(model.main.ops[-2].output)
