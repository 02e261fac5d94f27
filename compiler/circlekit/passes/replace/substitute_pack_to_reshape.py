# SPDX-License-Identifier: Apache-2.0
"""PACK of one value as RESHAPE."""

from __future__ import annotations

from circlekit.passes.replace.to_reshape import ToReshape


class SubstitutePackToReshape(ToReshape):
    """pack([x])  ==  reshape(x, the shape with a 1 along the axis)."""

    name = "substitute_pack_to_reshape"

    before = """
        z = Pack(x)         {values_count: any, axis: any}
    """
