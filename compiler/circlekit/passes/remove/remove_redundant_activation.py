# SPDX-License-Identifier: Apache-2.0
"""Activations on what has been through one already."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class Outer(Rewrite):
    """The second limits nothing that the first has not limited."""

    quantized = True
    shared = ("y",)
    after = "y"


class OuterRelu(Outer):
    """max(y, 0)  ==  y of y that is nowhere below 0."""

    before = """
        y = Relu|Relu6|Relu0To1(x)
        z = Relu(y)
    """


class OuterRelu6(Outer):
    """min(max(y, 0), 6)  ==  y of y between 0 and 6."""

    before = """
        y = Relu6|Relu0To1(x)
        z = Relu6(y)
    """


class OuterReluN1To1(Outer):
    """min(max(y, -1), 1)  ==  y of y between -1 and 1."""

    before = """
        y = ReluN1To1|Relu0To1(x)
        z = ReluN1To1(y)
    """


class OuterRelu0To1(Outer):
    """min(max(y, 0), 1)  ==  y of y between 0 and 1."""

    before = """
        y = Relu0To1(x)
        z = Relu0To1(y)
    """


class InnerRelu(Rewrite):
    """min(max(max(x, 0), 0), 6)  ==  min(max(x, 0), 6)."""

    before = """
        y = Relu(x)
        z = Relu6(y)
    """
    after = """
        z = Relu6(x)
    """


class InnerWider(Rewrite):
    """The second limits to a part of what the first leaves."""

    before = """
        y = Relu|Relu6|ReluN1To1(x)
        z = Relu0To1(y)
    """
    after = """
        z = Relu0To1(x)
    """


class FakeQuantAgain(Outer):
    """fake_quant(y)  ==  y of y on the grid already."""

    before = """
        y = FakeQuant(x)    {min: any = low, max: any = up, num_bits: any = bits, narrow_range: any = narrow}
        z = FakeQuant(y)    {min: any = low, max: any = up, num_bits: any = bits, narrow_range: any = narrow}
    """


class ReluOfFakeQuant(Outer):
    """relu(y)  ==  y of y on a grid that begins at 0."""

    before = """
        y = FakeQuant(x)    {min: any = low, max: any, num_bits: any, narrow_range: any}
        z = Relu(y)
    """

    @condition
    def begins_at_zero(self, y: Value, low: float) -> str | None:
        return None if low >= 0 else f"%{y.name}: is on a grid from {low:g} on, one from 0 on is wanted"


class RemoveRedundantActivation(Rules):
    """RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1, FAKE_QUANT, two in a row: one of them does nothing."""

    name = "remove_redundant_activation"
    rules = (
        OuterRelu, OuterRelu6, OuterReluN1To1, OuterRelu0To1, InnerRelu, InnerWider, FakeQuantAgain,
        ReluOfFakeQuant,
    )  # fmt: skip
