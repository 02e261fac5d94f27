# SPDX-License-Identifier: Apache-2.0
"""Make seeded inputs for a graph (normal, boundary and zero), and give seeds to random operators.

The elements of an input depend on its name, type and shape, on what its integers index, and on the input set.
They are the same on every machine.  Other inputs matter only for boundary sets: the elements depend on the
number of these sets, which the sizes of all float and bool inputs determine (SMALL_MODEL_ELEMENTS).

The interpreter seeds a random operator without a seed by the name of its result.  A rewrite may change that
name, for example when it inlines a branch of IF.  No other property of the operator is sure to survive every
rewrite either.  So here all random operators without a seed get the same seed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from math import prod
from typing import NamedTuple

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.text.fillers import fill
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.random_ops import UINT32_MASK, Random

UNBOUNDED_INTEGERS_END = 4
"""Unquantized integers of more than 8 bits that index nothing may be sizes, so they are below this number."""

EDGES = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 0.5, -0.5, 1e-3, -1e-3, 1e-30, -1e-30, 100.0, -100.0)
"""Numbers where activations change (0, 1, 3, 6), where an epsilon has an effect (1e-30), and large numbers.

Still larger numbers would show how much a model amplifies rounding errors, not whether a rewrite is correct.
"""

SMALL_MODEL_ELEMENTS = 1024
"""If all float and bool inputs together have at most this many elements, each float input gets all EDGES.

There are then as many boundary sets as the smallest of these inputs needs to get as many elements.  So bool
scalars meet in all combinations.  For larger inputs, and without such inputs, there is one boundary set.
"""


class InputSet(NamedTuple):
    """One set of inputs.

    ``kind``: normal, boundary or zero.  ``number``: its number, from 0, among the ``total`` sets of its kind.
    ``seed``: another seed gives other values.  ``label``: the name of the set, such as ``boundary_2`` for the
    second set of its kind.
    """

    kind: str
    number: int = 0
    total: int = 1
    seed: int = 0

    @property
    def label(self) -> str:
        return self.kind if self.number == 0 else f"{self.kind}_{self.number + 1}"


def input_sets(graph: Graph) -> list[InputSet]:
    """Return the input sets for ``graph``: normal, one or more boundary sets (SMALL_MODEL_ELEMENTS), zero."""
    sizes = [
        prod(dim or 1 for dim in v.shape or ())
        for v in graph.inputs
        if v.dtype.is_float or v.dtype is DType.BOOL
    ]
    total = 1
    if sizes and sum(sizes) <= SMALL_MODEL_ELEMENTS:
        total = -(-len(EDGES) // min(sizes))  # rounded up
    boundary = [InputSet("boundary", number, total) for number in range(total)]
    return [InputSet("normal"), *boundary, InputSet("zero")]


def make_inputs(graph: Graph, which: InputSet, unknown: int = 1, step: int = 0) -> list[Array]:
    """Return one array for each input of ``graph``.

    ``which``: the input set.  ``unknown``: the size that stands for the first unknown dimension of an input;
    each further one is larger by ``step``.
    Raise UnsupportedError for an input of unknown rank or of a dtype that numpy does not have, and LimitError
    for an input that exceeds the memory limit.
    """
    bounds = index_bounds(graph)
    return [make_input(value, which, unknown, bounds.get(id(value)), step) for value in graph.inputs]


def make_input(
    value: Value, which: InputSet, unknown: int = 1, bound: int | None = None, step: int = 0
) -> Array:
    """Return an array for the input ``value``; see ``make_inputs``.

    ``bound``: the size that the integers index; ``_range`` makes a range of it.  For integers, boundary and
    zero sets contain the zero point, clipped to this range.
    """
    if value.dtype.numpy is None or value.shape is None:
        raise UnsupportedError(f"cannot make inputs for {value!r}")
    sizes = count(unknown, step)
    shape = tuple(next(sizes) if dim is None else dim for dim in value.shape)
    need_memory(prod(shape) * value.dtype.numpy.itemsize, f"input %{value.name}")
    seed = zlib.crc32(f"{which.kind}/{value.name}".encode("utf-8", "surrogatepass"), which.seed)
    dtype_kind = value.dtype.numpy.kind
    if which.kind == "zero":
        return np.full(shape, _stored_zero(value, bound), value.dtype.numpy)
    if dtype_kind in "iu":
        low, high = _range(value, bound)
        if which.kind == "boundary":
            edges = np.array([low, high, _stored_zero(value, bound)], value.dtype.numpy)
            return _shuffled(edges, which, shape, seed)
        return fill("uniform", (low, high + 1), {}, value.dtype, shape, seed)  # rounded down
    if dtype_kind == "b":
        if which.kind == "boundary":  # a scalar is True in at least one set, as it is False in the zero set
            return _shuffled(np.array([True, False]), which, shape, seed)
        return fill("uniform", (0, 1), {}, value.dtype, shape, seed)
    array = _floats(which, shape, seed)
    if dtype_kind == "c":
        array = array + 1j * _floats(which, shape, seed + 1)
    return array.astype(value.dtype.numpy)


def _floats(which: InputSet, shape: tuple[int, ...], seed: int) -> Array:
    """Return float64 elements for a normal or a boundary set."""
    if which.kind == "normal":
        return fill("gaussian", (0, 1), {}, DType.FLOAT64, shape, seed)
    return _shuffled(np.array(EDGES), which, shape, seed)


def _shuffled(edges: Array, which: InputSet, shape: tuple[int, ...], seed: int) -> Array:
    """Return the elements of an input in the boundary set ``which``.

    ``edges`` is repeated to the length of all boundary sets together, shuffled, and divided among the sets.
    For an input of 4 floats and 4 sets, for example, each of the 16 EDGES is in exactly one set.
    """
    size = prod(shape)
    order = np.argsort(fill("uniform", (0, 1), {}, DType.FLOAT64, (size * which.total,), seed), kind="stable")
    part = order[which.number * size : (which.number + 1) * size]
    return np.asarray(edges[part % len(edges)]).reshape(shape)


def _range(value: Value, bound: int | None) -> tuple[int, int]:
    """Return the lowest and the highest integer for ``value``.

    ``bound``: the size that the integers index; they are from 0 to ``bound`` - 1, or to the highest integer
    of the dtype.  None if they index nothing: then quantized and 8-bit integers may have any value of the
    dtype, and other integers are from 0 to UNBOUNDED_INTEGERS_END - 1.
    """
    quantized = value.quantization is not None and value.quantization.scale.size > 0
    if bound is None and (quantized or value.dtype.bits == 8):
        return value.dtype.limits
    end = UNBOUNDED_INTEGERS_END if bound is None else max(bound, 1)
    return 0, min(end - 1, value.dtype.limits[1])


def _stored_zero(value: Value, bound: int | None) -> int:
    """Return the first zero point of an integer ``value``, clipped to ``_range``; 0 for any other value."""
    form = value.quantization
    if form is None or form.zero_point.size == 0 or not value.dtype.is_integer:
        return 0
    low, high = _range(value, bound)
    return min(max(int(form.zero_point[0]), low), high)


def index_bounds(graph: Graph) -> dict[int, int]:
    """Return {``id`` of an input: the smallest size that its integers index} for inputs that are indices.

    The input may be an index operand itself, or integer operators (Cast, Reshape, arithmetic) may compute the
    index operand from it.  These operators are assumed to keep indices below the bound, as they do in models
    that exporters write.
    """
    sizes = {id(value): list(_indexed_sizes(value)) for value in graph.inputs if value.dtype.is_integer}
    return {key: min(indexed) for key, indexed in sizes.items() if indexed}


def _indexed_sizes(start: Value) -> Iterator[int]:
    """Yield the size of each axis that ``start`` indexes, or that integers computed from ``start`` index.

    Uses in called graphs count, too.
    """
    seen = {id(start)}
    pending = [start]
    while pending:
        value = pending.pop()
        for op, position in value.uses:
            size = _indexed_size(op, position)
            if size is not None:
                yield size
                continue
            following = list(op.results)
            for graph in op.called_graphs():
                index = position - (len(op.inputs) - len(graph.inputs))  # IF does not pass its condition on
                following += graph.inputs[index : index + 1] if index >= 0 else ()
            for result in following:
                if result.dtype.is_integer and id(result) not in seen:
                    seen.add(id(result))
                    pending.append(result)


TABLES = {"EMBEDDING_LOOKUP": (0, 1), "GATHER": (1, 0), "GATHER_ND": (1, 0)}
"""By operator: the position of the operand with the indices, and of the table that they index."""


def _indexed_size(op: Op, position: int) -> int | None:
    """Return the size that operand ``position`` of ``op`` indexes.

    Return None if the size is unknown, or if this operand has no indices.  GATHER_ND indexes as many leading
    axes as the last dimension of its indices says: return the smallest.
    """
    index_position, table_position = TABLES.get(op.code, (None, 0))
    has_table = position == index_position and table_position < len(op.inputs)  # a damaged file may lack it
    data = op.inputs[table_position] if has_table else None
    if data is None or not data.shape:
        return None
    sizes = data.shape[:1]
    if op.code == "GATHER":
        sizes = (data.shape[getattr(op, "axis", 0) % len(data.shape)],)
    elif op.code == "GATHER_ND":
        indices = op.inputs[position]
        sizes = data.shape[: indices.shape[-1] if indices is not None and indices.shape else None]
    return min((dim for dim in sizes if dim is not None), default=None)


SEED = 1
"""The seed that random operators without a seed get."""


def with_seeds(model: Model) -> Model:
    """Return ``model`` if every random operator has a seed, else a copy in which they all have one."""
    if not any(unseeded(model.graphs)):
        return model
    copy = clone(model)
    for op in unseeded(copy.graphs):
        op.seed = SEED
    return copy


def seed_notes(graphs: Sequence[Graph]) -> list[str]:
    """Return a sentence for each random operator without a seed."""
    return [
        f"%{op.output.name} is random and has no seed: it is compared for one seed, the same before and after"
        for op in unseeded(graphs)
    ]


def unseeded(graphs: Sequence[Graph]) -> Iterator[Random]:
    """Yield the random operators without a seed: the lowest 32 bits of ``seed`` and ``seed2`` are all 0."""
    ops = (op for graph in graphs for op in graph if isinstance(op, Random))
    return (op for op in ops if not (op.seed | op.seed2) & UINT32_MASK)
