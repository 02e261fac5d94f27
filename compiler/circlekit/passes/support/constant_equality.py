# SPDX-License-Identifier: Apache-2.0
"""Compare constants and attributes by content."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from circlekit.ir.array_bytes import SAMPLE_BYTES, digest, sample
from circlekit.ir.graph import Graph
from circlekit.ir.value import Value


def graph_constants(graph: Graph) -> list[Value]:
    """Return the constants that operators of ``graph`` read, each once, in the order of first use."""
    found = {id(v): v for op in graph for v in op.inputs if v is not None and is_plain_constant(v)}
    return list(found.values())


def is_plain_constant(value: Value | None) -> bool:
    """Return whether ``value`` is a constant and not a variable."""
    return value is not None and value.data is not None and not value.is_variable


def equal_constants(values: Iterable[Value]) -> list[list[Value]]:
    """Group ``values`` by dtype, shape, bits and quantization, in their order.

    The data of a large constant is read completely only if another one has the same type and the same bytes
    at both ends.
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
            groups.extend([found] if _samples_suffice(found) else _same_bits(found))
    return groups


def _samples_suffice(values: list[Value]) -> bool:
    """Return whether values with equal samples are equal: a single value, or small ones."""
    return len(values) == 1 or values[0].array().nbytes <= 2 * SAMPLE_BYTES


def _same_bits(values: list[Value]) -> list[list[Value]]:
    groups: dict[bytes, list[Value]] = {}
    for value in values:
        groups.setdefault(digest(value.array()), []).append(value)
    return list(groups.values())


def _header(value: Value) -> Hashable:
    data = value.array()
    packed = None if data.shape == value.shape else frozen(value.extra)  # describes the packing
    return value.dtype, value.shape, data.shape, data.dtype.str, value.quantization, packed


def frozen(thing: Any) -> Hashable:
    """Return a hashable object that is equal for equal attributes of equal type."""
    if isinstance(thing, np.ndarray):
        return "array", thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, Mapping):
        return "map", tuple((key, frozen(thing[key])) for key in sorted(thing))
    if isinstance(thing, list | tuple):
        return "list", tuple(frozen(item) for item in thing)
    if isinstance(thing, float):
        return "float", thing.hex()  # NaN equals itself, 0.0 differs from -0.0
    return type(thing).__name__, thing
