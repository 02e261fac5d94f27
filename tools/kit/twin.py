# SPDX-License-Identifier: Apache-2.0
"""The float counterpart of a quantized operator, which gives the range of its results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value


def real_ranges(op: Op, samples: Mapping[Value, Array]) -> list[tuple[float, float] | None] | None:
    """Return the range of each result in real numbers; None where the operator has no float form."""
    arrays = [None if v is None else _real(v, samples) for v in op.inputs]
    twins = [None if a is None else Value.constant(f"x{i}", a) for i, a in enumerate(arrays)]
    try:
        with np.errstate(all="ignore"):
            twin = type(op)(*twins, **op.attribute_values)
            out = twin.kernel(*arrays, *([None] * (len(op.operands) - len(arrays))))
    except (CirclekitError, ValueError, IndexError, TypeError):
        return None
    return [_range(np.asarray(a)) for a in (out if isinstance(out, tuple | list) else (out,))]


def like(value: Value, dtype: DType | None = None, data: Array | None = None) -> Value:
    """Return a copy of ``value``, or one with other data."""
    data = value.data if data is None else data
    return Value(value.name, dtype or value.dtype, value.shape, data, value.quantization)


def magnitude_before_activation(op: Op, samples: Mapping[Value, Array]) -> float:
    """Return the largest magnitude of the results of float ``op`` before its fused activation."""
    given = op.attribute_values | {"act": Activation.NONE}
    arrays = [None if v is None else samples[v] if v in samples else v.array() for v in op.inputs]
    try:
        with np.errstate(all="ignore"):
            twin = type(op)(*(None if v is None else like(v) for v in op.inputs), **given)
            out = np.asarray(twin.kernel(*arrays, *([None] * (len(op.operands) - len(arrays)))))
    except (CirclekitError, ValueError, IndexError, TypeError):
        return 0.0
    return float(np.abs(out[np.isfinite(out)]).max(initial=0.0)) if out.dtype.kind == "f" else 0.0


def _real(value: Value, samples: Mapping[Value, Array]) -> Array:
    array = samples[value] if value in samples else value.array()
    quantization = value.quantization
    if quantization is None or not quantization.scale.size:
        return array
    shape = [1] * array.ndim
    if quantization.is_per_channel:
        shape[quantization.quantized_dimension] = -1
    scale = quantization.scale.astype(np.float64).reshape(shape)
    return np.asarray((array - quantization.zero_point.reshape(shape)) * scale, np.float32)


def _range(array: Array) -> tuple[float, float] | None:
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    if not finite.size or array.dtype.kind not in "fiu":
        return None
    return min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)
