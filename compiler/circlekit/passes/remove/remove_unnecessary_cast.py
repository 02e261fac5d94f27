# SPDX-License-Identifier: Apache-2.0
"""Remove casts that change nothing, alone or in pairs."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.value import Value
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class SameType(Rewrite):
    """cast(x) to the dtype of x  ==  x."""

    quantized = True

    before = """
        y = Cast(x)     {in_data_type: any, out_data_type: any}
    """
    after = "x"


class ThereAndBack(Rewrite):
    """cast(cast(x))  ==  x, where the first dtype represents every number of the second."""

    shared = ("y",)

    before = """
        y = Cast(x)     {in_data_type: any, out_data_type: any}
        z = Cast(y)     {in_data_type: any, out_data_type: any}
    """
    after = "x"

    @condition
    def is_lossless(self, x: Value, y: Value) -> str | None:
        if holds_all(y.dtype, x.dtype):
            return None
        return f"%{y.name}: {y.dtype.short} does not represent every number of {x.dtype.short}"


def holds_all(wide: DType, narrow: DType) -> bool:
    """Whether ``wide`` represents every number of ``narrow`` exactly."""
    a, b = wide.numpy, narrow.numpy
    if a is None or b is None or not {a.kind, b.kind} <= set("biuf"):
        return False
    if a == b or b.kind == "b":
        return True
    if a.kind == "f":
        mantissa = np.finfo(a).nmant + 1  # type: ignore[type-var]  # the kind is f
        return a.itemsize >= b.itemsize if b.kind == "f" else 8 * b.itemsize - (b.kind == "i") <= mantissa
    return a.kind in "iu" and b.kind in "iu" and np.can_cast(b, a, "safe")


class RemoveUnnecessaryCast(Rules):
    """Remove casts to the same dtype, and casts to a wider one and back."""

    name = "remove_unnecessary_cast"
    rules = (SameType, ThereAndBack)
