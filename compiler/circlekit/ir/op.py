# SPDX-License-Identifier: Apache-2.0
"""Functions that declare the operands and attributes of an operator class; OpaqueOp.

The declared names are fields of each operator: ``conv.filter`` is a Value, ``conv.stride_h`` an int.  An
example of a declaration stands in ``ir.declaration``.  The base class Op is defined in ``ir.core``.
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
    """An operator that has no declaration or does not fit it; only passes for opaque operators change it.

    If it does not fit its declaration, ``extra["misfit"]`` says why.
    ``code``: the schema's name of the operator, or for example ``UNKNOWN_310`` for the number 310 if the
    schema does not have that number.  ``custom_code``: the name of a custom operator, else None.
    ``option_tree``: the decoded options table as ``{"": table name, field: value}``, with graphs instead of
    their indices; None if the operator has no options.
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
        """Return the graphs in the fields of the options, and in lists in these fields."""
        items = (item if isinstance(item, list) else [item] for item in (self.option_tree or {}).values())
        return [item for listed in items for item in listed if isinstance(item, Graph)]


T = TypeVar("T")


class OperandField(Operand):
    """An operand as a field of an operator: a Value, None if absent, or a tuple of Values if variadic."""

    def __get__(self, op: Op | None, owner: type[Op]) -> Any:
        """Return the operand of an operator; return the declaration if the field is read from the class.

        Raise ModelError if the operand is required but absent.  The tuple of a variadic operand leaves out
        absent elements.
        """
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
    """An attribute as a field of an operator: the value that was set, or else the default."""

    def __get__(self, op: Op | None, owner: type[Op]) -> Any:
        return self if op is None else op.attribute_values.get(self.name, self.default)

    def __set__(self, op: Op, value: Any) -> None:
        """Set the attribute; raise ModelError if ``misfit`` finds that ``value`` has another type."""
        if (fault := self.misfit(value)) is not None:
            raise ModelError(f"{type(op).__name__}: {fault}")
        op.attribute_values = op.attribute_values | {self.name: comparable(value)}
        op.touch()


# The functions below return a field, but are annotated with the type of its value on an operator.


def operand(*dtypes: DType) -> Value:
    """Declare a required operand with one of ``dtypes``.

    The order of ``dtypes`` matters for literals in the text form: see ``ir.text.constant_data``.
    """
    return cast("Value", OperandField(dtypes))


def optional_operand(*dtypes: DType) -> Value | None:
    """Declare an operand that may be absent: in a file its index is -1, or the operands end before it."""
    return cast("Value | None", OperandField(dtypes, optional=True))


def variadic_operand(*dtypes: DType) -> tuple[Value, ...]:
    """Declare all remaining operands, of any number, as one field (CONCATENATION, PACK, ADD_N)."""
    return cast("tuple[Value, ...]", OperandField(dtypes, variadic=True))


def attribute(default: T, field: str | None = None, quantized_only: bool = False) -> T:
    """Declare an attribute.

    ``default``: its value if none is set.  A value that is set must have the type of the default.  But an
    integer may stand for a float, and a list or an array for a tuple.  If the default is None, a value may
    have any type.
    ``field``: the schema's name of the attribute, if the name in the class differs.  ``quantized_only``: the
    attribute has no effect if no operand or result is quantized; rewrites then ignore it.
    """
    return cast("T", AttributeField(default, field, is_graph=False, quantized_only=quantized_only))


def graph_attribute(field: str) -> Graph:
    """Declare an attribute that is a graph in the IR and the index of a subgraph in the file."""
    return cast("Graph", AttributeField(None, field, is_graph=True))
