# SPDX-License-Identifier: Apache-2.0
"""SQUEEZE as RESHAPE."""

from __future__ import annotations

from circlekit.passes.replace.to_reshape import ToReshape


class SubstituteSqueezeToReshape(ToReshape):
    """squeeze(x)  ==  reshape(x, the shape without the dimensions of 1)."""

    name = "substitute_squeeze_to_reshape"

    before = """
        z = Squeeze(x)      {squeeze_dims: any}
    """
