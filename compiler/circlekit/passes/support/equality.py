# SPDX-License-Identifier: Apache-2.0
"""Find equal constants, and explain why similar constants or operators are not merged.

In this file, ``progress`` says how near two constants or operators are to being equal: 2 is nearer than 1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from circlekit.ir.array_bytes import SAMPLE_BYTES, digest, sample
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value


def graph_constants(graph: Graph) -> list[Value]:
    """Return the constants that operators of ``graph`` read, each once, in the order of first use."""
    found = {id(v): v for op in graph for v in op.inputs if v is not None and is_fixed_constant(v)}
    return list(found.values())


def is_fixed_constant(value: Value | None) -> bool:
    """Return whether ``value`` is a constant and not a variable."""
    return value is not None and value.data is not None and not value.is_variable


def equal_constants(values: Iterable[Value]) -> list[list[Value]]:
    """Return the constants ``values`` in groups of the same dtype, shape, bytes and quantization.

    To save time, all bytes of a large constant are read only if another constant of the same type has the
    same first and last SAMPLE_BYTES bytes.
    """
    groups: list[list[Value]] = []
    for alike in _grouped(values, _header):
        for found in [alike] if len(alike) == 1 else _grouped(alike, lambda v: sample(v.array())):
            if len(found) == 1 or found[0].array().nbytes <= 2 * SAMPLE_BYTES:  # then samples suffice
                groups.append(found)
            else:
                groups += _grouped(found, lambda v: digest(v.array()))
    return groups


def _grouped(values: Iterable[Value], key: Callable[[Value], Hashable]) -> list[list[Value]]:
    """Return ``values`` in groups of equal keys, in the order of their first members."""
    groups: dict[Hashable, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return list(groups.values())


def _header(value: Value) -> Hashable:
    """Return the properties, besides their bytes, that equal constants have in common."""
    data = value.array()
    # ``extra`` says how the elements of a packed, sparse or compressed constant are stored
    packed = None if value.is_plain else frozen(value.extra)
    return value.dtype, value.shape, data.shape, data.dtype.str, value.quantization, packed


def frozen(attribute: Any) -> Hashable:
    """Return a hashable form of ``attribute``, which differs even where ``==`` sees no difference.

    Examples: 0.0 and -0.0, 1 and True, arrays of different dtypes.  A list and a tuple of the same items
    have the same form.
    """
    if isinstance(attribute, np.ndarray):
        return "array", attribute.dtype.str, attribute.shape, attribute.tobytes()
    if isinstance(attribute, Mapping):
        return "map", tuple((key, frozen(attribute[key])) for key in sorted(attribute))
    if isinstance(attribute, list | tuple):
        return "list", tuple(frozen(item) for item in attribute)
    if isinstance(attribute, float):
        return "float", attribute.hex()  # NaN equals itself, 0.0 differs from -0.0
    return type(attribute).__name__, attribute


def different_operators(graph: Graph) -> Iterator[tuple[Op, str, int]]:
    """Yield (operator, sentence, progress) for each operator that resembles an earlier operator.

    Two operators resemble each other if they have the same code and an operand in common.  The sentence says
    why they are not merged.  The progress is 2 if only attributes or types of results differ, else 1.
    Operators without results are left out.
    """
    # by code and ``id`` of a value: the first operator of this code that reads the value
    earlier: dict[tuple[str, int], Op] = {}
    for op in graph:
        values = [v for v in op.inputs if v is not None]
        if not op.results:
            continue
        first = next((earlier[key] for v in values if (key := (op.code, id(v))) in earlier), None)
        for value in values:
            earlier.setdefault((op.code, id(value)), op)
        if first is None:
            continue
        if not op.pure:
            yield op, f"%{op.output.name}: {op.code} may have another result each time", 1
        else:
            yield op, *_difference(op, first)


def _difference(op: Op, first: Op) -> tuple[str, int]:
    """Return the first difference between two operators of the same code as a sentence, and the progress.

    Equal operators are assumed to be merged already: if operands and attributes are equal, the types of the
    results must differ.
    """
    name, other = op.output.name, first.output.name
    is_swapped = op.commutative and _same(op.inputs[0], first.inputs[-1])
    for a, b in zip_longest(op.inputs, first.inputs[::-1] if is_swapped else first.inputs):
        if not _same(a, b):
            read = ["nothing" if v is None else f"%{v.name}" for v in (a, b)]
            return f"%{name}: reads {read[0]}, but %{other} reads {read[1]}", 1
    for key, value in op.attribute_items().items():
        earlier = first.attribute_items().get(key)
        if frozen(value) != frozen(earlier):  # an enum or a graph is shown by its name
            shown = [getattr(content, "name", content) for content in (value, earlier)]
            return f"%{name}: {key} is {shown[0]}, but {shown[1]} in %{other}", 2
    return f"%{name}: is {op.output.type}, but %{other} is {first.output.type}", 2


def different_constants(graph: Graph) -> Iterator[tuple[Value, str, int]]:
    """Yield (constant, sentence, progress) for each constant with the shape of an earlier constant.

    The sentence says how it differs from the first constant of this shape.  Equal constants are assumed to be
    merged already; so if the elements are equal, the bits differ, and the progress is 2.  Else it is 1.
    """
    by_shape: dict[tuple[int, ...], Value] = {}
    for value in graph_constants(graph):
        first = by_shape.setdefault(value.array().shape, value)
        if first is value:
            continue
        name, other = value.name, first.name
        if value.dtype is not first.dtype:
            yield value, f"%{name}: is {value.dtype.short}, %{other} is {first.dtype.short}", 1
        elif value.quantization != first.quantization:
            yield value, f"%{name}: has other quantization parameters than %{other}", 1
        elif np.array_equal(value.array(), first.array()):
            yield value, f"%{name}: equals %{other}, but has other bits, such as 0.0 and -0.0", 2
        else:
            yield value, f"%{name}: has other elements than %{other}", 1


def _same(a: Value | None, b: Value | None) -> bool:
    """Return whether ``a`` and ``b`` are one value, or constants that ``equal_constants`` calls equal."""
    if a is None or b is None or not (is_fixed_constant(a) and is_fixed_constant(b)):
        return a is b
    return len(equal_constants((a, b))) == 1
