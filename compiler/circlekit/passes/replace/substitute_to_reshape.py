# SPDX-License-Identifier: Apache-2.0
"""Write operators that keep the order and the number of elements as a Reshape: one pass for each operator."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.movement.shape import checked_perm
from circlekit.passes.support.conditions import is_determined, same_quantization
from circlekit.rewrite.rewrite import Rewrite, condition


class _ToReshape(Rewrite):
    """$call  ==  reshape(x, the shape of the result)."""

    quantized = True

    before = """
        z = $call   $attributes
    """
    after = """
        z = Reshape(x, shape)
    """

    @condition
    def has_one_shape(self, z: Value) -> str | None:
        if is_determined(z.shape):
            return None
        return f"%{z.name}: has more than one unknown dimension: {format_shape(z.shape)}"

    @condition
    def keeps_the_scale(self, x: Value, z: Value) -> str | None:
        return same_quantization(x, z)

    def constants(self, z: Value) -> dict[str, Array]:
        return {"shape": np.asarray([-1 if d is None else d for d in z.shape or ()], np.int32)}


class SubstituteSqueezeToReshape(_ToReshape, call="Squeeze(x)", attributes="{squeeze_dims: any}"):
    """squeeze(x)  ==  reshape(x, the shape without dimensions of 1)."""

    name = "substitute_squeeze_to_reshape"


class SubstituteExpandDimsToReshape(_ToReshape, call="ExpandDims(x, axis: const)", attributes=""):
    """expand_dims(x, axis)  ==  reshape(x, the shape with a 1 at the axis)."""

    name = "substitute_expand_dims_to_reshape"


class SubstitutePackToReshape(_ToReshape, call="Pack(x)", attributes="{values_count: any, axis: any}"):
    """pack([x])  ==  reshape(x, the shape with a 1 at the axis)."""

    name = "substitute_pack_to_reshape"


class SubstituteStridedSliceToReshape(
    _ToReshape,
    call="StridedSlice(x, begin: const, end: const, strides: const)",
    attributes="{begin_mask: any, end_mask: any, ellipsis_mask: any, new_axis_mask: any,\n"
    "             shrink_axis_mask: any, offset: any}",
):
    """strided_slice(x) of all elements  ==  reshape(x, the shape without the axes that it drops)."""

    name = "substitute_strided_slice_to_reshape"

    @condition
    def keeps_everything_in_order(self, x: Value, z: Value, strides: Array) -> str | None:
        if not (x.is_static and z.is_static) or x.numel != z.numel:
            return f"%{z.name}: expected all elements of %{x.name}, {x.type}, got {z.type}"
        if (strides < 0).any() and x.numel > 1:
            return f"%{z.name}: reverses an axis"
        return None


class SubstituteTransposeToReshape(
    _ToReshape,
    call="Transpose(x, perm: const)",
    attributes="",
):
    """transpose(x, perm)  ==  reshape(x, shape), where all dimensions above 1 keep their order."""

    name = "substitute_transpose_to_reshape"

    @condition
    def moves_only_ones(self, x: Value, z: Value, perm: Array) -> str | None:
        if x.shape is None:
            return f"%{x.name}: expected a known rank"
        moved = [a for a in checked_perm(perm.tolist(), len(x.shape)) if x.shape[a] != 1]
        if moved != sorted(moved):
            return f"%{z.name}: perm {perm.tolist()} changes the order of dimensions of %{x.name}, {x.type}"
        return None
