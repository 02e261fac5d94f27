# SPDX-License-Identifier: Apache-2.0
"""Cases of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from circlekit.ir.dtypes import DType, f32, i32, i64
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.constant_operands import packed
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.kinds import F32, HYBRID, I8, I16, QI8, QI16, QU8, Case, Kind
from tools.kit.twin import magnitude_before_activation


class Weighted(NamedTuple):
    """Data, weights and bias of a layer, of types that fit each other."""

    data: Value
    weights: Value
    bias: Value | None
    label: str


def weighted(
    draw: Draw,
    kind: Kind,
    shape: Sequence[int],
    filter: Sequence[int],
    axis: int,
    wide: bool = False,
    packs: Sequence[Kind] = (QI8, QI16, HYBRID),
    certain: bool = False,
) -> Weighted:
    """Return operands of a layer.  ``axis``: the axis of output channels in the filter.

    ``wide``: int16 data may have int16 weights.  ``packs``: kinds of data that may have int4 weights.
    ``certain``: int8 weights for float data always have a scale per channel.  With other forms, LiteRT
    reads beyond the weights or scales without an error.
    """
    channels = filter[axis]
    if kind is F32:
        bias = draw.constant(draw.array(f32, (channels,))) if draw.chance(0.85) else None
        return Weighted(
            draw.tensor(F32, shape, const=0, make=lambda: draw.summands(shape)),
            draw.tensor(F32, filter, const=0.85, make=lambda: calm(draw, filter)),
            bias,
            "f32",
        )
    if kind is HYBRID:
        weights = quantized_weights(draw, I8, filter, axis, True, HYBRID in packs, certain)
        bias = draw.constant(draw.array(f32, (channels,))) if draw.chance(0.85) else None
        return Weighted(
            draw.tensor(F32, shape, const=0, make=lambda: calm(draw, shape)),
            weights,
            bias,
            f"f32 x {weights.dtype.short}",
        )
    data = draw.tensor(kind, shape, const=0)
    integer = kind if kind is QU8 else I16 if wide and kind is QI16 and draw.chance(0.05) else I8
    weights = quantized_weights(draw, integer, filter, axis, kind is not QU8, kind in packs)
    bias = quantized_bias(draw, kind, data, weights, channels)
    return Weighted(data, weights, bias, f"{kind.dtype.short} x {weights.dtype.short} q")


def calm(draw: Draw, shape: Sequence[int]) -> Array:
    """Return moderate finite floats."""
    return (draw.rng.normal(size=tuple(shape)) * draw.real(0.1, 3)).astype(np.float32)


def quantized_weights(
    draw: Draw,
    kind: Kind,
    shape: Sequence[int],
    axis: int,
    per_channel: bool,
    packs: bool = True,
    certain: bool = False,
) -> Value:
    """Return weights, with scales along ``axis`` if ``per_channel`` (always if ``certain``), or int4."""
    if kind is QU8:
        return draw.tensor(QU8, shape, const=1)
    each = shape[axis] if per_channel and (draw.chance(0.6) or certain) else 1
    scales = np.exp(draw.rng.uniform(np.log(0.002), np.log(0.3), each)).astype(np.float32)
    quantization = Quantization(scales, np.zeros(each, np.int64), axis if each > 1 else 0)
    dtype = DType.INT4 if packs and kind is I8 and draw.chance(0.12) else kind.dtype
    if dtype is DType.INT4:
        numbers = draw.rng.integers(-7, 8, tuple(shape)).astype(np.int8)
        value = Value("", dtype, tuple(shape), packed(numbers, dtype), quantization)
        draw.samples[value] = numbers
        return value
    least = -127 if dtype is DType.INT8 else -32767
    numbers = draw.rng.integers(least, -least + 1, tuple(shape)).astype(dtype.numpy)
    return Value("", dtype, tuple(shape), numbers, quantization)


def quantized_bias(draw: Draw, kind: Kind, data: Value, weights: Value, channels: int) -> Value | None:
    if not draw.chance(0.9):
        return None
    assert data.quantization is not None
    assert weights.quantization is not None
    dtype = i64 if kind is QI16 and draw.chance(0.8) else i32
    reach = 1 << draw.integer(4, 38 if dtype is i64 else 20)
    numbers = draw.rng.integers(-reach, reach, channels).astype(dtype.numpy)
    scales = (data.quantization.scale[0] * weights.quantization.scale).astype(np.float32)
    return Value.constant("", numbers, Quantization(scales, np.zeros(scales.size, np.int64)))


# -- convolutions ------------------------------------------------------------------------------


def windows(draw: Draw, axes: str, dilated: bool = True) -> tuple[dict[str, Any], list[int], list[int]]:
    """Return padding, strides and dilations for ``axes``, the sizes of the filter, and sizes of the data."""
    padding = draw.choice(list(Padding))
    attributes: dict[str, Any] = {"padding": padding}
    taps, sizes = [], []
    for axis in axes:
        tap, stride = draw.integer(1, 4), draw.choice((1, 1, 2, 3))
        dilation = draw.choice((1, 1, 1, 2, 3)) if dilated else 1
        attributes[f"stride_{axis}"] = stride
        if dilated:
            attributes[f"dilation_{axis}"] = dilation
        taps.append(tap)
        span = (tap - 1) * dilation + 1
        small = padding is Padding.SAME and draw.chance(0.1)
        sizes.append(draw.integer(1, 4) if small else span + draw.integer(0, 6))
    return attributes, taps, sizes


def bias_type(made: Weighted) -> DType:
    """Return the attribute that tells LiteRT an unusual type of the bias of int16 data."""
    usual = i32 if made.weights.dtype is DType.INT16 else i64
    if made.bias is None or made.data.dtype is not DType.INT16 or made.bias.dtype is usual:
        return f32
    return made.bias.dtype


def wide_bias(given: dict[str, Any], cls: type[Op], made: Weighted) -> dict[str, Any]:
    """Add the attribute with the type of the bias, if the operator has it."""
    if "quantized_bias_type" in {a.name for a in cls.attributes}:
        given["quantized_bias_type"] = bias_type(made)
    return given


def bounded(draw: Draw, case: Case) -> Case:
    """Note the magnitude before a fused activation, to which the tolerance of floats refers."""
    op = next(iter(case.graph))
    if op.attribute_values["act"] is not Activation.NONE and case.label.startswith("f32"):
        case.magnitude = magnitude_before_activation(op, draw.samples)
    return case


@family("CONV_2D", "f32 f32 i8q i8q u8q i16q i16q hybrid")
def conv(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    attributes, taps, sizes = windows(draw, "hw")
    groups = draw.choice((1, 1, 1, 2, 3))
    depth, channels = groups * draw.integer(1, 5), groups * draw.integer(1, 5)
    if draw.chance(0.15):
        groups, depth = 1, draw.integer(30, 90)
    shape = (draw.integer(1, 2), *sizes, depth)
    made = weighted(draw, kind, shape, (channels, *taps, depth // groups), 0)
    return bounded(draw, draw.case(cls, made[:3], made.label, **wide_bias(attributes, cls, made)))


@family("DEPTHWISE_CONV_2D", "f32 f32 i8q i8q u8q i16q i16q hybrid")
def depthwise(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    attributes, taps, sizes = windows(draw, "hw")
    depth, multiplier = draw.integer(1, 9), draw.choice((1, 1, 2, 3))
    shape = (draw.integer(1, 2), *sizes, depth)
    made = weighted(draw, kind, shape, (1, *taps, depth * multiplier), 3, packs=(QI8,), certain=True)
    return bounded(draw, draw.case(cls, made[:3], made.label, depth_multiplier=multiplier, **attributes))


@family("TRANSPOSE_CONV", "f32 f32 i8q u8q i16q hybrid")
def transposed(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    attributes, taps, sizes = windows(draw, "hw", dilated=False)
    padding = attributes["padding"]
    depth, channels = draw.integer(1, 6), draw.integer(1, 6)
    out, dims = [], []
    for axis, tap, size in zip("hw", taps, sizes, strict=True):
        stride = attributes[f"stride_{axis}"]
        wanted = size * stride - draw.integer(0, stride - 1)
        if padding is Padding.VALID:
            wanted = (size - 1) * stride + tap + draw.integer(0, stride - 1)
        out.append(max(wanted, 1))
        dims.append(size)
    batch = draw.integer(1, 2)
    made = weighted(draw, kind, (batch, *dims, depth), (channels, *taps, depth), 0)
    shape = draw.parameter([batch, *out, channels])
    given = wide_bias(attributes, cls, made)
    return bounded(draw, draw.case(cls, [shape, made.weights, made.data, made.bias], made.label, **given))


# -- pools -------------------------------------------------------------------------------------


@family("AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D", "f32 f32 i8q u8q i16q")
def pool(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    attributes, taps, sizes = windows(draw, "hw", dilated=False)
    shape = (draw.integer(1, 3), *sizes, draw.integer(1, 9))
    sums = kind is F32 and draw.code == "AVERAGE_POOL_2D"
    x = draw.tensor(kind, shape, make=(lambda: draw.summands(shape)) if sums else None)
    given: dict[str, Any] = {"filter_height": taps[0], "filter_width": taps[1], **attributes}
    return draw.case(cls, [x], kind.label, [x.quantization if draw.chance(0.95) else None], **given)
