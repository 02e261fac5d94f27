# SPDX-License-Identifier: Apache-2.0
"""Check constraints on shapes: ranks, dimensions, elements, numbers of operands.

Each function checks one kind of constraint.  It takes an operator and the content of a key that
``constraints`` explains, and yields a text "EXPECTED, got ACTUAL" for each violation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from circlekit.errors import counted
from circlekit.ir.op import Op
from circlekit.ir.value import format_shape
from circlekit.targets.operator_properties import broadcast_rank, highest_rank, plain_attribute, values_named


def _rank(op: Op, highest: int) -> Iterator[str]:
    if (rank := highest_rank(op)) > highest:
        yield f"ranks up to {highest}, got rank {rank}"


def _broadcast_rank(op: Op, highest: int) -> Iterator[str]:
    if (rank := broadcast_rank(op)) > highest:
        yield f"operands of equal shapes, or of ranks up to {highest}, got rank {rank}"


def _operands(op: Op, bounds: Sequence[int | None]) -> Iterator[str]:
    least, most = bounds
    if least is not None and len(op.inputs) < least:
        yield f"at least {counted(least, 'operand')}, got {len(op.inputs)}"
    if most is not None and len(op.inputs) > most:
        yield f"at most {counted(most, 'operand')}, got {len(op.inputs)}"


def _ranks(op: Op, allowed: Mapping[str, Sequence[int]]) -> Iterator[str]:
    for name, ranks in allowed.items():
        for value in values_named(op, name):
            if value.rank is not None and value.rank not in ranks:
                yield f"{name} of rank {' or '.join(map(str, ranks))}, got {value.rank}"


def _least(op: Op, allowed: Mapping[str, Sequence[int]]) -> Iterator[str]:
    for name, sizes in allowed.items():
        for value in values_named(op, name):
            if any(d is not None and d < size for d, size in zip(value.shape or (), sizes, strict=False)):
                yield f"{name} of at least {format_shape(tuple(sizes))}, got {format_shape(value.shape)}"


def _elements(op: Op, allowed: Mapping[str, int]) -> Iterator[str]:
    for name, most in allowed.items():
        for value in values_named(op, name):
            if value.is_static and value.numel > most:
                yield f"{name} of at most {counted(most, 'element')}, got {value.numel}"


def _row_multiple(op: Op, wanted: Mapping[str, int]) -> Iterator[str]:
    for name, factor in wanted.items():
        for value in values_named(op, name):
            if value.is_static and (count := math.prod(value.static_shape[1:])) % factor:
                yield f"rows of {name} whose length is a multiple of {factor}, got {count}"


def _nonempty(op: Op, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if any(0 in (value.shape or ()) for value in values_named(op, name)):
            yield f"elements in {name}, got none"


def _known(op: Op, names: Sequence[str]) -> Iterator[str]:
    for name, value in ((n, value) for n in names for value in values_named(op, n)):
        if not value.is_static:
            yield f"a known shape of {name}, got {format_shape(value.shape)}"


def _scalar_rank(op: Op, pairs: Sequence[Sequence[str]]) -> Iterator[str]:
    for scalar, other in pairs:
        highest = max((v.rank for v in values_named(op, other) if v.rank is not None), default=math.inf)
        for value in values_named(op, scalar):
            is_scalar = value.is_const and value.numel == 1 and value.quantization is not None
            if is_scalar and len(value.static_shape) > highest and plain_attribute(op, "act") != "NONE":
                yield f"no activation, or {scalar} of rank up to {highest}, got {value.rank}"


def _same_shape(op: Op, pairs: Sequence[Sequence[str]]) -> Iterator[str]:
    for pair in pairs:
        shapes = dict.fromkeys(v.shape for name in pair for v in values_named(op, name) if v.is_static)
        if len(shapes) > 1:
            yield f"the same shape of {pair[0]} and {pair[1]}, got {' and '.join(map(format_shape, shapes))}"


def _dims(op: Op, wanted: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    for name, axis, size in wanted:
        for value in values_named(op, name):
            shape = value.shape or ()
            if -len(shape) <= axis < len(shape) and shape[axis] not in (None, size):
                yield f"{size} along axis {axis} of {name}, got {shape[axis]}"


def _same_dims(op: Op, pairs: Sequence[tuple[str, int, str, int]]) -> Iterator[str]:
    for first, axis, second, other in pairs:
        named = (
            *((v, axis) for v in values_named(op, first)),
            *((v, other) for v in values_named(op, second)),
        )
        dims = dict.fromkeys(v.shape[a] for v, a in named if v.shape and -len(v.shape) <= a < len(v.shape))
        if len(known := [d for d in dims if d is not None]) > 1:
            where = f"axis {axis} of {first} as long as axis {other} of {second}"
            yield f"{where}, got {' and '.join(map(str, known))}"


SHAPE_KINDS: dict[str, Callable[[Op, Any], Iterator[str]]] = {
    "rank": _rank,
    "broadcast_rank": _broadcast_rank,
    "operands": _operands,
    "ranks": _ranks,
    "least": _least,
    "elements": _elements,
    "row_multiple": _row_multiple,
    "nonempty": _nonempty,
    "known": _known,
    "scalar_rank": _scalar_rank,
    "same_shape": _same_shape,
    "dims": _dims,
    "same_dims": _same_dims,
}
"""The part of ``constraints.KINDS`` that is about shapes."""
