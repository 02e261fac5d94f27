# SPDX-License-Identifier: Apache-2.0
"""Options of operators: conversion between the fields of an options table and attributes of the IR."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from circlekit.errors import ModelError
from circlekit.io.schema import Field, Kind, Tree, options_field, table
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.op import Attribute, Op
from circlekit.ir.value import Quantization, Shape, Value, same_array

# -- shapes ------------------------------------------------------------------------------------


def shape_of(stored: Sequence[int], signature: Sequence[int] | None) -> Shape:
    """The shape by a tensor's two fields: what either says is -1 is unknown."""
    if min(stored, default=0) < -1:
        raise FormatError(f"shape {list(stored)} has a negative dimension")
    if signature is None or len(signature) != len(stored):
        return tuple(None if d < 0 else d for d in stored)
    return tuple(None if d < 0 or s < 0 else d for d, s in zip(stored, signature, strict=True))


def shape_fields(shape: Shape | None, extra: Tree, is_const: bool) -> Tree:
    """``shape`` and ``shape_signature`` of a tensor: those of the file where they still say the same."""
    canonical = [1 if d is None else d for d in shape or ()]
    if shape is not None and None not in shape and extra.keys().isdisjoint(("shape", "shape_signature")):
        return {"shape": canonical}
    stored, signature = extra.get("shape", canonical), extra.get("shape_signature")
    said = shape_of(stored, None if is_const else signature)
    if said != (shape or ()):
        stored, signature = canonical, None
        if shape is not None and None in shape:
            signature = [-1 if d is None else d for d in shape]
    return {"shape": stored} if signature is None else {"shape": stored, "shape_signature": signature}


# -- quantization ------------------------------------------------------------------------------

TENSOR_FIELDS = frozenset({"scales", "zero_points"})
"""Of a blockwise quantization: indices of tensors; -1 for none."""

_NUMBERS = {"scale": np.float32, "zero_point": np.int64, "min": np.float32, "max": np.float32}


def quantization_of(tree: Tree | None) -> Quantization | None:
    """The quantization by its table; None for a table without parameters."""
    if not tree:
        return None
    scale = tree.get("scale")
    zero_point = tree.get("zero_point")
    low, high, details = tree.get("min"), tree.get("max"), tree.get("details")
    if details is None and not any(v is not None and len(v) for v in (scale, zero_point, low, high)):
        return None
    if details is not None:
        details = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in details.items()}
    scale = np.zeros(0, np.float32) if scale is None else scale
    if zero_point is None:
        zero_point = np.zeros(len(scale), np.int64)
    return Quantization(scale, zero_point, tree.get("quantized_dimension", 0), low, high, details)


def quantization_tree(quantization: Quantization | None, stored: Tree | None) -> Tree | None:
    """The table of a quantization: ``stored``, what the file had, where that means the same."""
    if stored is not None and quantization_of(stored) == quantization:
        return stored
    if quantization is None:
        return None
    vectors = {name: getattr(quantization, name) for name in _NUMBERS}
    tree: Tree = {n: np.asarray(v, _NUMBERS[n]) for n, v in vectors.items() if v is not None and len(v)}
    if quantization.quantized_dimension:
        tree["quantized_dimension"] = quantization.quantized_dimension
    if quantization.details is not None:
        tree["details"] = quantization.details
    return tree


def with_indices(quantization: Quantization | None, indices: dict[int, int]) -> Quantization | None:
    """``quantization`` with ``indices``, by id, in the place of values."""
    if quantization is None or not quantization.details:
        return quantization
    details = {
        k: indices[id(v)] if isinstance(v, Value) else v for k, v in (quantization.details or {}).items()
    }
    return replace(quantization, details=details)


def same_tree(a: Any, b: Any) -> bool:
    """Whether two trees hold the same, bit for bit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and same_array(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_tree(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_tree, a, b))
    return bool(a == b)


# -- graphs in the options of opaque operators -------------------------------------------------

GRAPH_FIELDS = ("subgraph_index", "subgraph_indices")
"""How the fields that hold indices of graphs end."""


def with_graphs(options: Tree, graphs: Sequence[Graph]) -> Tree:
    """``options`` with graphs in the place of their indices, where there are such graphs."""
    return {k: _graphs(v, graphs) if k.endswith(GRAPH_FIELDS) else v for k, v in options.items()}


def _graphs(indices: Any, graphs: Sequence[Graph]) -> Any:
    listed = indices.tolist() if isinstance(indices, np.ndarray) else [indices]
    if not all(isinstance(i, int) and 0 <= i < len(graphs) for i in listed):
        return indices
    return [graphs[i] for i in listed] if isinstance(indices, np.ndarray) else graphs[indices]


def without_graphs(options: Tree, graphs: dict[int, int]) -> Tree:
    """``options`` as the file has them.  ``graphs``: index by id; ModelError for one that is not there."""

    def index(graph: Graph) -> int:
        if id(graph) not in graphs:
            raise ModelError(f"{options['']} names the graph {graph.name}, which is not in the model")
        return graphs[id(graph)]

    def stored(item: Any) -> Any:
        if isinstance(item, Graph):
            return index(item)
        is_list = isinstance(item, list) and bool(item) and all(isinstance(x, Graph) for x in item)
        return np.array([index(x) for x in item], np.int32) if is_list else item

    return {key: stored(item) for key, item in options.items()}


# -- attributes --------------------------------------------------------------------------------


class Slot(NamedTuple):
    """A declared attribute and the schema's field for it."""

    attribute: Attribute
    field: Field

    @property
    def differs(self) -> bool:
        """Whether a file without the field means other than the attribute's default (beta 0, not 1)."""
        attribute, field = self
        return isinstance(attribute.default, int | float) and attribute.default != field.default


class OptionsPlan(NamedTuple):
    """Where the attributes of an operator class are in the file."""

    union: str
    slots: tuple[Slot, ...]
    declared: frozenset[str]


class OptionsPlans(dict[type[Op], "OptionsPlan | None"]):
    """How the options of every operator class are stored in one format, made on demand."""

    def __init__(self, fmt: str) -> None:
        super().__init__()
        self.format = fmt

    def __missing__(self, kind: type[Op]) -> OptionsPlan | None:
        plan = self[kind] = options_plan(kind, self.format)
        return plan


def options_plan(kind: type[Op], fmt: str) -> OptionsPlan | None:
    """How the options of ``kind`` are stored; None where it has no options table."""
    if kind.options is None:
        return None
    union = options_field(kind.options)
    if union is None:
        raise ModelError(f"{kind.__name__} is declared with options {kind.options}, the schema has none")
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
    """The attribute for what the file has; LookupError where the declaration has nothing for it."""
    attribute, field = slot
    if attribute.is_graph:
        return graphs[value] if value >= 0 else graphs[len(graphs)]
    if field.enum is None:
        return tuple(value.tolist()) if field.kind is Kind.VECTOR else value
    if field.kind is Kind.VECTOR:
        return tuple(value)
    if field.enum.name == "TensorType":
        return DType[value]
    return type(attribute.default)[value] if isinstance(attribute.default, Enum) else value


def stored_attribute(slot: Slot, value: Any, graphs: dict[int, int]) -> Any:
    """What the file has for an attribute; None for nothing.  ``graphs``: index by id."""
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
