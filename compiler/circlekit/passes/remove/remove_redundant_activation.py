# SPDX-License-Identifier: Apache-2.0
"""Remove one of two activations in a row if it has no effect."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _SecondIsRedundant(Rewrite):
    """$second(y)  ==  y for any y that is the result of $first."""

    quantized = True
    shared = ("y",)

    before = """
        y = $first(x)
        z = $second(y)
    """
    after = "y"


class _FirstIsRedundant(Rewrite):
    """$second($first(x))  ==  $second(x)."""

    before = """
        y = $first(x)
        z = $second(y)
    """
    after = """
        z = $second(x)
    """


class _FakeQuantAgain(Rewrite):
    """fake_quant(y)  ==  y if y is already rounded to the same grid."""

    quantized = True
    shared = ("y",)

    before = """
        y = FakeQuant(x)    {min: any = low, max: any = up, num_bits: any = bits, narrow_range: any = narrow}
        z = FakeQuant(y)    {min: any = low, max: any = up, num_bits: any = bits, narrow_range: any = narrow}
    """
    after = "y"


class _ReluOfFakeQuant(Rewrite):
    """relu(y)  ==  y if y is rounded to a grid without negative numbers."""

    quantized = True
    shared = ("y",)

    before = """
        y = FakeQuant(x)    {min: any = low, max: any, num_bits: any, narrow_range: any}
        z = Relu(y)
    """
    after = "y"

    @condition
    def starts_at_zero(self, y: Value, low: float) -> str | None:
        return None if low >= 0 else f"%{y.name}: expected a grid from 0 or more on, got one from {low:g} on"


class RemoveRedundantActivation(Rules):
    """Remove one of two activations in a row (RELU and its variants, FAKE_QUANT) if it has no effect."""

    name = "remove_redundant_activation"
    rules = (
        _SecondIsRedundant.member(first="Relu|Relu6|Relu0To1", second="Relu"),
        _SecondIsRedundant.member(first="Relu6|Relu0To1", second="Relu6"),
        _SecondIsRedundant.member(first="ReluN1To1|Relu0To1", second="ReluN1To1"),
        _SecondIsRedundant.member(first="Relu0To1", second="Relu0To1"),
        _FirstIsRedundant.member(first="Relu", second="Relu6"),
        _FirstIsRedundant.member(first="Relu|Relu6|ReluN1To1", second="Relu0To1"),
        _FakeQuantAgain,
        _ReluOfFakeQuant,
    )
