# SPDX-License-Identifier: Apache-2.0
"""Cost of operators and live activations, on figures that a reader can add up."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.report.operator_cost import activation_arena, operator_cost
from circlekit.testing import random_model

NET = """
graph main(%x: f32[1,4]) -> %y {
  %w = const f32[8,4] gaussian(0, 1)
  %wide = FullyConnected(%x, %w, none)  : f32[1,8]
  %twice = Add(%wide, %wide)            : f32[1,8]
  %joined = Concatenation(%twice, %wide) {axis: 1} : f32[1,16]
  %y = Relu(%joined)                    : f32[1,16]
}
"""


def test_costs() -> None:
    dense, twice, *_ = circlekit.parse(NET).main.ops
    cost = operator_cost(dense)
    assert (cost.macs, cost.activation_bytes, cost.constant_bytes, cost.written_bytes) == (32, 16, 128, 32)
    assert operator_cost(twice).activation_bytes == 32  # the same operand twice is read once
    assert cost.moved_bytes == 176


def test_arena() -> None:
    arena = activation_arena(circlekit.parse(NET).main)
    assert arena.live_bytes == [16 + 32, 32 + 32, 32 + 32 + 64, 64 + 64]
    assert (arena.peak, arena.peak_bytes) == (2, 128)
    assert [(life.value.name, life.size, life.first, life.last) for life in arena.held] == [
        ("joined", 64, 2, 3),
        ("wide", 32, 0, 2),
        ("twice", 32, 1, 2),
    ]


def test_arena_of_a_graph_without_operators() -> None:
    arena = activation_arena(circlekit.parse("graph main(%x: f32[4]) -> %x {\n}").main)
    assert (arena.live_bytes, arena.peak_bytes) == ([], 0)


@pytest.mark.parametrize("seed", range(4))
def test_operands_and_results_are_live(seed: int) -> None:
    graph = random_model(seed)[0].main
    arena = activation_arena(graph)
    for op, live in zip(graph, arena.live_bytes, strict=True):
        cost = operator_cost(op)
        assert cost.activation_bytes <= live
        assert cost.written_bytes <= live
