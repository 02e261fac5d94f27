# SPDX-License-Identifier: Apache-2.0
"""Attributes of operators: compare, print and parse their values, by the type of the declared default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from circlekit.errors import near_miss
from circlekit.ir.core import Graph
from circlekit.ir.declaration import Attribute
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.ir.text.literal_parsing import Fail, tree_of
from circlekit.ir.text.literal_printing import format_flat, format_float32, format_tree
from circlekit.ir.text.syntax import GraphName, Literal, Symbol

_SEQUENCE = (list, tuple, np.ndarray)
_NUMBER = (int, float, np.number)
_LARGEST_FLOAT = 10**300
"""Integers beyond this are clipped to it before they become floats: it is infinite in 32 bits."""


def same_attribute(a: Any, b: Any) -> bool:
    """Whether the file formats cannot tell two values apart: floats have 32 bits, lists equal tuples."""
    if a is b:
        return True
    if isinstance(a, _SEQUENCE) and isinstance(b, _SEQUENCE):
        return len(a) == len(b) and all(map(same_attribute, a, b))
    if isinstance(a, _NUMBER) and isinstance(b, _NUMBER) and not isinstance(a, bool) | isinstance(b, bool):
        exact = isinstance(a, int | np.integer) and isinstance(b, int | np.integer)
        return int(a) == int(b) if exact else format_float32(float(a)) == format_float32(float(b))
    return type(a) is type(b) and bool(a == b)


def format_attribute(value: Any, graph: Callable[[Graph], str]) -> str:
    """Return the literal of an attribute; ``graph``: returns the text that refers to a graph."""
    if isinstance(value, Graph):
        return graph(value)
    if isinstance(value, DType):
        return value.short
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float | np.floating):
        return format_float32(float(value))
    if isinstance(value, _SEQUENCE):
        return format_flat(format_attribute(x, graph) for x in value)
    return format_tree(value)


def attribute_of(spec: Attribute, literal: Literal, graphs: Mapping[str, Graph], fail: Fail) -> Any:
    """Return the value of a literal for an attribute, which has the type of its default.

    Floats are rounded to 32 bits, as files store them; sequences become tuples.
    """
    default = spec.default
    if spec.is_graph:
        return _graph(spec, literal, graphs, fail)
    if isinstance(default, DType):
        return _member(spec, literal, BY_SHORT, fail)
    if isinstance(default, Enum):
        return _member(spec, literal, type(default).__members__, fail)
    if isinstance(default, bool):
        if not isinstance(literal, bool):
            fail(f"{spec.name} must be true or false")
        return literal
    if isinstance(default, int | float):
        return _number(spec, literal, isinstance(default, float), fail)
    if isinstance(default, str):
        if not isinstance(literal, str) or isinstance(literal, Symbol | GraphName):
            fail(f"{spec.name} must be a text in quotes")
        return literal
    if isinstance(default, list | tuple) and not isinstance(literal, list):
        fail(f"{spec.name} must be a list")
    return _rounded(tree_of(literal, fail))


def _graph(spec: Attribute, literal: Literal, graphs: Mapping[str, Graph], fail: Fail) -> Graph:
    if not isinstance(literal, GraphName):
        fail(f"{spec.name} must be a graph, written @name")
    if literal not in graphs:
        fail(f"no graph is named @{literal}" + near_miss(literal, graphs))
    return graphs[literal]


def _member(spec: Attribute, literal: Literal, members: Mapping[str, Any], fail: Fail) -> Any:
    if not isinstance(literal, Symbol) or literal not in members:
        near = near_miss(str(literal), members) or f"; expected one of {', '.join(members)}"
        fail(f"{spec.name} cannot be {literal}{near}")
    return members[literal]


def _number(spec: Attribute, literal: Literal, is_float: bool, fail: Fail) -> int | float:
    if isinstance(literal, bool) or not isinstance(literal, int | float):
        fail(f"{spec.name} must be a number")
    if is_float:
        if isinstance(literal, int):
            literal = float(min(max(literal, -_LARGEST_FLOAT), _LARGEST_FLOAT))
        return float(format_float32(literal))
    if isinstance(literal, float):
        fail(f"{spec.name} must be a whole number, not {literal}")
    if abs(literal) >= 1 << 63:
        fail(f"{spec.name} does not fit 64 bits")
    return literal


def _rounded(data: Any) -> Any:
    """Round floats to the shortest decimal with the same float32; turn lists into tuples."""
    if isinstance(data, float):
        return float(format_float32(data))
    return tuple(map(_rounded, data)) if isinstance(data, list) else data
