# SPDX-License-Identifier: Apache-2.0
"""STRIDED_SLICE that takes everything as RESHAPE."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.passes.replace.to_reshape import ToReshape
from circlekit.rewrite.rewrite import condition


class SubstituteStridedSliceToReshape(ToReshape):
    """strided_slice(x) of all elements  ==  reshape(x, the shape without the axes that it drops)."""

    name = "substitute_strided_slice_to_reshape"

    before = """
        z = StridedSlice(x, begin: const, end: const, strides: const)
            {begin_mask: any, end_mask: any, ellipsis_mask: any, new_axis_mask: any, shrink_axis_mask: any,
             offset: any}
    """

    @condition
    def takes_everything_in_order(self, x: Value, z: Value, strides: Array) -> str | None:
        if not (x.is_static and z.is_static) or x.numel != z.numel:
            return f"%{z.name}: is {z.type}, all of %{x.name}, {x.type}, is wanted"
        if (strides < 0).any() and x.numel > 1:
            return f"%{z.name}: runs backwards along an axis"
        return None
