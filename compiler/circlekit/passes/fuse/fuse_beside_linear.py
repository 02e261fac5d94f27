# SPDX-License-Identifier: Apache-2.0
"""Fold per-channel arithmetic before or after a convolution or fully connected layer into its constants.

Each kind of arithmetic is one template.  A table has one row for each kind of layer, with the values of the
``$words`` of the template.  I is the number of input channels, O that of output channels.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Sub
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.convolution.conv import DepthwiseConv2D
from circlekit.passes.support.axes import permuted_array
from circlekit.passes.support.conditions import broadcast_refusal
from circlekit.passes.support.linear_producer import fold_bias, per_channel
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

# -- before the layer --------------------------------------------------------------------------

IMAGE = {"data": "[_, _, _, I]", "numbers": "[*, I|1]"}
"""The shapes of NHWC data, and of a constant with I elements or one on the last axis (``*``: only ones)."""

DIRECT = {"move": "", "moved": "a", "again": "", "new": "x"}
"""The words for a layer that reads the result ``a`` of the arithmetic; the new layer reads ``x``."""

AFTER_TRANSPOSE = {
    "move": "t = Transpose(a, perm: const)",
    "moved": "t: f32[_, _, _, I]",
    "again": "y = Transpose(x, perm)",
    "new": "y",
}
"""The words for a layer that reads a Transpose of ``a``; the new layer reads a Transpose of ``x``."""

CONVOLUTIONS: tuple[dict[str, Any], ...] = (
    {"layer": "Conv2D", "filter": "[O, _, _, I]", "spread": ("a",), **IMAGE, **DIRECT},
    {"layer": "DepthwiseConv2D", "filter": "[1, _, _, O]", "spread": ("a",), **IMAGE, **DIRECT},
    {"layer": "Conv2D", "filter": "[O, _, _, I]", "data": "", "numbers": "", **AFTER_TRANSPOSE},
)
"""Layers that follow arithmetic.  In the last row a Transpose ``t`` converts the NCHW result ``a`` to NHWC.

The dimension I excludes convolutions with groups, whose filter has fewer channels than the data.  ``spread``:
``a`` may have other users if the same rewrite applies to each of them.
"""


class BeforeLinear(Rewrite):
    """Base class for arithmetic on ``x`` and a constant ``c`` before a layer; it keeps the shape of ``x``."""

    @condition
    def does_not_broadcast_x(self, match: Match) -> str | None:
        return broadcast_refusal(match.value("x"), match.value("c"))

    def numbers(self, match: Match) -> Array:
        """Return the constant in the layout of the layer's input: transposed, if the picture has ``perm``."""
        c, perm = match.value("c").array(), match.values.get("perm")
        return c if perm is None else permuted_array(c, perm.array())

    def for_filter(self, values: Array, w: Array) -> Array:
        """Return ``values``, one per input channel, repeated so that they fit the last axis of ``w``.

        Only a depthwise filter needs the repetition: it may have several output channels per input channel.
        """
        return values.repeat(w.shape[-1] // max(values.size, 1))


class BeforeConvolution(BeforeLinear):
    """Base class for arithmetic before a convolution; a Transpose may stand between them."""

    @condition
    def one_per_channel(self, match: Match) -> str | None:
        """With a Transpose, the constant may vary only along the axis that becomes the last one."""
        c, perm = match.value("c"), match.values.get("perm")
        if perm is None:
            return None
        if c.known_rank <= perm.numel == 4 and self.numbers(match).shape[:3] == (1, 1, 1):
            return None
        shape = format_shape(c.shape)
        return f"%{c.name}: expected one number per channel after the Transpose, got shape {shape}"


class _Sum(BeforeConvolution):
    """$layer(x + c, w) + b  ==  $layer(x, w) + (b + sum(w * c)); for x - c, the bias is b - sum(w * c)."""

    before = """
        a = Add|Sub(x: f32$data, c: const f32$numbers)
        $move
        z = $layer($moved, w: const f32$filter, b?: const f32[*, O])    {padding: any = padding}
    """
    after = """
        $again
        z = $layer($new, w, b2)         {like z, padding: padding}
    """

    @condition
    def has_no_border(self, w: Array, z: Value, padding: Padding) -> str | None:
        """No window may reach into the padding, because the offset is not added to the zeros there."""
        if padding is Padding.VALID or w.shape[1:3] == (1, 1):
            return None
        return f"%{z.name}: expected VALID padding, got SAME, whose border of zeros does not get the offset"

    def constants(self, match: Match, w: Array, I: int, b: Array | None) -> dict[str, Array]:
        offset = per_channel(self.numbers(match), I).astype(np.float64)
        if isinstance(match.ops["a"], Sub):
            offset = -offset
        # all axes of the filter except that of the output channels
        axes = (0, 1, 2) if isinstance(match.ops["z"], DepthwiseConv2D) else (1, 2, 3)
        sums = (w.astype(np.float64) * self.for_filter(offset, w)).sum(axes)
        return {"b2": fold_bias(b, None, sums.astype(w.dtype))}


class FuseAddToConvBias(Rules):
    """conv(x + c, w) + b  ==  conv(x, w) + (b + sum(w * c)) without padding, and similarly for x - c."""

    name = "fuse_add_to_conv_bias"
    rules = tuple(_Sum.member(**words) for words in CONVOLUTIONS)


class FuseAddToFullyConnectedBias(BeforeLinear):
    """fc(x + c, w, b)  ==  fc(x, w, fc(c, w, b)), and similarly for x - c.

    fold_constants computes the inner layer.
    """

    name = "fuse_add_to_fullyconnected_bias"
    spread = ("a",)

    before = """
        a = Add|Sub(x: f32, c: const f32[*, I|1])
        z = FullyConnected(a, w: const f32[O, I], b?: const f32[*, O])     {weights_format: DEFAULT}
    """
    after = """
        s = FullyConnected(row, w, b)   {keep_num_dims: true}
        z = FullyConnected(x, w, s)     {like z}
    """

    def constants(self, match: Match, c: Array, I: int) -> dict[str, Array]:
        return {"row": per_channel(-c if isinstance(match.ops["a"], Sub) else c, I)}


class _Product(BeforeLinear):
    """$layer(x * c, w)  ==  $layer(x, w * c), and the same for x / c; the zeros of padding stay 0."""

    before = """
        a = $arithmetic(x: f32$data, c: const f32$numbers)
        $move
        z = $layer($moved, w: const f32$filter, b?)     $attributes
    """
    after = """
        $again
        z = $layer($new, w2, b)         {like z}
    """

    def constants(self, match: Match, w: Array, I: int) -> dict[str, Array]:
        factor = per_channel(self.numbers(match), I)
        if isinstance(match.ops["a"], Div):
            factor = 1 / factor
        return {"w2": w * self.for_filter(factor, w)}


class _ConvolutionProduct(_Product, BeforeConvolution):
    pass  # without a docstring, so that the pages show that of _Product


class FuseMulToConvWeights(Rules):
    """conv(x * c, w)  ==  conv(x, w * c), and the same for x / c, as in the normalization of images."""

    name = "fuse_mul_to_conv_weights"
    rules = tuple(
        _ConvolutionProduct.member(arithmetic="Mul|Div", attributes="", **words) for words in CONVOLUTIONS
    )


class FuseMulToFullyConnectedWeights(
    _Product, arithmetic="Mul|Div", layer="FullyConnected", data="", numbers="[*, I|1]", filter="[O, I]",
    attributes="{weights_format: DEFAULT}", **DIRECT,
):  # fmt: skip
    """fc(x * c, w)  ==  fc(x, w * c), and the same for x / c."""

    name = "fuse_mul_to_fullyconnected_weights"
    spread = ("a",)


# -- after the layer ---------------------------------------------------------------------------


class AfterLinear(Rewrite):
    """Base class for arithmetic after a layer.

    ``$layer``: the word in the name of the pass.  ``$kind``: the operator of the layer.  ``$first``: its
    first operand.  ``$filter``: the shape of its filter ``w``.  ``$rest``: its operands between filter and
    bias.  ``$attributes``: the attributes that it must have.  ``output_axis``: the axis of output channels
    in ``w``.
    """

    output_axis: ClassVar[int] = 0

    def scaled(self, w: Array, scale: Array) -> Array:
        """Return ``w`` with each output channel multiplied by its factor from ``scale`` [channels]."""
        return w * scale.reshape([-1 if axis == self.output_axis else 1 for axis in range(w.ndim)])


class FuseAdd(AfterLinear):
    """($layer(x, w) + b) + shift  ==  $layer(x, w) + (b + shift), for one shift per output channel."""

    name = "fuse_add_with_$layer"

    before = """
        y = $kind($first, w: f32$filter,$rest b?: const f32[*, O])
        z = Add(y, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $kind($first, w,$rest b2)  {like y, act: act}"

    def constants(self, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        return {"b2": fold_bias(b, None, per_channel(shift, O))}


class FuseMul(AfterLinear):
    """($layer(x, w) + b) * scale  ==  $layer(x, w * scale) + b * scale, for one factor per output channel."""

    name = "fuse_mul_with_$layer"

    before = """
        y = $kind($first, w: const f32$filter,$rest b?: const f32[*, O])  $attributes
        z = Mul(y, scale: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $kind($first, w2,$rest b2)  {like y, act: act}"

    def constants(self, w: Array, scale: Array, O: int, b: Array | None) -> dict[str, Array | None]:
        factors = per_channel(scale, O)
        return {"w2": self.scaled(w, factors), "b2": None if b is None else b.reshape(-1) * factors}


class FuseBatchNorm(AfterLinear):
    """$layer(x, w) * scale + shift  ==  $layer(x, w * scale) + shift, for one scale and shift per channel."""

    name = "fuse_batchnorm_with_$layer"

    before = """
        y = $kind($first, w: const f32$filter,$rest b?: const f32[*, O])
        m = Mul(y, scale: const f32[*, O|1])
        z = Add(m, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $kind($first, w2,$rest b2)  {like y, act: act}"

    def constants(self, w: Array, scale: Array, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        factors = per_channel(scale, O)
        return {"w2": self.scaled(w, factors), "b2": fold_bias(b, factors, per_channel(shift, O))}


LAYERS: tuple[dict[str, Any], ...] = (
    {"layer": "conv", "kind": "Conv2D", "first": "x", "filter": "[O, _, _, _]", "rest": ""},
    {"layer": "dwconv", "kind": "DepthwiseConv2D", "first": "x", "filter": "[1, _, _, O]", "rest": "",
     "output_axis": 3},
    {"layer": "tconv", "kind": "TransposeConv", "first": "shape", "filter": "[O, _, _, _]", "rest": " x,"},
)  # fmt: skip
FULLY_CONNECTED = {"kind": "FullyConnected", "first": "x", "filter": "[O, _]", "rest": ""}

# defining the classes registers the passes; some names differ between Add and Mul because ONE's names do
PASSES_AFTER_LAYERS = (
    *(FuseAdd.member(**words) for words in LAYERS),
    FuseAdd.member(layer="fully_connected", **FULLY_CONNECTED),
    *(FuseMul.member(attributes="", **words) for words in LAYERS),
    FuseMul.member(layer="fullyconnected", attributes="{weights_format: DEFAULT}", **FULLY_CONNECTED),
    *(FuseBatchNorm.member(**words) for words in LAYERS),
)
