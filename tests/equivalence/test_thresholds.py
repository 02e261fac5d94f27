# SPDX-License-Identifier: Apache-2.0
"""Thresholds of a model, as numbers of its inputs."""

from __future__ import annotations

import pytest

from circlekit.equivalence.thresholds import MAX_THRESHOLDS, thresholds
from circlekit.ir.text import parse_model


def found(line: str, dtype: str = "f32") -> list[float]:
    graph = parse_model(f"graph main(%x: {dtype}[2,2], %v: f32[2,2]) -> %y {{ {line} }}").main
    return [t.number for t in thresholds(graph).get(id(graph.inputs[0]), [])]


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("%y = Minimum(%x, 200.0)", [200]),
        ("%y = Less([[20.0, 30.0], [25.0, 28.0]], %x)", [20, 30]),
        ("%y = Relu6(%x)", [6]),
        ("%y = ReluN1To1(%x)", [-1, 1]),
        ("%y = FakeQuant(%x) {min: -3.0, max: 50.0, num_bits: 8}", [-3, 50]),
        ("%y = Quantize(%x) : i8[2,2] quant(scale: 8.0, zero_point: -28)", [-800, 1240]),
        ("%y = Cast(%x) : i8[2,2]", [-128, 127]),
        # factors and shifts between the input and the operator
        ("%m = Mul(%x, [0.25]) %y = Minimum(%m, 2.0)", [8]),
        ("%m = Div(%x, 4.0) %a = Sub(%m, 1.0) %y = Minimum(%a, 2.0)", [12]),
        ("%m = Sub(10.0, %x) %y = Minimum(%m, 2.0)", [8]),
        ("%m = Neg(%x) %y = Minimum(%m, 2.0)", [-2]),
        ("%y = Mul(%x, 0.125) {act: RELU6}", [48]),
        ("%y = Add(%x, 1.0) {act: RELU6}", [-1, 5]),
        ("%m = Relu(%x) %t = Transpose(%m, [1, 0]) %a = Add(%t, %v) %y = Minimum(%a, 2.0)", [2]),
        ("%m = Mul(%x, [2.0, 4.0]) %y = Minimum(%m, 8.0)", [4]),
        # no way to tell, or no number to tell
        ("%m = Exp(%x) %y = Minimum(%m, 2.0)", []),
        ("%m = Mul(%x, %v) %y = Minimum(%m, 2.0)", []),
        ("%m = Div(1.0, %x) %y = Minimum(%m, 2.0)", []),
        ("%m = Mul(%x, 0.0) %y = Minimum(%m, 2.0)", []),
        ("%y = Minimum(%x, 1e9)", []),
        ("%y = Minimum(%x, %v)", []),
        ("%y = Add(%x, [nan]) {act: RELU6}", []),
        ("%m = Mul(%x, 1e-38) %n = Mul(%m, 1e-38) %y = Minimum(%n, 1e38)", []),
    ],
)
def test_thresholds_of_floats(line: str, numbers: list[float]) -> None:
    assert found(line) == numbers


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("%y = Minimum(%x, 200)", [200]),
        ("%y = Cast(%x) : i32[2,2]", [-(2**31), 2**31 - 1]),
        ("%f = Cast(%x) : f32[2,2] %m = Mul(%f, 0.5) %y = Less(%m, 100.0)", [200]),
        ("%y = Equal(%x, 7)", [7]),
    ],
)
def test_thresholds_of_integers(line: str, numbers: list[float]) -> None:
    assert found(line, "i64") == numbers


def test_thresholds_in_branches_count() -> None:
    graph = parse_model("""
        graph main(%c: bool[], %x: f32[1]) -> %y {
          %m = Mul(%x, 0.5)
          %y = If(%c, %m) {then_graph: @then, else_graph: @else} : f32[1]
        }
        graph then(%a: f32[1]) -> %b { %b = Minimum(%a, 2.0) }
        graph else(%d: f32[1]) -> %e { %e = Minimum(%d, 3.0) }
    """).main
    ((key, found),) = thresholds(graph).items()
    assert key == id(graph.inputs[1])
    assert [t.number for t in found] == [4, 6]


@pytest.mark.parametrize(
    ("line", "distance", "is_exact"),
    [
        ("%y = Less(%x, 3.0)", 0.39, True),
        ("%t = Transpose(%x, [1, 0]) %m = Neg(%t) %y = Less(%m, 3.0)", 0.39, True),
        ("%m = Mul(%x, 0.5) %y = Less(%m, 3.0)", 0.78, False),
        ("%m = Add(%x, -3.0) %y = Less(%m, 3.0)", 0.78, False),
        ("%m = Add(%x, 0.0) %y = Less(%m, 3.0)", 0.39, True),
        # constants that cancel each other still round
        ("%m = Add(%x, 100.0) %n = Sub(%m, 100.0) %y = Less(%n, 3.0)", 26.39, False),
        ("%m = Div(%x, 4.0) %n = Mul(%m, 4.0) %y = Less(%n, 3.0)", 0.39, False),
    ],
)
def test_a_rounded_number_is_not_compared_at_the_threshold(
    line: str, distance: float, is_exact: bool
) -> None:
    graph = parse_model(f"graph main(%x: f32[2,2]) -> %y {{ {line} }}").main
    ((threshold,),) = thresholds(graph).values()
    assert threshold.distance == pytest.approx(distance)
    assert threshold.is_exact is is_exact


def test_the_number_of_thresholds_is_limited() -> None:
    lines = "".join(f"%m{i} = Minimum(%x, {i}.0)\n" for i in range(1, 30))
    assert found(lines + "%y = Neg(%x)") == list(range(1, MAX_THRESHOLDS + 1))


@pytest.mark.parametrize("code", ["Minimum", "Add"])
def test_an_operator_of_a_damaged_file_may_lack_an_operand(code: str) -> None:
    graph = parse_model(f"graph main(%x: f32[2]) -> %y {{ %y = {code}(%x, [1.0, 2.0]) }}").main
    graph.ops[0].inputs.pop()
    assert not thresholds(graph)
