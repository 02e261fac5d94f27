# SPDX-License-Identifier: Apache-2.0
"""Which constants and attributes are equal by content."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from circlekit.ir.array_bytes import SAMPLE, digest, sample
from circlekit.ir.graph import Graph
from circlekit.ir.value import Value


def graph_constants(graph: Graph) -> list[Value]:
    """The constants that operators of ``graph`` read, each once, in the order of their first use."""
    found = {id(v): v for op in graph for v in op.inputs if v is not None and is_plain_constant(v)}
    return list(found.values())


def is_plain_constant(value: Value | None) -> bool:
    """Whether ``value`` is a constant that nothing can write to."""
    return value is not None and value.data is not None and not value.is_variable


def equal_constants(values: Iterable[Value]) -> list[list[Value]]:
    """``values`` in groups of equal dtype, shape, bits and quantization.

    Groups and their members keep the order of ``values``.  Only constants that agree in all but the bits,
    and in the bits of either end, have all of them read, once.
    """
    alike: dict[Hashable, list[Value]] = {}
    for value in values:
        alike.setdefault(_header(value), []).append(value)
    groups: list[list[Value]] = []
    for candidates in alike.values():
        if len(candidates) == 1:
            groups.append(candidates)
            continue
        same_ends: dict[bytes, list[Value]] = {}
        for value in candidates:
            same_ends.setdefault(sample(value.array()), []).append(value)
        for found in same_ends.values():
            groups.extend([found] if _are_whole(found) else _same_bits(found))
    return groups


def _are_whole(values: list[Value]) -> bool:
    """Whether a sample says all: of one value, and of small ones."""
    return len(values) == 1 or values[0].array().nbytes <= 2 * SAMPLE


def _same_bits(values: list[Value]) -> list[list[Value]]:
    groups: dict[bytes, list[Value]] = {}
    for value in values:
        groups.setdefault(digest(value.array()), []).append(value)
    return list(groups.values())


def _header(value: Value) -> Hashable:
    data = value.array()
    packed = None if data.shape == value.shape else frozen(value.extra)  # what tells how it is packed
    return value.dtype, value.shape, data.shape, data.dtype.str, value.quantization, packed


def frozen(thing: Any) -> Hashable:
    """A hashable stand-in for an attribute: equal for equal attributes of the same types."""
    if isinstance(thing, np.ndarray):
        return "array", thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, Mapping):
        return "map", tuple((key, frozen(thing[key])) for key in sorted(thing))
    if isinstance(thing, list | tuple):
        return "list", tuple(frozen(item) for item in thing)
    if isinstance(thing, float):
        return "float", thing.hex()  # NaN equals itself, 0.0 differs from -0.0
    return type(thing).__name__, thing
