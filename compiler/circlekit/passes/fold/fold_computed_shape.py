# SPDX-License-Identifier: Apache-2.0
"""Give a RESHAPE a constant shape if at most one dimension, such as that of the batch, is unknown."""

from __future__ import annotations

from math import prod

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ir.value import Shape as Dims
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.join import Pack
from circlekit.ops.movement.shape import Shape
from circlekit.ops.movement.slice import StridedSlice
from circlekit.passes.support.conditions import determined_shape, is_determined
from circlekit.rewrite.rewrite import Rewrite, condition


class FoldComputedShape(Rewrite):
    """reshape(x, computed)  ==  reshape(x, constant), if at most one dimension of the result is unknown.

    Exporters write a RESHAPE to [shape(x)[0], 32] or [shape(x)[0], -1] in this form if the batch is unknown.
    """

    name = "fold_computed_shape"

    before = "z = Reshape(x, computed)  {new_shape: any}"
    after = "z = Reshape(x, shape)"

    @condition
    def is_computed(self, computed: Value) -> str | None:
        return f"%{computed.name}: is constant" if computed.is_const else None

    @condition
    def has_one_unknown_dimension(self, x: Value, computed: Value, z: Value) -> str | None:
        return None if is_determined(_result_shape(x, computed, z)) else determined_shape(z)

    def constants(self, x: Value, computed: Value, z: Value) -> dict[str, Array]:
        shape = _result_shape(x, computed, z) or ()
        return {"shape": np.asarray([-1 if d is None else d for d in shape], np.int32)}


def _result_shape(x: Value, computed: Value, z: Value) -> Dims | None:
    """Return what is known of the shape of ``z``, a RESHAPE of ``x`` to the shape ``computed``.

    If an entry of ``computed`` is -1, and another one is the only unknown dimension of ``x``, the other
    dimensions of ``x`` determine what -1 stands for.
    """
    if z.shape is None or x.shape is None or not isinstance(computed.producer, Pack):
        return z.shape
    values = computed.producer.values
    if any(v.is_const and v.numel != 1 for v in values):  # then a value is not one entry of the shape
        return z.shape
    entries = [-1 if (listed := static_int_vector(v)) is None else listed[0] for v in values]
    copied = [_copied_axis(v, x) for v in values if not v.is_const]
    size, known = (prod(d for d in dims if d not in (None, -1)) for dims in (x.shape, entries))
    places = [i for i, v in enumerate(values) if v.is_const and entries[i] == -1]
    unknown = [axis for axis, d in enumerate(x.shape) if d is None]
    if len(unknown) != 1 or copied != unknown or len(places) != 1 or known == 0 or size % known:
        return z.shape
    return (*z.shape[: places[0]], size // known, *z.shape[places[0] + 1 :])


def _copied_axis(value: Value, x: Value) -> int | None:
    """Return the axis of ``x`` whose size is the scalar ``value``; None if that is not known."""
    op = value.producer
    if not isinstance(op, StridedSlice) or not isinstance(op.input.producer, Shape):
        return None
    begin = static_int_vector(op.begin)
    if op.input.producer.input is not x or not begin or (op.begin_mask, op.shrink_axis_mask) != (0, 1):
        return None
    return begin[0] % x.known_rank
