# SPDX-License-Identifier: Apache-2.0
"""Operators and all that a declaration of one is written with; operators without a declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from circlekit.ir.core import Graph, Op, Run, Value
from circlekit.ir.declaration import DECLARATIONS, Attribute, Inferred, Operand
from circlekit.ir.fields import attribute, graph_attribute, operand, optional_operand, variadic_operand

__all__ = [
    "REGISTRY",
    "Attribute",
    "Inferred",
    "Op",
    "OpaqueOp",
    "Operand",
    "Run",
    "attribute",
    "graph_attribute",
    "operand",
    "optional_operand",
    "variadic_operand",
]

REGISTRY: dict[str, type[Op]] = DECLARATIONS
"""Every declared operator class by its code in the schema (``TRANSPOSE_CONV``)."""


class OpaqueOp(Op):
    """An operator without a declaration, kept as the file had it: rewrites leave it alone.

    ``code``: the schema's name, or ``UNKNOWN_310`` for a number that the schema does not have.
    ``option_tree``: the decoded options table: ``{"": table name, field: value}``, with graphs in place of
    their indices; None if there is none.
    """

    pure = False
    custom_code: str | None = None
    option_tree: dict[str, Any] | None = None

    def __init__(
        self,
        *operands: Value | None,
        code: str,
        results: Sequence[Value],
        custom_code: str | None = None,
        option_tree: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(*operands, results=results)
        self.code = code  # type: ignore[misc]  # a class constant for every operator but this one
        self.custom_code = custom_code
        self.option_tree = option_tree

    def called_graphs(self) -> list[Graph]:
        """Return the graphs in its options, also those in lists."""
        found: list[Any] = []
        for item in (self.option_tree or {}).values():
            found += [x for x in (item if isinstance(item, list) else [item]) if isinstance(x, Graph)]
        return found
