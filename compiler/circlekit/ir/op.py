# SPDX-License-Identifier: Apache-2.0
"""The functions that declare operands and attributes of an operator class, and OpaqueOp.

They become fields of each operator: ``conv.filter`` is a Value, ``conv.stride_h`` an int.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from circlekit.errors import ModelError
from circlekit.ir.core import Graph, Op, Run, Value
from circlekit.ir.declaration import DECLARATIONS, Attribute, Inferred, Operand, comparable
from circlekit.ir.dtypes import DType

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
"""Every declared operator class by its code in the schema, such as ``TRANSPOSE_CONV``."""


class OpaqueOp(Op):
    """An operator without a declaration, kept as the file had it; rewrites do not change it.

    ``code``: the schema's name, or ``UNKNOWN_310`` for a number that the schema does not have.
    ``custom_code``: the name of a custom operator, else None.
    ``option_tree``: the decoded options table, ``{"": table name, field: value}``, with graphs instead of
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
        """Return the graphs in the options, those in lists included."""
        items = (item if isinstance(item, list) else [item] for item in (self.option_tree or {}).values())
        return [item for listed in items for item in listed if isinstance(item, Graph)]


T = TypeVar("T")


class OperandField(Operand):
    """An operand as a field: a Value, None if it is absent, a tuple of Values if it is variadic."""

    def __get__(self, op: Op | None, owner: type[Op]) -> Any:
        """Raise ModelError for an operand that is absent but not optional."""
        if op is None:
            return self
        if self.variadic:
            return tuple(v for v in op.inputs[self.index :] if v is not None)
        value = op.inputs[self.index] if self.index < len(op.inputs) else None
        if value is None and not self.optional:
            raise ModelError(f"{type(op).__name__} has no operand {self.name}, which is required")
        return value

    def __set__(self, op: Op, value: Value | None) -> None:
        if self.variadic:
            owner = type(op).__name__
            raise ModelError(f"{owner}.{self.name} is a list of operands: change one of them with set_input")
        op.set_input(self.index, value)


class AttributeField(Attribute):
    """An attribute as a field: the operator's own value, or else the default."""

    def __get__(self, op: Op | None, owner: type[Op]) -> Any:
        return self if op is None else op.attribute_values.get(self.name, self.default)

    def __set__(self, op: Op, value: Any) -> None:
        """Raise ModelError for a value of another type than the default's."""
        if (fault := self.misfit(value)) is not None:
            raise ModelError(f"{type(op).__name__}: {fault}")
        op.attribute_values[self.name] = comparable(value)
        op.touch()


# Each function returns a field, but is annotated with the type that the field has on an operator.


def operand(*dtypes: DType) -> Value:
    """Declare a required operand with one of ``dtypes``; for literals see ``ir.text.constant_data``."""
    return cast("Value", OperandField(dtypes))


def optional_operand(*dtypes: DType) -> Value | None:
    """Declare an operand that may be absent (in the file: index -1, or a list that ends before it)."""
    return cast("Value | None", OperandField(dtypes, optional=True))


def variadic_operand(*dtypes: DType) -> tuple[Value, ...]:
    """Declare all remaining operands, any number of them (CONCATENATION, PACK, ADD_N)."""
    return cast("tuple[Value, ...]", OperandField(dtypes, variadic=True))


def attribute(default: T, field: str | None = None, quantized_only: bool = False) -> T:
    """Declare an attribute with its default value.  ``field``: the schema's name, if it is another one.

    ``quantized_only``: it has no effect on plain floats and integers, so rewrites of plain data ignore it.
    """
    return cast("T", AttributeField(default, field, is_graph=False, quantized_only=quantized_only))


def graph_attribute(field: str) -> Graph:
    """Declare an attribute that is a graph in the IR and the index of a subgraph in the file."""
    return cast("Graph", AttributeField(None, field, is_graph=True))
