# SPDX-License-Identifier: Apache-2.0
"""What training has left in a model and no pass removes unasked, because values or effects would change."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.graph import Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ops.arithmetic.random_ops import Multinomial, RandomStandardNormal, RandomUniform

CHECKS = frozenset(prefix + name for prefix in ("", "Flex") for name in ("Assert", "Print", "PrintV2"))
"""TensorFlow's operators without a result, or whose result is their operand, that stop or print."""


def leftover_notes(model: Model) -> list[str]:
    """A sentence for each, with what to do."""
    return [note for op in model.ops() for note in _notes(op)]


def _notes(op: Op) -> Iterator[str]:
    if isinstance(op, RandomUniform | RandomStandardNormal | Multinomial):
        found = f"{op.code} %{op.output.name} gives other numbers in every run"
        yield f"{found}; if it is what dropout in training has left: --remove_dropout"
    elif isinstance(op, OpaqueOp) and op.custom_code in CHECKS:
        yield (
            f"the custom operator {op.custom_code} is for training, and few runtimes have it: "
            f"--remove_nodes_of {op.custom_code} removes it"
        )
