# SPDX-License-Identifier: Apache-2.0
"""The fields of an operator's declaration: operands and attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Value

if TYPE_CHECKING:
    from circlekit.ir.graph import Graph
    from circlekit.ir.op import Op

T = TypeVar("T")


class Operand:
    """A required operand; reading it from an operator gives its Value."""

    optional = False
    variadic = False

    def __init__(self, dtypes: tuple[DType, ...]) -> None:
        self.dtypes = dtypes
        self.name = ""
        self.index = 0

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type[Op]) -> Operand: ...
    @overload
    def __get__(self, op: Op, owner: type[Op]) -> Value: ...
    def __get__(self, op: Op | None, owner: type[Op]) -> Value | Operand:
        if op is None:
            return self
        value = op.inputs[self.index] if self.index < len(op.inputs) else None
        if value is None:
            raise ModelError(f"{type(op).__name__} lacks its operand {self.name}")
        return value

    def __set__(self, op: Op, value: Value) -> None:
        op.set_input(self.index, value)


class OptionalOperand(Operand):
    """An operand that may be absent; reading it gives a Value or None."""

    optional = True

    @overload  # type: ignore[override]  # absent is what optional means
    def __get__(self, op: None, owner: type[Op]) -> OptionalOperand: ...
    @overload
    def __get__(self, op: Op, owner: type[Op]) -> Value | None: ...
    def __get__(self, op: Op | None, owner: type[Op]) -> Value | OptionalOperand | None:
        if op is None:
            return self
        return op.inputs[self.index] if self.index < len(op.inputs) else None

    def __set__(self, op: Op, value: Value | None) -> None:
        op.set_input(self.index, value)


class VariadicOperand(Operand):
    """The rest of the operands; reading it gives a tuple of Values."""

    variadic = True

    @overload  # type: ignore[override]  # several is what variadic means
    def __get__(self, op: None, owner: type[Op]) -> VariadicOperand: ...
    @overload
    def __get__(self, op: Op, owner: type[Op]) -> tuple[Value, ...]: ...
    def __get__(self, op: Op | None, owner: type[Op]) -> tuple[Value, ...] | VariadicOperand:
        if op is None:
            return self
        return tuple(v for v in op.inputs[self.index :] if v is not None)


class Attribute:
    """A field of the operator's options.  ``field`` is its name in the schema's table.

    ``quantized_only``: it means nothing for plain floats and integers.
    """

    def __init__(self, default: Any, field: str | None, graph: bool, quantized_only: bool = False) -> None:
        self.default = default
        self.quantized_only = quantized_only
        self.field = field or ""
        self.is_graph = graph
        self.name = ""

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self.name = name
        self.field = self.field or name

    def __get__(self, op: Op | None, owner: type[Op]) -> Any:
        return self if op is None else op.attribute_values.get(self.name, self.default)

    def __set__(self, op: Op, value: Any) -> None:
        op.attribute_values[self.name] = value
        op.touch()


def operand(*dtypes: DType) -> Operand:
    """Declare a required operand.  A literal in the text form takes the first of ``dtypes``."""
    return Operand(dtypes)


def optional_operand(*dtypes: DType) -> OptionalOperand:
    """Declare an operand that may be absent (index -1 in the file, or beyond the end)."""
    return OptionalOperand(dtypes)


def variadic_operand(*dtypes: DType) -> VariadicOperand:
    """Declare that all further operands are of one kind (CONCATENATION, PACK, ADD_N)."""
    return VariadicOperand(dtypes)


def attribute(default: T, field: str | None = None, quantized_only: bool = False) -> T:
    """Declare an attribute with its default; ``field`` where the schema's name differs.

    ``quantized_only``: it matters for quantized data alone, so that rewrites of plain data pass it by.
    """
    return cast("T", Attribute(default, field, graph=False, quantized_only=quantized_only))


def graph_attribute(field: str) -> Graph:
    """Declare an attribute that is a graph here and the index of a subgraph in the file."""
    return cast("Graph", Attribute(None, field, graph=True))
