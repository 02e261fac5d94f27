# SPDX-License-Identifier: Apache-2.0
"""Models that begin and end with a pool, which only works on NHWC."""

from __future__ import annotations

from circlekit.ir.graph import Model

NHWC, NCHW = "[0, 2, 3, 1]", "[0, 3, 1, 2]"

POOL = "{padding: SAME, filter_height: 2, filter_width: 2, stride_h: 1, stride_w: 1}"
"""The attributes of a max pool that keeps the shape."""


def pooled(body: str, inputs: str = "%x: f32[1,4,5,3]", outputs: str = "%y") -> str:
    """Return a model: a pool makes %n in NHWC, %m is %n in NCHW, and ``body`` reads %m."""
    return f"""graph main({inputs}) -> {outputs} {{
                 %n = MaxPool2D(%x) {POOL}
                 %m = Transpose(%n, {NCHW})
                 {body}
               }}"""


def last(value: str) -> str:
    """Return lines that transpose ``value`` to NHWC and make %y from it with a pool."""
    return f"""%t = Transpose({value}, {NHWC})
               %y = MaxPool2D(%t) {POOL}"""


def kinds(model: Model) -> list[str]:
    return [type(op).__name__ for op in model.main]
