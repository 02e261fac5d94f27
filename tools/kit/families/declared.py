# SPDX-License-Identifier: Apache-2.0
"""Cases of operators without a family of their own: operands and attributes follow from the declaration."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import DType, f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_operators import QUANTIZED_DTYPES, is_parameter, random_operator
from tools.kit.draw import Draw
from tools.kit.kinds import Case
from tools.random_graphs.litert_undefined import undefined

FLOAT_PROBABILITY, QUANTIZED_PROBABILITY = 0.35, 0.8

FIXED_SCALES = {
    code: {DType.INT8: low, DType.UINT8: unsigned, DType.INT16: (1 / 32768, 0)}
    for code, low, unsigned in (
        ("LOGISTIC", (1 / 256, -128), (1 / 256, 0)),
        ("TANH", (1 / 128, 0), (1 / 128, 128)),
        ("L2_NORMALIZATION", (1 / 128, 0), (1 / 128, 128)),
        ("SOFTMAX", (1 / 256, -128), (1 / 256, 0)),
        ("LOG_SOFTMAX", (16 / 256, 127), (16 / 256, 255)),
    )
}
"""Scale and zero point that LiteRT requires of a result, by operator and dtype."""

DEFINED_DTYPES = {
    "FAKE_QUANT": (f32,),
    "MATRIX_DIAG": (f32, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8),
    "MATRIX_SET_DIAG": (f32, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8),
}
"""Dtypes for which LiteRT computes defined results, where it accepts others without an error."""

NOT_COMPARED = frozenset({"HASHTABLE_LOOKUP", "RANGE", "RFFT2D", "SKIP_GRAM"})
"""Operators that need operands which no declaration describes: sorted keys, strings, powers of two."""

COMPARISONS = frozenset({"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})

OPTIMIZED_ORACLE = frozenset({"SUM"})
"""Operators whose reference kernel starts int8 and int16 sums from unset memory."""


def declared_case(draw: Draw, cls: type[Op]) -> Case:
    """Return a case with inputs of one shape and dtype, or of a shape that broadcasts."""
    data = [spec for spec in cls.operands if not is_parameter(spec)] or list(cls.operands)
    dtype = _dtype(draw, cls, data[0].dtypes)
    quantization = None
    if dtype in QUANTIZED_DTYPES and draw.chance(QUANTIZED_PROBABILITY):
        quantization = draw.quantization(dtype)
    shape = draw.shape(1, 4, 6) if draw.chance(0.5) else draw.shape(4, 4, 6)
    broadcast = tuple(1 if draw.chance(0.4) else d for d in shape)
    values: list[Value] = []
    arrays: list[Array] = []
    for size in (shape, shape, broadcast):
        for spec in data:
            own = dtype if not spec.dtypes or dtype in spec.dtypes else spec.dtypes[0]
            values.append(Value(f"x{len(values)}", own, size, None, quantization if own is dtype else None))
            arrays.append(draw.array(own, size))
    builder = ModelBuilder(Graph("main", values), arrays, draw.rng)
    builder.allow_extremes = True
    random_operator(builder, cls)
    builder.remove_rejected()
    graph = builder.graph
    op = graph.ops[-1]
    if undefined(Model([graph])) is not None or not is_defined(op):
        raise Rejected
    graph.inputs = tuple(v for v in values if v in op.inputs)
    graph.outputs = op.results
    for result in op.results:
        fixed = FIXED_SCALES.get(cls.code, {}).get(result.dtype)
        if fixed is not None and result.quantization is not None:
            result.quantization = Quantization(np.array(fixed[:1], np.float32), np.array(fixed[1:]))
    label = dtype.short + (" q" if quantization is not None else "")
    inputs = [builder.arrays[v] for v in graph.inputs]
    return Case(cls.code, label, graph, inputs, optimized=cls.code in OPTIMIZED_ORACLE)


def is_defined(op: Op) -> bool:
    """Return whether LiteRT defines the results of ``op``, which it runs without an error."""
    types = [(v.dtype, v.quantization is not None, v.shape) for v in op.inputs if v is not None]
    dtype, is_quantized, _ = types[0]
    if op.code == "ATAN2":
        return types[0] == types[1]
    if op.code in ("ADD", "SUB", "MUL", "DIV", "SUM", "MEAN"):
        return is_quantized or dtype not in QUANTIZED_DTYPES
    return not ((op.code in COMPARISONS or op.code == "PRELU") and is_quantized and dtype is DType.INT16)


def _dtype(draw: Draw, cls: type[Op], declared: tuple[DType, ...]) -> DType:
    known = DEFINED_DTYPES.get(cls.code, declared or (f32, DType.INT32, DType.INT8, DType.BOOL))
    if f32 in known and draw.chance(FLOAT_PROBABILITY):
        return f32
    return draw.choice([dtype for dtype in known if dtype.numpy is not None])
