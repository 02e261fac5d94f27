# SPDX-License-Identifier: Apache-2.0
"""Random attributes and quantization parameters of operators.

``m``: a model builder; it draws the random numbers.  ``kind``: the class of an operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from circlekit.ir.declaration import Attribute
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.enums import Activation, Named, Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.testing.model_builder import ModelBuilder


def random_quantization(m: ModelBuilder, dtype: DType) -> Quantization:
    """Return a random quantization with one scale; the zero point is 0 for int16, and often for others."""
    zero_point = 0
    if dtype is not DType.INT16 and m.chance(0.6):
        zero_point = m.below(200) + (0 if dtype is DType.UINT8 else -100)
    scale = m.number(0.05, 0.1, 1 / 16, 0.5, 1 / 256) / (64 if dtype is DType.INT16 else 1)
    return Quantization.per_tensor(scale, zero_point)


def derived_attributes(m: ModelBuilder, kind: type[Op], operands: Sequence[Value | None]) -> dict[str, Any]:
    """Return the attributes that must fit the operands, and those whose default would be useless."""
    names = {spec.name for spec in kind.attributes}
    found: dict[str, Any] = {}
    if "values_count" in names:
        found["values_count"] = len(operands)
    if "num_splits" in names:
        found["num_splits"] = 1 + m.below(3)
    if "num" in names and operands and operands[0] is not None and (shape := m.shape(operands[0])):
        found["axis"] = m.below(2 * len(shape)) - len(shape)
        found["num"] = shape[found["axis"]]
    if "depth_multiplier" in names:  # onert and XNNPACK read it, LiteRT's kernels do not
        found["depth_multiplier"] = max(_last_dim(m, operands[1]) // max(_last_dim(m, operands[0]), 1), 1)
    if kind.code == "TRANSPOSE_CONV":
        found |= _transposed_windows(m, operands)
    if kind.code == "FAKE_QUANT":
        found |= {"min": m.number(-6.0, -1.0, 0.0), "max": m.number(6.0, 1.0, 2.55), "num_bits": 8}
    if "in_data_type" in names and operands and operands[0] is not None:
        found["in_data_type"] = operands[0].dtype
        found["out_data_type"] = (f32, i32, f32, boolean, DType.INT64)[m.below(5)]  # f32 twice as often
    return found


def _last_dim(m: ModelBuilder, value: Value | None) -> int:
    """Return the last dimension of ``value``; 1 if it is absent or a scalar."""
    return m.shape(value)[-1] if value is not None and m.shape(value) else 1


def random_attribute(m: ModelBuilder, spec: Attribute) -> Any:
    """Return a random value for the attribute ``spec``; the default if no rule below is for it."""
    default, name = spec.default, spec.name
    if isinstance(default, Activation):
        bounded = (Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
        return bounded[m.below(3)] if m.chance(0.5) else Activation.NONE
    if isinstance(default, bool):
        return m.chance(0.5)
    if isinstance(default, Named):
        members = list(type(default))
        return members[m.below(len(members))]
    if isinstance(default, int) and any(word in name for word in ("stride", "dilation", "multiplier")):
        return (1, 1, 2, 3)[m.below(4)]
    if isinstance(default, int) and (name.startswith("filter_") or name == "block_size"):
        return 1 + m.below(3)
    if isinstance(default, DType):
        return (i32, DType.INT64)[m.below(2)]
    if name.endswith("_mask"):
        return 1 << m.below(3) if m.chance(0.3) else 0
    if isinstance(default, int) and "axis" in name:
        return m.below(4) - 2
    return default


def _transposed_windows(m: ModelBuilder, operands: Sequence[Value | None]) -> dict[str, Any]:
    """Return strides and padding for which the output has the shape stored in the first operand.

    Strides from 1 to 3 are tried, with the output size ``size * stride`` for SAME and with
    ``(size - 1) * stride + tap`` for VALID, although TRANSPOSE_CONV takes other sizes, too.
    Return {} if none of these fits, or if an operand is absent.
    """
    output, filter, data = operands[:3]
    if output is None or filter is None or data is None:
        return {}
    sizes, taps, wanted = m.shape(data)[1:3], m.shape(filter)[1:3], tuple(m.array(output)[1:3].tolist())
    for strides in product((1, 2, 3), repeat=2):
        axes = tuple(zip(sizes, strides, taps, strict=False))
        for padding, made in (
            (Padding.SAME, tuple(size * stride for size, stride, _ in axes)),
            (Padding.VALID, tuple((size - 1) * stride + tap for size, stride, tap in axes)),
        ):
            if made == wanted:
                return {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    return {}
