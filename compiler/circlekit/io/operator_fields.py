# SPDX-License-Identifier: Apache-2.0
"""Convert operator codes and options between the tables of the schema and the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flatbuffers import flexbuffers

from circlekit.errors import ModelError
from circlekit.io.schema import Field, Kind, Tree, enumeration, number_of, options_field, table
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.op import Attribute, Op

CodeKey = tuple[str, str | None, int]
"""The identity of an operator code: the name of the operator, its custom code or None, its version."""

PLACEHOLDER = 127
"""The value of the one-byte field ``deprecated_builtin_code`` if the operator's number is 127 or greater."""


def code_key(tree: Tree, fmt: str) -> CodeKey:
    """Return the key of an operator code; equal keys mean the same operator and version.

    Old writers set the one-byte field ``deprecated_builtin_code`` only; newer writers set ``builtin_code``
    too.  If the schema does not have the number, for example 310, the name in the key is ``UNKNOWN_310``.
    """
    old: int = tree.get("deprecated_builtin_code", 0)
    number = number_of("BuiltinOperator", fmt, tree.get("builtin_code", 0)) or old
    # circle's own operators have negative numbers; else readers take the greater of the two fields
    number = number if number < 0 else max(number, old)
    name = enumeration("BuiltinOperator", fmt).names.get(number, f"UNKNOWN_{number}")
    return name, tree.get("custom_code") or None, tree.get("version", 1)


# -- graphs in the options of opaque operators -------------------------------------------------

GRAPH_FIELDS = ("subgraph", "subgraph_index", "subgraph_indices", "called_computations")
"""The endings of the names of the fields of options that hold indices of graphs."""


def with_graphs(options: Tree, graphs: Sequence[Graph]) -> Tree:
    """Return ``options`` with graphs in place of indices; a field with an invalid index stays as it is."""
    return {k: _graphs(v, graphs) if k.endswith(GRAPH_FIELDS) else v for k, v in options.items()}


def _graphs(indices: Any, graphs: Sequence[Graph]) -> Any:
    """Return the graph for an index, or a list of graphs for an array of indices.

    If an index is invalid, return ``indices`` itself.
    """
    listed = indices.tolist() if isinstance(indices, np.ndarray) else [indices]
    if not all(isinstance(i, int) and 0 <= i < len(graphs) for i in listed):
        return indices
    return [graphs[i] for i in listed] if isinstance(indices, np.ndarray) else graphs[indices]


def without_graphs(options: Tree, graphs: dict[int, int]) -> Tree:
    """Return ``options`` with indices in place of graphs.

    ``graphs``: the index of each graph of the model by ``id(graph)``.  It has every graph in ``options``.
    """

    def stored(item: Any) -> Any:
        if isinstance(item, Graph):
            return graphs[id(item)]
        is_list = isinstance(item, list) and bool(item) and all(isinstance(x, Graph) for x in item)
        return np.array([graphs[id(x)] for x in item], np.int32) if is_list else item

    return {key: stored(item) for key, item in options.items()}


# -- attributes --------------------------------------------------------------------------------


class Slot(NamedTuple):
    """A declared attribute and the field of the options table that stores it."""

    attribute: Attribute
    field: Field

    @property
    def defaults_differ(self) -> bool:
        """Whether attribute and field have different numbers as defaults (beta of SOFTMAX has 1 and 0).

        Then a field that the file omits must be read as the default of the field, not of the attribute.
        """
        attribute, field = self
        return isinstance(attribute.default, int | float) and attribute.default != field.default


class OptionsPlan(NamedTuple):
    """How a file stores the attributes of an operator class, in the fields of an options table.

    ``union``: the field of the schema's Operator that holds the table, ``builtin_options`` or
    ``builtin_options_2``.  ``slots``: the attributes and the fields that store them.  ``declared``: the names
    of these fields.
    """

    union: str
    slots: tuple[Slot, ...]
    declared: frozenset[str]


@cache
def options_plan(kind: type[Op], fmt: str) -> OptionsPlan | None:
    """Return how a file of format ``fmt`` stores the attributes of ``kind``; None if ``kind`` has no options.

    The plan leaves out an attribute if only the other format has a field for it.  Raise ModelError if neither
    format has the options table, or neither has the field of an attribute.
    """
    if kind.options is None:
        return None
    union = options_field(kind.options)
    if union is None:
        hint = "" if kind.attributes else "; an operator without options is declared with options=None"
        raise ModelError(
            f"{kind.__name__}: expected an options table of the schema, got {kind.options}{hint}"
        )
    fields = table(kind.options, fmt).by_name
    foreign = table(kind.options, fmt).foreign
    slots = []
    for attribute in kind.attributes:
        if attribute.field in fields:
            slots.append(Slot(attribute, fields[attribute.field]))
        elif attribute.field not in foreign:
            raise ModelError(f"{kind.__name__}.{attribute.name}: {kind.options} has no {attribute.field}")
    return OptionsPlan(union, tuple(slots), frozenset(slot.field.name for slot in slots))


def attribute_of(slot: Slot, value: Any, graphs: Sequence[Graph]) -> Any:
    """Return the attribute of ``slot`` for ``value``, the content of its field.

    A vector becomes a tuple; the index of a graph becomes the graph.  Raise LookupError for an index without
    a graph, and for a value that the attribute's enum lacks.
    """
    attribute, field = slot
    if attribute.is_graph:
        return graphs[value if value >= 0 else len(graphs)]  # so that a negative index raises IndexError too
    if field.enum is None:
        return tuple(np.asarray(value).tolist()) if field.kind is Kind.VECTOR else value
    if field.kind is Kind.VECTOR:
        return tuple(value)
    if field.enum.name == "TensorType":
        return DType[value]
    return type(attribute.default)[value] if isinstance(attribute.default, Enum) else value


def stored_attribute(slot: Slot, value: Any, graphs: dict[int, int]) -> Any:
    """Return the value of the field of ``slot`` for the attribute ``value``; None to omit the field.

    The field is omitted for None and for an empty vector.  ``graphs``: the index of each graph of the model
    by ``id(graph)``.  If ``value`` is a graph, ``graphs`` has it.
    """
    attribute, field = slot
    if value is None:
        return None
    if attribute.is_graph:
        return graphs[id(value)]
    if isinstance(value, Enum):
        return value.name
    if field.kind is Kind.VECTOR:
        return list(value) or None
    return value


FlexValue = bool | int | str | Sequence[int]
"""A value that ``flexbuffer_map`` can encode."""


def flexbuffer_map(values: Mapping[str, FlexValue]) -> bytes:
    """Return ``values`` as a map in a flexbuffer, the format of custom options.

    A sequence of integers becomes a typed vector.
    """
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in values.items():
            if isinstance(value, bool):
                builder.Bool(name, value)
            elif isinstance(value, int):
                builder.Int(name, value)
            elif isinstance(value, str):
                builder.String(name, value)
            else:
                builder.TypedVectorFromElements(name, list(value))
    return bytes(builder.Finish())
