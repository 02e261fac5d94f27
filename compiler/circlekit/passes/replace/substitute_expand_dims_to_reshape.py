# SPDX-License-Identifier: Apache-2.0
"""EXPAND_DIMS as RESHAPE."""

from __future__ import annotations

from circlekit.passes.replace.to_reshape import ToReshape


class SubstituteExpandDimsToReshape(ToReshape):
    """expand_dims(x, axis)  ==  reshape(x, the shape with a 1 there)."""

    name = "substitute_expand_dims_to_reshape"

    before = """
        z = ExpandDims(x, axis: const)
    """
