# SPDX-License-Identifier: Apache-2.0
"""Remove operators without effect: identities, x + 0, casts to the same dtype or back, extra activations."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array, Value
from circlekit.ops.program.custom import IDENTITIES
from circlekit.passes.support.conditions import all_equal, broadcast_refusal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class Removed(Rewrite):
    """$call  ==  x, if the result has the type of x."""

    quantized = True

    before = "y = $call"
    after = "x"  # the engine refuses if y and x have different types


class _SameShape(Removed):
    """broadcast_to(x, the shape of x)  ==  x, tile(x, [1, 1, ...])  ==  x, and resize(x, its size)  ==  x.

    An infinite x stays infinite.  RESIZE_BILINEAR would make NaN of it: it multiplies elements by 0.
    """

    @condition
    def static_shape(self, x: Value) -> str | None:
        """``x`` has a static shape."""
        return None if x.is_static else f"%{x.name}: expected a static shape, got {x.type}"


class _OneChoice(Rewrite):
    """select(c, x, y)  ==  $chosen, if every element of the condition c is $choice."""

    quantized = True

    before = "z = SelectV2|Select(c: const, x, y)"
    after = "$chosen"

    @condition
    def one_choice(self, c: Array, z: Value) -> str | None:
        """The condition has elements, and every element chooses the same operand."""
        choice = self.after == "x"  # every element of the condition must be true for x, false for y
        if c.size and (c == choice).all():
            return None
        return f"%{z.name}: not every element of the condition is {str(choice).lower()}"

    @condition
    def keeps_the_shape(self, match: Match) -> str | None:
        """Broadcasting cannot change an unknown rank or dimension of the chosen operand.

        The engine compares the known dimensions.
        """
        chosen = match.value(self.after)
        for other in (match.value(name) for name in ("c", "x", "y") if name != self.after):
            if chosen.is_static or other.shape == ():
                continue
            if chosen.shape is None or other.shape is None:
                return f"%{chosen.name}: may be broadcast, because a rank is unknown"
            pairs = zip(reversed(chosen.shape), reversed(other.shape), strict=False)
            if any(size is None and other_size != 1 for size, other_size in pairs):
                return f"%{chosen.name}: may be broadcast along an unknown dimension"
        return None


class RemoveIdentity(Rules):
    """Remove operators that return their operand.

    Builtin operators: SQUEEZE of no dimension, CONCATENATION and ADD_N of one operand, SELECT that always
    chooses the same operand, BROADCAST_TO, TILE, RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR to the same
    shape.
    Custom operators: those without effect that training has left (Identity, StopGradient, ...).
    """

    name = "remove_identity"
    rules = (
        Removed.member(call="Squeeze(x)  {squeeze_dims: any}"),
        Removed.member(call="Concatenation(x)  {axis: any}"),
        Removed.member(call="AddN(x)"),
        _SameShape.member(call="BroadcastTo|Tile(x, shape: const)"),
        _SameShape.member(
            call="ResizeBilinear|ResizeNearestNeighbor(x, size: const)"
            "  {align_corners: any, half_pixel_centers: any}"
        ),
        Removed.member(call=f'Custom("{"|".join(IDENTITIES)}", x)'),
        _OneChoice.member(choice="true", chosen="x"),
        _OneChoice.member(choice="false", chosen="y"),
    )


class _NeutralConstant(Rewrite):
    """$example  ==  x, if all elements of the constant are exactly $neutral and x keeps its shape.

    An infinite x stays infinite.  The removed operator would clamp it to the largest finite number.
    """

    number: ClassVar[int]  # the number that all elements of the constant must be

    before = "z = $operator(x, c: const)  $attributes"
    after = "x"

    @condition
    def changes_nothing(self, match: Match) -> str | None:
        """All elements of ``c`` are the neutral number, and ``c`` does not change the shape of ``x``."""
        c = match.value("c")
        return all_equal(c.array(), self.number, c.name) or broadcast_refusal(match.value("x"), c)


class RemoveUnnecessaryAdd(
    _NeutralConstant, example="x + 0  ==  0 + x  ==  x - 0", neutral="0", operator="Add|Sub",
    attributes="{pot_scale_int16: any}",
):  # fmt: skip
    name = "remove_unnecessary_add"
    number = 0


class RemoveUnnecessaryMul(
    _NeutralConstant, example="x * 1  ==  1 * x", neutral="1", operator="Mul", attributes=""
):
    name = "remove_unnecessary_mul"
    number = 1


class RemoveUnnecessaryDiv(_NeutralConstant, example="x / 1", neutral="1", operator="Div", attributes=""):
    name = "remove_unnecessary_div"
    number = 1


class CastAndBack(Rewrite):
    """cast(cast(x))  ==  x, if the dtype between the casts represents every number of the dtype of x."""

    shared = ("y",)

    before = """
        y = Cast(x)     {in_data_type: any, out_data_type: any}
        z = Cast(y)     {in_data_type: any, out_data_type: any}
    """
    after = "x"

    @condition
    def is_lossless(self, x: Value, y: Value) -> str | None:
        """The dtype of ``y`` represents every number of the dtype of ``x``."""
        if holds_all(y.dtype, x.dtype):
            return None
        return f"%{y.name}: {y.dtype.short} does not represent every number of {x.dtype.short}"


def holds_all(wide: DType, narrow: DType) -> bool:
    """Return whether ``wide`` represents every number of ``narrow`` exactly.

    Return False unless both are bools, integers or floats that numpy has; numpy has no bf16.
    """
    a, b = wide.numpy, narrow.numpy
    if a is None or b is None or not {a.kind, b.kind} <= set("biuf"):  # bool, integers, floats
        return False
    loses_bits = a.kind == "f" and b.kind in "iu" and a.itemsize == b.itemsize  # numpy calls i64 to f64 safe
    return np.can_cast(b, a, "safe") and not loses_bits


class RemoveUnnecessaryCast(Rules):
    """Remove casts to the same dtype, and pairs of casts to a wider dtype and back."""

    name = "remove_unnecessary_cast"
    rules = (Removed.member(call="Cast(x)  {in_data_type: any, out_data_type: any}"), CastAndBack)


class _SecondIsRedundant(Rewrite):
    """$second(y)  ==  y if y is the result of $first."""

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
    after = "z = $second(x)"


class _FakeQuantAgain(Rewrite):
    """fake_quant(y)  ==  y if y is the result of a FAKE_QUANT with the same attributes."""

    quantized = True
    shared = ("y",)

    before = """
        y = FakeQuant(x)    {min: any = low, max: any = up, num_bits: any = bits, narrow_range: any = narrow}
        z = FakeQuant(y)    {min: any = low, max: any = up, num_bits: any = bits, narrow_range: any = narrow}
    """
    after = "y"


class _ReluOfFakeQuant(Rewrite):
    """relu(y)  ==  y if y is the result of a FAKE_QUANT that gives no negative number."""

    quantized = True
    shared = ("y",)

    before = """
        y = FakeQuant(x)    {min: any = low, max: any, num_bits: any, narrow_range: any}
        z = Relu(y)
    """
    after = "y"

    @condition
    def starts_at_zero(self, y: Value, low: float) -> str | None:
        """The attribute min is 0 or above."""
        return None if low >= 0 else f"%{y.name}: min is {low:g}, expected 0 or above"


class RemoveRedundantActivation(Rules):
    """Remove one of two successive activations (RELU and its variants, FAKE_QUANT) if it has no effect."""

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
