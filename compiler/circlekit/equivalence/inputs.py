# SPDX-License-Identifier: Apache-2.0
"""Seeded inputs for a graph: normal, boundary and zero.

An input depends on its name, dtype, shape and kind alone, so that the same model meets the same values
on every machine, whatever its other inputs are.
"""

from __future__ import annotations

import zlib

import numpy as np

from circlekit.equivalence.indices import index_bounds
from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value

KINDS = ("normal", "boundary", "zero")

SMALL = 4
"""Integers that are not quantized and index nothing that we see stay below this: they may be sizes."""

_EDGES = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 0.5, -0.5, 1e-3, -1e-3, 1e-30, -1e-30, 100.0, -100.0)
"""Where activations bend (0, 1, 3, 6), where an epsilon shows (tiny), and large against both.

Larger ones would measure how a model amplifies rounding, not whether a rewrite is right.
"""


def make_inputs(graph: Graph, kind: str, unknown: int = 1) -> list[Array]:
    """One array for each input of ``graph``; ``unknown`` is the size of its unknown dimensions.

    UnsupportedError for an input whose dtype no array can hold, or of unknown rank.
    """
    bounds = index_bounds(graph)
    return [make_input(value, kind, unknown, bounds.get(id(value))) for value in graph.inputs]


def make_input(value: Value, kind: str, unknown: int = 1, bound: int | None = None) -> Array:
    """An array for ``value``.  ``bound``: integers are used as indices below this."""
    if value.dtype.numpy is None or value.shape is None:
        raise UnsupportedError(f"no inputs can be made for {value!r}")
    shape = tuple(unknown if dim is None else dim for dim in value.shape)
    if kind == "zero":
        return np.full(shape, _zero_point(value), value.dtype.numpy)
    random = np.random.default_rng([zlib.crc32(value.name.encode()), KINDS.index(kind)])
    if value.dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if value.dtype.numpy.kind in "iu":
        return _integers(value, kind, shape, bound, random)
    array = _floats(kind, shape, random)
    if value.dtype.numpy.kind == "c":
        array = array + 1j * _floats(kind, shape, random)
    return array.astype(value.dtype.numpy)


def _floats(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    if kind == "normal":
        return random.standard_normal(shape)
    return random.choice(np.array(_EDGES), shape)


def _integers(
    value: Value, kind: str, shape: tuple[int, ...], bound: int | None, random: np.random.Generator
) -> Array:
    low, high = _range(value, bound)
    if kind == "boundary":
        return random.choice(np.array([low, high, _zero_point(value)]), shape).astype(value.dtype.numpy)
    return random.integers(low, high, shape, endpoint=True).astype(value.dtype.numpy)


def _range(value: Value, bound: int | None) -> tuple[int, int]:
    """The lowest and the highest integer: of the dtype for data, else a small one that can be an index."""
    quantized = value.quantization is not None and value.quantization.scale.size > 0
    if bound is None and (quantized or value.dtype.bits == 8):
        limits = np.iinfo(str(value.dtype.numpy))
        return int(limits.min), int(limits.max)
    return 0, (SMALL if bound is None else max(bound, 1)) - 1


def _zero_point(value: Value) -> int:
    """What stands for 0.0."""
    if value.quantization is None or value.quantization.zero_point.size == 0:
        return 0
    return int(value.quantization.zero_point[0])
