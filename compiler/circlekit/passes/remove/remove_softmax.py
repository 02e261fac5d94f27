# SPDX-License-Identifier: Apache-2.0
"""Remove a SOFTMAX or LOG_SOFTMAX of which only the position of the maximum is used."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.passes.support.axes import last_axis_refusal
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Position(Rewrite):
    """arg_max($softmax(x))  ==  arg_max(x) along the last axis, because $softmax keeps the order of a row."""

    spread = ("s",)

    before = """
        s = $softmax(x: f32)            $attributes
        z = ArgMax(s, axis: const)      {output_type: any}
    """
    after = "z = ArgMax(x, axis)            {like z}"

    @condition
    def is_along_the_last_axis(self, x: Value, z: Value, axis: Array) -> str | None:
        """``axis`` is the last axis of ``x``."""
        return last_axis_refusal(x, z, axis)


class RemoveSoftmax(Rules):
    """arg_max(softmax(x))  ==  arg_max(x) along the last axis, and the same for LOG_SOFTMAX.

    Segmentation and classification models often end in this way.  Positions may change: rounding may make the
    two largest results of the SOFTMAX equal.  ARG_MAX then takes the first of them, even if it comes from the
    smaller element of x.  An infinite maximum or a NaN in a row of x makes the whole row of the SOFTMAX NaN.
    """

    name = "remove_softmax"
    changes_values = True
    rules = (
        _Position.member(softmax="Softmax", attributes="{beta: 1.0}"),
        _Position.member(softmax="LogSoftmax", attributes=""),
    )
