# SPDX-License-Identifier: Apache-2.0
"""Single steps on quantized tensors, with equal parameters and with others."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.enums import Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic import activation as act_ops
from circlekit.ops.arithmetic import binary as ew
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant, Quantize
from circlekit.ops.convolution import pool
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement import join
from circlekit.ops.movement.shape import ExpandDims, Reshape, Squeeze, Transpose
from circlekit.ops.movement.slice import Pad, Slice
from circlekit.ops.reduction import reduce
from tools.random_graphs.maker import Maker, Reject
from tools.random_graphs.motifs import padding
from tools.random_graphs.parts import perm_for, some_act

DTYPES = (DType.INT8, DType.UINT8, DType.INT16)


def parameters(m: Maker, dtype: DType) -> Quantization:
    """One scale, and a zero point: 0 for int16, and often for others."""
    zero = 0
    if dtype is not DType.INT16 and m.chance(0.6):
        zero = m.below(200) + (0 if dtype is DType.UINT8 else -100)
    scale = m.number(0.05, 0.1, 1 / 16, 0.5, 1 / 256) / (64 if dtype is DType.INT16 else 1)
    return Quantization(np.array([scale], np.float32), np.array([zero], np.int64))


def pick(m: Maker, *ranks: int, dtypes: tuple[DType, ...] = DTYPES) -> Value:
    """A quantized value of one of the ranks (any by default), made of a float where there is none."""
    found = [
        v
        for v in m.pool
        if v.dtype in dtypes and v.quantization is not None and (not ranks or len(m.shape(v)) in ranks)
    ]
    if found and m.chance(0.85):
        return found[-1 - m.below(min(len(found), 4))]
    return to_integers(m, m.of_rank(*(ranks or (1, 2, 3, 4))), dtypes[m.below(len(dtypes))])


def to_integers(m: Maker, x: Value, dtype: DType, how: Quantization | None = None) -> Value:
    how = how or parameters(m, dtype)
    return m.add(Quantize(x, results=[Value("", dtype, x.shape, None, how)]))


def quantize(m: Maker) -> Value:
    return to_integers(m, m.pick(), DTYPES[m.below(3)])


def dequantize(m: Maker) -> Value:
    return m.add(Dequantize(pick(m)))


def there_and_back(m: Maker) -> Value:
    """DEQUANTIZE and QUANTIZE in turns, with the parameters of before or with others."""
    x = pick(m)
    for _ in range(1 + m.below(2)):
        y = m.add(Dequantize(x), keep=m.chance(0.2))
        same = x.quantization if m.chance(0.5) else None
        dtype = x.dtype if same is not None or m.chance(0.5) else DTYPES[m.below(3)]
        x = to_integers(m, y, dtype, same)
    return x


def requantize(m: Maker) -> Value:
    """From integers to integers: the same parameters, others, another dtype."""
    x = pick(m)
    for _ in range(1 + m.below(2)):
        kind = m.below(3)
        dtype = x.dtype if kind < 2 else DTYPES[m.below(3)]
        x = to_integers(m, x, dtype, x.quantization if kind == 0 else None)
    return x


def fake_quant(m: Maker) -> Value:
    low, high = m.number(-6.0, -1.0, 0.0, -0.7), m.number(6.0, 1.0, 2.55)
    bits = 8 if m.chance(0.8) else 4
    return m.add(FakeQuant(m.pick(), min=low, max=high, num_bits=bits, narrow_range=m.chance(0.2)))


def _like(
    m: Maker, op_type: type[Op], operands: tuple[Value | None, ...], x: Value, **attributes: Any
) -> Value:
    """The operator with the parameters of ``x`` for its result, or, rarely, with others."""
    result = op_type(*operands, **attributes).inferred()[0]
    how = x.quantization if m.chance(0.85) else parameters(m, x.dtype)
    made = Value("", x.dtype, result.shape, None, how)
    return m.add(op_type(*operands, results=[made], **attributes))


def moved(m: Maker) -> Value:
    """Data in another shape or order, a part of it, or with a border."""
    x = pick(m)
    shape = m.shape(x)
    rank, kind = len(shape), m.below(7)
    if kind == 0:
        return _like(m, Reshape, (x, m.ints(m.target(x, [*shape[1:], *shape[:1]]), "shape")), x)
    if kind == 1 and rank > 1:
        return _like(m, Transpose, (x, m.ints(perm_for(m, x), "perm")), x)
    if kind == 2:
        return _like(m, Pad, (x, m.ints(m.random.integers(0, 2, (rank, 2)), "paddings")), x)
    if kind == 3 and x.is_static:
        begin = [m.below(d) if m.chance(0.3) else 0 for d in shape]
        return _like(m, Slice, (x, m.ints(begin), m.ints([-1] * rank)), x)
    if kind == 4 and rank < 4:
        return _like(m, ExpandDims, (x, m.ints(m.below(rank + 1))), x)
    if kind == 5 and 1 in shape:
        return _like(m, Squeeze, (x,), x, squeeze_dims=[shape.index(1)])
    axis = m.below(rank)
    values = (x, x if m.chance(0.3) else pick(m, rank, dtypes=(x.dtype,)))
    return _like(m, join.Concatenation, values, x, axis=axis, act=some_act(m, 0.1))


def arithmetic(m: Maker) -> Value:
    """Sums and products of quantized values, of themselves or with constants."""
    x = pick(m)
    kinds: tuple[type[Op], ...] = (ew.Add, ew.Mul, ew.Sub)
    kind = kinds[m.below(3)]
    if m.chance(0.5):
        how = x.quantization if m.chance(0.4) else parameters(m, x.dtype)
        limits = np.iinfo(str(x.dtype.numpy))
        size = m.shape(x)[-1:] if m.chance(0.7) else ()
        numbers = m.random.integers(max(limits.min, -500), min(limits.max, 500), size)
        y = m.constant(numbers, "q", x.dtype.numpy)
        y.quantization = how
    else:
        y = pick(m, len(m.shape(x)), dtypes=(x.dtype,))
    operands = (x, y) if m.chance(0.6) else (y, x)
    made = Value("", x.dtype, kind(*operands).inferred()[0].shape, None, parameters(m, x.dtype))
    return m.add(kind(*operands, results=[made], act=some_act(m)))


def one_operand(m: Maker) -> Value:
    kinds: tuple[type[Op], ...] = (act_ops.Relu, act_ops.Relu6, act_ops.Relu, act_ops.ReluN1To1)
    x = pick(m)
    if m.chance(0.3):
        made = Value("", x.dtype, x.shape, None, parameters(m, x.dtype))
        return m.add((act_ops.Logistic, act_ops.Tanh)[m.below(2)](x, results=[made]))
    return _like(m, kinds[m.below(4)], (x,), x)


def reduced(m: Maker) -> Value:
    x = pick(m, 2, 3, 4)
    rank = len(m.shape(x))
    axes = m.ints([m.below(rank) - rank * m.below(2)], "axes")
    kinds: tuple[type[Op], ...] = (reduce.Mean, reduce.ReduceMax, reduce.Sum)
    return _like(m, kinds[m.below(3)], (x, axes), x, keep_dims=m.chance(0.5))


def pooled(m: Maker) -> Value:
    x = pick(m, 4)
    kind: type[Op] = pool.MaxPool2D if m.chance(0.5) else pool.AveragePool2D
    size = {n: 1 + m.below(2) for n in ("stride_w", "stride_h", "filter_width", "filter_height")}
    return _like(m, kind, (x,), x, padding=padding(m), act=some_act(m), **size)


def weights(m: Maker, shape: tuple[int, ...], axis: int) -> Value:
    """Symmetric int8 weights, one scale or one for each of the outputs."""
    count = shape[axis] if m.chance(0.6) else 1
    how = Quantization(
        m.random.uniform(0.005, 0.02, count).astype(np.float32),
        np.zeros(count, np.int64),
        axis if count > 1 else 0,
    )
    w = m.constant(m.random.integers(-127, 128, shape), "w", np.int8)
    w.quantization = how
    return w


def layer(m: Maker) -> Value:
    """A convolution or a matrix product, often with Mul, Add or an activation behind it."""
    x = pick(m, 4, 2, dtypes=(DType.INT8,))
    shape = m.shape(x)
    outputs = 1 + m.below(4)
    data = x.quantization
    if data is None:
        raise Reject
    attributes: dict[str, Any] = {"act": some_act(m)}
    if len(shape) == 2:
        kind: type[Op] = FullyConnected
        w = weights(m, (outputs, shape[1]), 0)
    elif m.chance(0.3):
        kind, outputs = DepthwiseConv2D, shape[3]
        w = weights(m, (1, 1, 2, outputs), 3)
        attributes |= {"padding": Padding.SAME, "depth_multiplier": 1}
    else:
        kind = Conv2D
        w = weights(m, (outputs, 1 + m.below(2), 1, shape[3]), 0)
        attributes |= {"padding": padding(m)}
    assert w.quantization is not None
    scales = w.quantization.scale * data.scale[0]
    bias = m.constant(m.random.integers(-500, 500, outputs), "bias", np.int32) if m.chance(0.7) else None
    if bias is not None:
        bias.quantization = Quantization(scales, np.zeros(scales.size, np.int64), 0)
    result = kind(x, w, bias, **attributes).inferred()[0]
    made = Value("", x.dtype, result.shape, None, parameters(m, x.dtype))
    return m.add(kind(x, w, bias, results=[made], **attributes))


def stored_as_integers(m: Maker) -> Value:
    """Float weights that the file holds as integers, before what may read them."""
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 4)
    w = weights(m, (1 + m.below(4), m.shape(x)[-1]), 0)
    y = m.add(Dequantize(w, results=[Value("", f32, w.shape)]), keep=m.chance(0.2))
    return m.add(FullyConnected(x, y, None, keep_num_dims=True, act=some_act(m)))


def whole_numbers(m: Maker) -> Value:
    """Integers without parameters: sums, extremes, comparisons."""
    x = m.pick(dtype=i32)
    kinds: tuple[type[Op], ...] = (ew.Add, ew.Mul, ew.Sub, ew.Maximum, ew.Minimum)
    y = m.constant(m.random.integers(-3, 4, m.shape(x)[-1:]), "k", np.int32)
    return m.add(kinds[m.below(5)](*((x, y) if m.chance(0.5) else (y, x))))
