# SPDX-License-Identifier: Apache-2.0
"""Make random operators from their declarations.

Operands are chosen by name and dtype, attributes by name and default.  If the shape rule or the kernel of an
operator raises an error, the operator is made again with other operands and attributes.

An operand is either data or a parameter: axes, sizes, indices or weights (``is_parameter``).
The argument ``m`` is the builder of the model.  It draws random numbers, has a pool of values that may become
operands, and knows example data for each value.  ``kind`` is the class of an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.declaration import Attribute, Operand
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.enums import Activation, Named, Padding
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.convolution.conv import DepthwiseConv2D
from circlekit.testing.model_builder import ModelBuilder, Rejected

ATTEMPTS = 30
"""The largest number of attempts to make one operator whose operands and attributes fit."""

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
"""The permutations of TRANSPOSE from NCHW to NHWC, and back."""

QUANTIZED_DTYPES = (DType.INT8, DType.UINT8, DType.INT16)
"""The dtypes of random quantized values."""

Shape = tuple[int, ...]


def random_operator(m: ModelBuilder, kind: type[Op] | None = None) -> Value:
    """Append an operator of class ``kind`` (None: of a random class); return its first result.

    Raise Rejected if none of ATTEMPTS operators is valid.
    """
    if kind is None:
        names = sorted(code for code, cls in REGISTRY.items() if cls.operands and cls.pure)
        kind = REGISTRY[names[m.below(len(names))]]
    for _ in range(ATTEMPTS):
        with suppress(Rejected, CirclekitError, ValueError, IndexError, TypeError, ArithmeticError):
            return m.add(make_operator(m, kind))
    raise Rejected


def make_operator(m: ModelBuilder, kind: type[Op]) -> Op:
    """Return an operator with random operands and attributes; their combination may be invalid."""
    data: Value | None = None  # the first operand that is data; the others are chosen to fit it
    chosen: dict[str, Value | None] = {}
    order = sorted(kind.operands, key=lambda spec: (is_parameter(spec), spec.name == "output_shape"))
    for spec in order:
        if spec.optional and m.chance(0.5):
            chosen[spec.name] = None
            continue
        if data is None and not is_parameter(spec):
            data = m.pick_any(lambda v, spec=spec: not spec.dtypes or v.dtype in spec.dtypes)  # type: ignore[misc]
            chosen[spec.name] = data
            continue
        chosen[spec.name] = _operand(m, kind, spec, data, chosen)
    operands = [chosen[spec.name] for spec in kind.operands]
    if kind.operands[-1].variadic:
        operands += [operands[-1]] * m.below(3)  # the same value up to two more times
    second = kind.operands[min(1, len(kind.operands) - 1)]
    if len(operands) > 1 and not is_parameter(second) and m.chance(0.4):
        operands[:2] = [operands[1], operands[0]]  # the first operand may then be a constant
    while operands and operands[-1] is None:
        operands.pop()
    attributes = derived_attributes(m, kind, operands)
    for item in kind.attributes:
        if item.name not in attributes and not item.is_graph:  # graphs to call are not made here
            attributes[item.name] = random_attribute(m, item) if m.chance(0.5) else item.default
    if data is not None and kind.code == "QUANTIZE":
        dtype = QUANTIZED_DTYPES[m.below(3)] if data.quantization is None or m.chance(0.3) else data.dtype
        attributes["results"] = [Value("", dtype, data.shape, None, _result_quantization(m, data, dtype))]
    elif data is not None and data.quantization is not None and kind.code != "DEQUANTIZE":
        # inferred types have no quantization, so the results are declared
        inferred = kind(*operands, **attributes).inferred()
        attributes["results"] = [
            Value("", t.dtype, t.shape, None, _result_quantization(m, data, t.dtype)) for t in inferred
        ]
    return kind(*operands, **attributes)


def is_parameter(spec: Operand) -> bool:
    """Return whether the operand ``spec`` holds axes, sizes, indices or weights, not data."""
    if spec.name in PARAMETERS or spec.name in ("filter", "weights", "weight", "bias", "gamma", "beta"):
        return True
    return bool(spec.dtypes) and all(d in (i32, DType.INT64) for d in spec.dtypes)


def _operand(
    m: ModelBuilder, kind: type[Op], spec: Operand, data: Value | None, chosen: Mapping[str, Value | None]
) -> Value:
    """Return an operand that fits ``data``: a value of the builder's pool, or a constant.

    ``data``, ``chosen``: see ``proposal``.  Raise Rejected if no value of the pool fits.
    """
    dtype = f32 if not spec.dtypes or f32 in spec.dtypes else spec.dtypes[0]
    if spec.name in PARAMETERS and i32 in spec.dtypes:
        dtype = i32
    elif data is not None and (not spec.dtypes or data.dtype in spec.dtypes):
        dtype = data.dtype
    if not is_parameter(spec) and m.chance(0.5):
        shape = m.shape(data) if data is not None else ()
        return m.pick_any(lambda v: v.dtype is dtype and (m.shape(v) == shape or m.chance(0.1)))
    value = m.constant(proposal(m, kind, spec.name, data, chosen, dtype), spec.name, dtype.numpy)
    if data is not None and data.quantization is not None and dtype is data.dtype:
        value.quantization = data.quantization if m.chance(0.5) else random_quantization(m, dtype)
    return value


def _result_quantization(m: ModelBuilder, data: Value, dtype: DType) -> Quantization | None:
    """Return a quantization for a result of ``dtype``.

    - If ``data`` is quantized with this dtype, return its quantization in most cases.
    - Else return a random quantization for a dtype in QUANTIZED_DTYPES, None for any other dtype.
    """
    if dtype is data.dtype and data.quantization is not None and m.chance(0.8):
        return data.quantization
    return random_quantization(m, dtype) if dtype in QUANTIZED_DTYPES else None


def random_quantization(m: ModelBuilder, dtype: DType) -> Quantization:
    """Return a random quantization with one scale; the zero point is 0 for int16, and often for others."""
    zero_point = 0
    if dtype is not DType.INT16 and m.chance(0.6):
        zero_point = m.below(200) + (0 if dtype is DType.UINT8 else -100)
    scale = m.number(0.05, 0.1, 1 / 16, 0.5, 1 / 256) / (64 if dtype is DType.INT16 else 1)
    return Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))


# -- attributes --------------------------------------------------------------------------------


def derived_attributes(m: ModelBuilder, kind: type[Op], operands: Sequence[Value | None]) -> dict[str, Any]:
    """Return the attributes that must fit the operands, and those whose default would be useless."""
    names = {spec.name for spec in kind.attributes}
    found: dict[str, Any] = {}
    if "values_count" in names:
        found["values_count"] = len(operands)
    if "num_splits" in names:
        found["num_splits"] = 1 + m.below(3)
    if "num" in names and operands and operands[0] is not None:
        shape = m.shape(operands[0])
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


# -- operands ----------------------------------------------------------------------------------


def proposal(
    m: ModelBuilder,
    kind: type[Op],
    name: str,
    data: Value | None,
    chosen: Mapping[str, Value | None],
    dtype: DType,
) -> Any:
    """Return plausible elements for the constant operand ``name`` of ``kind``: array, list or number.

    ``data``: the first operand that is data (see ``is_parameter``), None if there is none yet.
    ``chosen``: the operands that were chosen so far, by name.
    ``dtype``: the dtype of the constant; the caller converts the elements to it.
    """
    shape = m.shape(data) if data is not None else (2, 3, 4, 4)[m.below(3) :]
    if name == "output_shape" and len(shape) == 4:
        return _transposed_size(m, shape, chosen)
    if name == "size" and len(shape) == 4 and kind.code.startswith("RESIZE"):
        return [1 + m.below(8), 1 + m.below(8)]
    channels = shape[-1] if shape else 1
    blocks = chosen.get("block_shape")
    if name in ("crops", "paddings") and blocks is not None:
        return m.random.integers(0, 3, (*m.shape(blocks), 2))
    if name in PARAMETERS and not dtype.is_float:
        return PARAMETERS[name](m, shape)
    if name == "filter":
        height, width = 1 + m.below(3), 1 + m.below(3)
        is_depthwise = issubclass(kind, DepthwiseConv2D)
        # rarely a grouped convolution: each filter then reads half of the channels
        groups = 2 if kind.code == "CONV_2D" and channels % 2 == 0 and m.chance(0.1) else 1
        outer, inner = groups * (1 + m.below(4)), channels // groups
        if is_depthwise:
            outer, inner = 1, channels * (1 + m.below(2))
        return _numbers(m, dtype, (outer, height, width, inner), 0.5)
    if name in ("weights", "weight"):
        return _numbers(m, dtype, (1 + m.below(4), channels), 0.5)
    if name in ("bias", "gamma", "beta"):
        weights = [v for v in chosen.values() if v is not None and v.is_const and v.rank in (2, 4)]
        axis = 3 if issubclass(kind, DepthwiseConv2D) else 0  # the axis of the weights with the outputs
        count = m.shape(weights[-1])[axis] if weights and name == "bias" else channels
        return _numbers(m, dtype, (count,), 1.0)
    broadcast = broadcast_shape(m, shape)
    if not dtype.is_float:
        return m.random.integers(0 if dtype in (boolean, DType.UINT8) else -3, 4, broadcast)
    if m.chance(0.15):
        return np.full(broadcast, m.number(0.0, 1.0, -0.0, -1.0, 0.5, 3.0, 6.0, 1.0000001))
    if m.allow_extremes and m.chance(0.3):
        extremes = np.array([np.nan, np.inf, -np.inf, 1e-42, 3e38, 65504.0])
        return np.where(m.random.random(broadcast) < 0.3, m.random.choice(extremes, broadcast), 1.0)
    return m.random.uniform(0.2, 2, broadcast) * m.random.choice([1.0, -1.0, 1.0], broadcast)


def _numbers(m: ModelBuilder, dtype: DType, shape: Shape, spread: float) -> Any:
    """Return random integers from -100 to 100, or Gaussian floats with the standard deviation ``spread``."""
    return m.random.normal(0, spread, shape) if dtype.is_float else m.random.integers(-100, 101, shape)


def broadcast_shape(m: ModelBuilder, shape: Sequence[int]) -> Shape:
    """Return a random shape that broadcasts with ``shape``: most often [channels], one element per channel.

    Rarely, broadcasting the two gives a shape larger than ``shape``.
    """
    rank, last = len(shape), tuple(shape[-1:])
    case = m.below(10)
    if case < 4:
        return last
    if case < 6:
        return (1,) * (rank - 1) + last
    if case == 6:
        return (1,) * m.below(rank + 1)
    if case == 7:
        return tuple(shape[m.below(rank + 1) :])
    if case == 8:
        return tuple(d if m.chance(0.5) else 1 for d in shape)
    return (2, *shape) if m.chance(0.3) else tuple(2 if d == 1 and m.chance(0.5) else 1 for d in shape)


def _transposed_size(m: ModelBuilder, shape: Shape, chosen: Mapping[str, Value | None]) -> Any:
    """Return an output shape of a transposed convolution, for random strides 1 to 3 and a random padding.

    ``shape``: that of the data.  ``chosen``: has the filter, see ``proposal``.
    """
    filters = [v.static_shape for v in chosen.values() if v is not None and v.is_const and v.rank == 4]
    outputs, height, width, _ = filters[-1] if filters else (1, 1, 1, 1)
    stride_h, stride_w = 1 + m.below(3), 1 + m.below(3)
    if m.chance(0.5):  # padding SAME
        return shape[0], shape[1] * stride_h, shape[2] * stride_w, outputs
    return shape[0], (shape[1] - 1) * stride_h + height, (shape[2] - 1) * stride_w + width, outputs


def _transposed_windows(m: ModelBuilder, operands: Sequence[Value | None]) -> dict[str, Any]:
    """Return strides and padding for which the output has the shape stored in the first operand.

    Return {} if no strides up to 3 give this shape.
    """
    output, filter, data = operands[:3]
    if output is None or filter is None or data is None:
        return {}
    sizes, taps, wanted = m.shape(data)[1:3], m.shape(filter)[1:3], tuple(m.array(output)[1:3].tolist())
    for strides in product((1, 2, 3), repeat=2):
        pairs = tuple(zip(sizes, strides, taps, strict=False))
        for padding, made in (
            (Padding.SAME, tuple(size * stride for size, stride, _ in pairs)),
            (Padding.VALID, tuple((size - 1) * stride + tap for size, stride, tap in pairs)),
        ):
            if made == wanted:
                return {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    return {}


def _permutation(m: ModelBuilder, shape: Shape) -> Any:
    """Return a permutation of axes, for rank 4 mostly NHWC or NCHW."""
    if len(shape) == 4 and m.chance(0.7):
        return NHWC if m.chance(0.5) else NCHW
    return m.random.permutation(len(shape))


def _new_shape(m: ModelBuilder, shape: Shape) -> Any:
    """Return a shape with as many elements as ``shape``, in which one dimension may be -1.

    Dimensions are merged, split, inserted, dropped or reordered.
    """
    dims = [int(d) for d in shape]
    case = m.below(6)
    if case == 0:
        return m.random.permutation(dims)
    if case == 1 and len(dims) > 1:
        at = m.below(len(dims) - 1)
        dims[at : at + 2] = [dims[at] * dims[at + 1]]
    elif case == 2:
        dims.insert(m.below(len(dims) + 1), 1)
    elif case == 3:
        return [d for d in dims if d != 1]
    elif case == 4 and dims:
        at = m.below(len(dims))
        divisors = [d for d in range(2, dims[at]) if dims[at] % d == 0]
        if divisors:
            divisor = divisors[m.below(len(divisors))]
            dims[at : at + 1] = [divisor, dims[at] // divisor]
    if dims and m.chance(0.3):
        dims[m.below(len(dims))] = -1
    return dims


def _axes(m: ModelBuilder, shape: Shape) -> Any:
    """Return one axis or a list of axes; axes may be negative."""
    rank = max(len(shape), 1)
    case = m.below(4)
    if case == 0:
        return _axis(m, shape)
    if case == 1 and rank == 4:
        return [1, 2] if m.chance(0.5) else [2, 3]
    if case == 2:
        return [rank - 1 - rank * m.below(2)]  # the last axis, as rank - 1 or as -1
    return np.sort(m.random.permutation(rank)[: 1 + m.below(rank)])


def _axis(m: ModelBuilder, shape: Shape) -> Any:
    """Return one axis, as a number or rarely as a list; the axis may be negative."""
    rank = max(len(shape), 1)
    axis = m.below(rank) - rank * m.below(2)
    return [axis] if m.chance(0.2) else axis


def _blocks(m: ModelBuilder, shape: Shape) -> Any:
    """Return a block size for each axis between the first and the last, sometimes for fewer or more axes."""
    count = 1 + m.below(max(len(shape) - 1, 1)) if m.chance(0.2) else max(len(shape) - 2, 1)
    return [1 + m.below(2) for _ in range(count)]


def _strides(m: ModelBuilder, shape: Shape) -> Any:
    """Return a stride for each axis: mostly 1, sometimes 2, rarely -1."""

    def stride() -> int:
        if m.chance(0.2):
            return 1 + m.below(2)
        return -1 if m.chance(0.05) else 1

    return [stride() for _ in shape]


def _paddings(m: ModelBuilder, shape: Shape) -> Any:
    """Return paddings [axes, 2] of 0 and 1, often all 0; for rank 4, sometimes of two axes only."""
    count = 2 if len(shape) == 4 and m.chance(0.3) else len(shape)
    return m.random.integers(0, 2, (count, 2)) * m.below(2)


def _indices(m: ModelBuilder, shape: Shape) -> Any:
    """Return an array of rank 0 to 3 with indices that are valid for every axis of ``shape``."""
    size, rank = min(shape, default=1), m.number(0, 0, 1, 1, 1, 1, 2, 3)
    return m.random.integers(0, size, [1 + m.below(3) for _ in range(int(rank))])


PARAMETERS: dict[str, Callable[[ModelBuilder, Shape], Any]] = {
    "perm": _permutation, "shape": _new_shape, "new_shape": _new_shape, "axis": _axes, "dim": _axis,
    "dimension": _axis, "split_dim": _axis, "strides": _strides, "paddings": _paddings, "indices": _indices,
    "begin": lambda m, shape: [m.below(d) if m.chance(0.2) else 0 for d in shape],
    "size": lambda m, shape: [-1 if m.chance(0.4) else d for d in shape],
    "end": lambda m, shape: list(shape),
    "block_shape": _blocks,
    "multiples": lambda m, shape: [1 + (m.below(2) if m.chance(0.2) else 0) for _ in shape],
    "dims": lambda m, shape: list(shape) or [1 + m.below(3) for _ in range(m.below(8))],
    "depth": lambda m, shape: 1 + m.below(4),
    "seq_lengths": lambda m, shape: [1 + m.below(min(shape)) for _ in range(shape[0])],
    **dict.fromkeys(
        ("dilations", "window_shape", "window_strides", "window_dilations"),
        lambda m, shape: [1 + m.below(2) for _ in shape],
    ),
    "start_indices": lambda m, shape: [m.below(2) for _ in shape],
}  # fmt: skip
"""{name of an operand with axes, sizes or indices: a function that returns random elements for it}.

The function gets the builder and the shape of the data.
"""
