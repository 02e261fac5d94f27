# SPDX-License-Identifier: Apache-2.0
"""A model and tables for the tests of partitions."""

from __future__ import annotations

from circlekit.structure.part_table import PartTable

SHARED_CONSTANT = """
graph main(%x: f32[2,3], %unread: f32[1]) -> %y, %x, %w {
  %w = const f32[3] [1.0, 2.0, 3.0]
  %a = Add(%x, %w)    : f32[2,3]
  %b = Relu(%a)       : f32[2,3]
  %c = Mul(%b, %w)    : f32[2,3]
  %idle = Neg(%a)     : f32[2,3]
  %y = Sub(%c, %a)    : f32[2,3]
}
"""


def table_of(backends: dict[str, str]) -> PartTable:
    """Return a table with the default cpu.

    The keys of ``backends`` are opcodes if all are in capitals, else names.
    """
    by_name = any(not name.isupper() for name in backends)
    return PartTable(
        ["cpu", "npu"],
        "cpu",
        {} if by_name else backends,
        backends if by_name else {},
        "opname" if by_name else "opcode",
    )
