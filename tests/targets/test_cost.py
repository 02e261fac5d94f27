# SPDX-License-Identifier: Apache-2.0
"""Cost of operators, on figures that a reader can add up."""

from __future__ import annotations

import circlekit
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.value import Value
from circlekit.targets.cost import operator_cost, value_bytes

NET = """
graph main(%x: f32[1,4]) -> %y {
  %w = const f32[8,4] gaussian(0, 1)
  %wide = FullyConnected(%x, %w, none)  : f32[1,8]
  %y = Add(%wide, %wide)                : f32[1,8]
}
"""


def test_costs() -> None:
    dense, twice = circlekit.parse(NET).main.ops
    cost = operator_cost(dense)
    assert (cost.macs, cost.activation_bytes, cost.constant_bytes, cost.written_bytes) == (32, 16, 128, 32)
    assert operator_cost(twice).activation_bytes == 32  # the same operand twice is read once
    assert cost.moved_bytes == 176  # 16 + 128 + 32


def test_an_operator_without_results_computes_nothing() -> None:
    model = circlekit.parse("""graph main(%x: f32[4]) -> %y {
      %handle = VarHandle() {shared_name: "state"}  : resource[]
      AssignVariable(%handle, %x)
      %y = ReadVariable(%handle)  : f32[4]
    }""")
    assign = model.main.ops[1]
    assert not assign.results
    assert (operator_cost(assign).macs, operator_cost(assign).activation_bytes) == (0, 16)


def test_bytes_of_unknown_shapes_and_of_half_bytes() -> None:
    """An unknown dimension counts as 1, an unknown rank as nothing; the last byte may be half full."""
    assert value_bytes(Value("x", f32, (None, 3, None))) == 12
    assert value_bytes(Value("x", f32, None)) == 0
    assert [value_bytes(Value("x", DType.INT4, (n,))) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
