# SPDX-License-Identifier: Apache-2.0
"""Make seeded inputs (normal, boundary, zero and others) for a graph.

The elements of an input depend on its name, type and shape, on how the graph uses them (``InputUse``),
and on the input set.  They are the same on every machine.  The other inputs of the graph matter only for
boundary and threshold sets: the elements depend on the number of these sets (``input_sets``), and bool
scalars are combined (``MAX_COMBINED_BOOLS``).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.data_files.string_arrays import BYTES_OBJECT_BYTES
from circlekit.equivalence.integer_uses import free_integers, index_bounds
from circlekit.equivalence.thresholds import Threshold, thresholds
from circlekit.equivalence.unknown_sizes import SIZES_OF_1, Sizes
from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.text.fillers import fill
from circlekit.ir.value import Array, Value
from circlekit.ops.quantized_values import is_quantized

UNBOUNDED_INTEGERS_END = 4
"""Unquantized integers of more than 8 bits that index nothing may be sizes, so they are below this number.

In boundary and threshold sets this holds only for those that are not free (``InputUse``).
"""

EDGES = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 0.5, -0.5, 1e-3, -1e-3, 1e-30, -1e-30, 100.0, -100.0)
"""Numbers where activations change (0, 1, 3, 6), where an epsilon has an effect (1e-30), and large numbers.

Still larger numbers would show how much a model amplifies rounding errors, not whether a rewrite is correct.
"""

INTEGER_EDGES = (0, 1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 7, -7, 8, 100, -100)
"""The EDGES of free integers (``InputUse``); those that the dtype does not have are left out."""

TEXTS = (b"", b"0", b"42", b"a", b"b", b"Z", b"ab", b"a b c d")
"""The elements of an input of strings."""

MAX_INDICES = 16
"""If at most this many rows of a table can be indexed, the edges are all their indices."""

EXACT_INTEGERS = {DType.FLOAT16: 1 << 11, DType.FLOAT32: 1 << 24}
"""{float dtype: the highest integer up to which it has all integers}; a higher index might be rounded up."""

SMALL_MODEL_ELEMENTS = 1024
"""A model is small if the inputs for which ``_meets_all_edges`` holds have at most this many elements in all.

The boundary sets of a small model together have, in each of these inputs, all edges of the input: there are
so many sets that even the smallest input has an element for each edge of the input with the most edges.
A larger model, or one without such inputs, has one boundary set.
"""

MAX_COMBINED_BOOLS = 4
"""The boundary sets of a small model have all combinations of its first bool scalars, at most this many."""

SMALL_NUMBERS = 1e-3
"""The size of the numbers of a negative set; an epsilon that is added to their squares has an effect."""


class InputUse(NamedTuple):
    """How the operators of a graph use one of its inputs.

    ``bound``: the integers in the input are indices below this number; None if they index nothing.  A float
    input may hold indices, too.  ``is_free``: the model surely takes any integers (``free_integers``).
    ``thresholds``: numbers at which the model begins to compute something else (``thresholds.thresholds``).
    """

    bound: int | None = None
    is_free: bool = False
    thresholds: Sequence[Threshold] = ()


UNKNOWN_USE = InputUse()


def input_uses(graph: Graph) -> list[InputUse]:
    """Return the use of each input of ``graph``."""
    bounds, free, found = index_bounds(graph), free_integers(graph), thresholds(graph)
    return [InputUse(bounds.get(id(v)), id(v) in free, found.get(id(v), ())) for v in graph.inputs]


class InputSet(NamedTuple):
    """One set of inputs.

    ``kind``: normal, boundary, threshold, zero, positive or negative.  ``number``: its number, from 0, among
    the ``total`` sets of its kind.  ``seed``: another seed gives other values.  ``label``: the name of the
    set, such as ``boundary_2`` for the second set of its kind.
    """

    kind: str
    number: int = 0
    total: int = 1
    seed: int = 0

    @property
    def label(self) -> str:
        return self.kind if self.number == 0 else f"{self.kind}_{self.number + 1}"


def input_sets(graph: Graph) -> list[InputSet]:
    """Return the input sets for ``graph``: normal, boundary, threshold, zero, positive and negative.

    SMALL_MODEL_ELEMENTS and MAX_COMBINED_BOOLS say how many boundary sets there are.  The number of threshold
    sets follows the rule of SMALL_MODEL_ELEMENTS, too; there are none if all thresholds are among the edges
    of the inputs.  Only small models, as defined there, have a positive and a negative set.  In the other
    sets, the maximum of several elements is hardly ever negative, for example, and the sum of several
    logarithms is nearly always NaN.
    """
    uses = list(zip(graph.inputs, input_uses(graph), strict=True))
    kinds = ["boundary"]
    if any(not set(_edges(v, "threshold", use)) <= set(_edges(v, "boundary", use)) for v, use in uses):
        kinds.append("threshold")
    counted = [(v, use) for v, use in uses if _meets_all_edges(v, use)]
    sizes = [prod(dim or 1 for dim in v.shape or ()) for v, _ in counted]
    is_small = 0 < sum(sizes) <= SMALL_MODEL_ELEMENTS
    sets = [InputSet("normal")]
    for kind in kinds:
        longest = max((len(_edges(v, kind, use)) for v, use in counted), default=0)
        total = -(-longest // min(sizes)) if is_small else 1  # rounded up
        if is_small and kind == "boundary":
            total = max(total, 2 ** len(_combined_bools(graph)))
        sets += [InputSet(kind, number, total) for number in range(total)]
    return [*sets, InputSet("zero"), *([InputSet("positive"), InputSet("negative")] if is_small else [])]


def _combined_bools(graph: Graph) -> list[int]:
    """Return the indices of the inputs of which the boundary sets of a small model have all combinations."""
    bools = (i for i, v in enumerate(graph.inputs) if v.dtype is DType.BOOL and v.shape is not None)
    return [i for i in bools if {*(graph.inputs[i].shape or ())} <= {1}][:MAX_COMBINED_BOOLS]


def _meets_all_edges(value: Value, use: InputUse) -> bool:
    """Return whether the boundary sets of a small model together have all edges of the input ``value``."""
    if use.bound is not None:
        return _has_few_indices(use)
    return value.dtype.is_float or value.dtype in (DType.BOOL, DType.STRING) or use.is_free


def _has_few_indices(use: InputUse) -> bool:
    """Return whether the boundary sets have all indices that the input may hold."""
    return use.bound is not None and use.bound <= MAX_INDICES


def make_inputs(graph: Graph, which: InputSet, sizes: Sizes = SIZES_OF_1) -> list[Array]:
    """Return one array for each input of ``graph``.

    ``which``: the input set.  ``sizes``: the sizes of unknown dimensions.
    Raise UnsupportedError for an input of unknown rank or of a dtype that numpy does not have, and LimitError
    for an input that exceeds the memory limit.
    """
    uses = zip(graph.inputs, input_uses(graph), strict=True)
    arrays = [make_input(value, which, sizes, use) for value, use in uses]
    if which.kind == "boundary" and which.total > 1:
        for bit, index in enumerate(_combined_bools(graph)):
            arrays[index].fill(which.number >> bit & 1)
    return arrays


def make_input(
    value: Value, which: InputSet, sizes: Sizes = SIZES_OF_1, use: InputUse = UNKNOWN_USE
) -> Array:
    """Return an array for the input ``value``; see ``make_inputs``.  ``use``: how the graph uses the input.

    Integers of a zero set are the zero point, clipped to ``_range``; it is also among the edges of boundary
    sets.  Strings are bytes objects of TEXTS (dtype object); all are empty in the zero set.
    """
    stored = value.dtype.numpy
    if (stored is None and value.dtype is not DType.STRING) or value.shape is None:
        raise UnsupportedError(f"cannot make inputs for {value!r}")
    shape = sizes.fill(value.shape)
    item_bytes = BYTES_OBJECT_BYTES if stored is None else stored.itemsize
    need_memory(prod(shape) * item_bytes, f"input %{value.name}")
    seed = zlib.crc32(f"{which.kind}/{value.name}".encode("utf-8", "surrogatepass"), which.seed)
    if stored is None:
        return _strings(which, shape, seed)
    if which.kind == "zero":
        return np.full(shape, _stored_zero(value, use.bound), stored)
    if which.kind in ("normal", "positive", "negative"):
        array = _normal(value, shape, seed, use.bound)
        return array if which.kind == "normal" else _one_sided(array, value, which.kind == "positive", use)
    edges = np.array(_edges(value, which.kind, use), stored if value.dtype.is_integer else None)
    array = _shuffled(edges, which, shape, seed)
    if stored.kind == "c":
        array = array + 1j * _shuffled(edges, which, shape, seed + 1)
    return array.astype(stored)


def _strings(which: InputSet, shape: tuple[int, ...], seed: int) -> Array:
    """Return strings: empty ones, the TEXTS divided among several sets, or random ones of the TEXTS."""
    texts = np.array(TEXTS, object)
    if which.kind == "zero":
        return np.full(shape, b"", object)
    if which.kind in ("boundary", "threshold"):
        return _shuffled(texts, which, shape, seed)
    numbers = fill("uniform", (0, len(texts)), {}, DType.INT64, (prod(shape),), seed)  # rounded down
    return np.asarray(texts[numbers]).reshape(shape)


def _normal(value: Value, shape: tuple[int, ...], seed: int, bound: int | None) -> Array:
    """Return normally distributed floats, or integers or bools with uniform probability.

    A float input that holds indices (``bound`` is not None) gets integers.
    """
    assert value.dtype.numpy is not None
    dtype_kind = value.dtype.numpy.kind
    if dtype_kind in "iu" or bound is not None:
        low, high = _range(value, bound)
        dtype = value.dtype if dtype_kind in "iu" else DType.INT64
        numbers = fill("uniform", (low, high + 1), {}, dtype, shape, seed)  # rounded down
        return numbers.astype(value.dtype.numpy)
    if dtype_kind == "b":
        return fill("uniform", (0, 1), {}, value.dtype, shape, seed)
    array = fill("gaussian", (0, 1), {}, DType.FLOAT64, shape, seed)
    if dtype_kind == "c":
        array = array + 1j * fill("gaussian", (0, 1), {}, DType.FLOAT64, shape, seed + 1)
    return array.astype(value.dtype.numpy)


def _one_sided(array: Array, value: Value, positive: bool, use: InputUse) -> Array:
    """Return the elements of ``array``, a normal set of ``value``, with one sign: negative floats are small.

    Bools are all True or all False.  Quantized integers are on one side of the zero point.  Indices stay, in
    a float input, too, and so do integers that are not free: they may be sizes.
    """
    if array.dtype.kind == "b":
        return np.full_like(array, positive)
    if use.bound is not None or (array.dtype.kind in "iu" and not (use.is_free or _is_full(value))):
        return array
    if array.dtype.kind in "iu" and _is_full(value):
        zero = _stored_zero(value, use.bound)
        return np.asarray(np.maximum(array, zero) if positive else np.minimum(array, zero))
    if array.dtype.kind == "u":
        return array
    factor = 1 if positive else -1 if array.dtype.kind == "i" else -SMALL_NUMBERS
    if array.dtype.kind == "c":
        return np.asarray(factor * (np.abs(array.real) + 1j * np.abs(array.imag)), array.dtype)
    return np.asarray(factor * np.abs(array), array.dtype)


def _edges(value: Value, kind: str, use: InputUse) -> Sequence[float | bytes]:
    """Return the numbers or strings in the sets of ``kind``, boundary or threshold, for the input ``value``.

    A threshold set has a smaller and a larger number for each threshold, and the exact thresholds themselves.
    An input without thresholds has the numbers of a boundary set there, too.
    """
    if value.dtype is DType.BOOL:
        return [True, False]  # a scalar is True in at least one set, as it is False in the zero set
    if value.dtype is DType.STRING:
        return TEXTS
    if not value.dtype.is_integer and use.bound is None:
        near = [n for t in use.thresholds for n in _around(t)]
        return near if near and kind == "threshold" else list(EDGES)
    low, high = _range(value, use.bound)
    if _has_few_indices(use):
        return list(range(high + 1))
    if use.bound is not None or not use.is_free or _is_full(value):
        return [low, high, _stored_zero(value, use.bound)]
    lowest, highest = value.dtype.limits
    near = [n for t in use.thresholds for n in _integers_around(t)] if kind == "threshold" else []
    fitting = [n for n in dict.fromkeys(near) if lowest <= n <= highest]
    return fitting or [n for n in INTEGER_EDGES if lowest <= n]


def _around(threshold: Threshold) -> list[float]:
    number, distance, is_exact = threshold
    return [number - distance, *([number] if is_exact else []), number + distance]


def _integers_around(threshold: Threshold) -> list[int]:
    number, distance, is_exact = threshold
    if is_exact:
        return [math.floor(number) + step for step in (-1, 0, 1, 2)]
    return [math.floor(number - distance), math.ceil(number + distance)]


def _shuffled(edges: Array, which: InputSet, shape: tuple[int, ...], seed: int) -> Array:
    """Return the elements of an input in ``which``, a boundary or threshold set.

    ``edges`` is repeated to the length of all sets of this kind together, shuffled, and divided among them.
    For an input of 4 floats and 4 sets, for example, each of the 16 EDGES is in exactly one set.
    """
    size = prod(shape)
    order = np.argsort(fill("uniform", (0, 1), {}, DType.FLOAT64, (size * which.total,), seed), kind="stable")
    part = order[which.number * size : (which.number + 1) * size]
    return np.asarray(edges[part % len(edges)]).reshape(shape)


def _range(value: Value, bound: int | None) -> tuple[int, int]:
    """Return the lowest and the highest integer for ``value``.

    ``bound``: see ``InputUse``.  Indices are from 0 to ``bound`` - 1, but not above the highest integer of
    the dtype (EXACT_INTEGERS for floats).  If ``bound`` is None, quantized and 8-bit integers may have any
    value of the dtype, and other integers are from 0 to UNBOUNDED_INTEGERS_END - 1.
    """
    if bound is None and _is_full(value):
        return value.dtype.limits
    end = UNBOUNDED_INTEGERS_END if bound is None else max(bound, 1)
    highest = value.dtype.limits[1] if value.dtype.is_integer else EXACT_INTEGERS.get(value.dtype, end)
    return 0, min(end - 1, highest)


def _is_full(value: Value) -> bool:
    """Return whether the integer ``value`` may have any number of its dtype: if quantized, or of 8 bits."""
    return is_quantized(value) or value.dtype.bits == 8


def _stored_zero(value: Value, bound: int | None) -> int:
    """Return the first zero point of an integer ``value``, clipped to ``_range``; 0 for any other value."""
    form = value.quantization
    if form is None or form.zero_point.size == 0 or not value.dtype.is_integer:
        return 0
    low, high = _range(value, bound)
    return min(max(int(form.zero_point[0]), low), high)
