# SPDX-License-Identifier: Apache-2.0
"""Axes along which slices of the operands give the slice of the result; checked by running kernels."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.unary import Neg
from circlekit.passes.slices.kept_axes import needed_for, without_axis
from circlekit.passes.slices.part import Part, part_of

CASES = {
    "Add(%x, %row)": "0123",
    "Add(%one, %x)": "0123",
    "Abs(%x)": "0123",
    "PRelu(%x, %slopes)": "0123",
    "Maximum(%x, 1.0)": "0123",
    "Sum(%x, [1, 3]) {keep_dims: true}": "02",
    "Sum(%x, [1, 3])": "01",
    "Mean(%x, [-2])": "012",
    "Softmax(%x)": "012",
    "LogSoftmax(%x)": "012",
    "L2Normalization(%x)": "012",
    "Transpose(%x, [2, 0, 3, 1])": "0123",
    "Concatenation(%x, %x) {axis: 2}": "0123",
    "Concatenation(%x, %x) {axis: -1}": "0123",
    "MaxPool2D(%x) {filter_height: 2, filter_width: 1}": "03",
    "AveragePool2D(%x) {filter_height: 2, filter_width: 1}": "03",
    "Pad(%x, [[0, 0], [1, 0], [0, 0], [0, 2]])": "02",
    "FullyConnected(%x, %rows, %bias) {keep_num_dims: true}": "0123",
    "FullyConnected(%flat, %rows, %bias)": "01",
    "FullyConnected(%flat, %narrow, none)": "1",
    "FullyConnected(%flat, %wide, none)": "1",
    "Conv2D(%x, %filter, %bias)": "03",
    "DepthwiseConv2D(%x, %channels, none) {depth_multiplier: 1}": "0",
    "BatchMatMul(%x, %y)": "0123",
    "BatchMatMul(%x, %z) {adj_x: true}": "0123",
    "BatchMatMul(%x, %t) {adj_y: true}": "0123",
    "BatchMatMul(%x, %m)": "0123",
    "SelectV2(%c, %x, %row)": "0123",
    "Select(%chosen, %x, %u)": "0123",
    "Select([true], %x, %u)": "0123",
    "Select(%chosen, %flat, %flat2)": "01",
    "Cumsum(%x, 1)": "",
    "BatchMatMul(%x, %hybrid)": "",
}
"""{operator: the axes along which a slice of the result needs only slices of the operands}."""

TEXT = """
graph main(%x: f32[3,4,5,6], %row: f32[6], %one: f32[1,1,5,1], %flat: f32[3,6], %y: f32[3,4,6,7],
           %z: f32[3,4,5,7], %t: f32[3,4,7,6], %m: f32[6,7], %c: bool[3,1,1,6],
           %chosen: bool[3], %u: f32[3,4,5,6], %flat2: f32[3,6]) -> %r {{
  %slopes = const f32[1,1,6] gaussian(0, 1)
  %rows = const f32[2,6] gaussian(0, 1)
  %narrow = const f32[2,3] gaussian(0, 1)
  %wide = const f32[2,9] gaussian(0, 1)
  %bias = const f32[2] gaussian(0, 1)
  %filter = const f32[2,2,2,6] gaussian(0, 1)
  %channels = const f32[1,2,2,6] gaussian(0, 1)
  %hybrid = const i8[3,4,6,2] quant(scale: 0.5) constant(1)
  %r = {line}
}}
"""


def random_array(value: Value, rng: np.random.Generator) -> np.ndarray:
    """Return normally distributed floats, or random bools, for ``value``."""
    array = rng.normal(size=value.static_shape)
    return array > 0 if value.dtype is DType.BOOL else array.astype(value.dtype.numpy)


def sliced(op: Op, needed: dict[int, tuple[int, range]], arrays: list[np.ndarray | None]) -> np.ndarray:
    """Return the result of ``op`` for slices of its operands.

    ``needed``: {index of an operand: (its axis, indices along this axis)}.  ``arrays``: the whole operands.
    """
    cut = [
        a.take(list(needed[i][1]), needed[i][0]) if a is not None and i in needed else a
        for i, a in enumerate(arrays)
    ]
    operands = [
        None if v is None or a is None else Value(v.name, v.dtype, a.shape, a if v.is_const else None)
        for v, a in zip(op.inputs, cut, strict=True)
    ]
    copy = type(op)(*operands, **op.attribute_values)
    return np.asarray(evaluate(copy, cut)[0])


@pytest.mark.parametrize("line", CASES)
def test_slices_of_operands_give_the_slice_of_the_result(line: str) -> None:
    (op,) = circlekit.parse(TEXT.format(line=line)).main
    rng = np.random.default_rng(1)
    arrays = [
        None if v is None
        else v.array() if v.is_const
        else random_array(v, rng)
        for v in op.inputs
    ]  # fmt: skip
    whole = np.asarray(evaluate(op, arrays)[0])
    kept = ""
    for axis, dim in enumerate(whole.shape):
        taken = range(1, dim)
        needed = needed_for(op, axis, taken)
        if needed is not None:
            kept += str(axis)
            expected = whole.take(list(taken), axis)
            np.testing.assert_allclose(sliced(op, needed, arrays), expected, rtol=1e-5, atol=1e-6)
    assert kept == CASES[line]


@pytest.mark.parametrize("known", ["x", "y"])
def test_products_of_unknown_rank_keep_no_axis(known: str) -> None:
    (op,) = circlekit.parse(
        "graph main(%x: f32[2,3,4], %y: f32[2,4,5]) -> %r { %r = BatchMatMul(%x, %y) }"
    ).main
    for value in op.inputs:
        assert value is not None
        value.shape = value.shape if value.name == known else None
    assert [needed_for(op, axis, range(1)) for axis in range(3)] == [None] * 3


@pytest.mark.parametrize(
    ("channels", "taken", "dtype", "is_kept"),
    [
        ("32", 16, "i8", True),
        ("20", 16, "i8", False),
        ("32", 12, "i8", False),
        ("?", 16, "i8", False),
        ("20", 12, "f32", True),
    ],
)
def test_quantized_means_keep_channels_in_full_groups(
    channels: str, taken: int, dtype: str, is_kept: bool
) -> None:
    """LiteRT's optimized kernel rounds the channels after the last full group of 16 differently."""
    scale = "quant(scale: 0.5, zero_point: 0)" if dtype == "i8" else ""
    (op,) = circlekit.parse(f"""
    graph main(%x: {dtype}[1,4,4,{channels}] {scale}) -> %r {{
      %r = Mean(%x, [1, 2]) {{keep_dims: true}} : {dtype}[1,1,1,{channels}] {scale}
    }}""").main
    assert (needed_for(op, 3, range(taken)) is not None) is is_kept
    assert needed_for(op, 0, range(1)) is not None


def test_an_operand_of_unknown_rank_cannot_be_sliced() -> None:
    (op,) = circlekit.parse("graph main(%x: f32[*]) -> %r { %r = Transpose(%x, [1, 0]) : f32[2,3] }").main
    assert [needed_for(op, axis, range(1)) for axis in range(2)] == [None, None]


DROPPED = {
    "Add(%x, %row)": "0123",
    "Add(%one, %x)": "0123",
    "Abs(%x)": "0123",
    "Maximum(%x, 1.0)": "0123",
    "SelectV2(%c, %x, %row)": "0123",
    "Select(%chosen, %x, %u)": "0123",
    "Select([true], %x, %u)": "0123",
    "Select(%chosen, %flat, %flat2)": "01",
    "PRelu(%x, %slopes)": "",
    "Softmax(%x)": "012",
    "LogSoftmax(%x)": "012",
    "L2Normalization(%x)": "012",
    "FullyConnected(%x, %rows, %bias) {keep_num_dims: true}": "012",
    "FullyConnected(%flat, %rows, %bias)": "",
    "FullyConnected(%flat, %rows, %bias) {keep_num_dims: true}": "",
    "Concatenation(%x, %x) {axis: 2}": "",
    "Transpose(%x, [2, 0, 3, 1])": "",
    "BatchMatMul(%x, %y)": "",
    "Conv2D(%x, %filter, %bias)": "",
    "MaxPool2D(%x) {filter_height: 2, filter_width: 1}": "",
}
"""{operator: the axes that can be dropped from its operands and its result}."""


@pytest.mark.parametrize("line", DROPPED)
def test_operators_work_on_operands_without_an_axis(line: str) -> None:
    """Operands of one index along an axis, without this axis, give the part of the result at this index."""
    (op,) = circlekit.parse(TEXT.format(line=line)).main
    rng = np.random.default_rng(1)
    arrays = [v.array() if v.is_const else random_array(v, rng) for v in op.inputs if v is not None]
    whole = np.asarray(evaluate(op, arrays)[0])
    dropped = ""
    for axis in range(whole.ndim):
        needed, without = needed_for(op, axis, range(1, 2)), without_axis(op, axis)
        if without is None or needed is None:
            continue
        dropped += str(axis)
        assert needed.keys() <= without.keys()
        cut = [
            a if i not in without else a.take(needed[i][1][0] if i in needed else 0, without[i])
            for i, a in enumerate(arrays)
        ]
        operands = [
            Value("", v.dtype, a.shape, a if v.is_const else None)
            for v, a in zip(op.inputs, cut, strict=False)
            if v
        ]
        found = np.asarray(evaluate(type(op)(*operands, **op.attribute_values), cut)[0])
        np.testing.assert_allclose(found, whole.take(1, axis), rtol=1e-5)
    assert dropped == DROPPED[line]


def test_shapes_and_bytes_of_parts() -> None:
    """3 and 5 elements of INT4 take 2 and 3 bytes; a string counts as 1 byte; 4 of FLOAT16 take 8 bytes."""
    value = Value("x", DType.INT4, (2, None, 5))
    assert part_of(value, {0: range(2), 2: range(5)}, frozenset()) == Part(value, ())
    part = part_of(value, {2: range(1, 4), 0: range(1, 2)}, frozenset())
    assert part.ranges == ((0, range(1, 2)), (2, range(1, 4)))
    assert (part.shape, part.size, part.bytes, part.is_new) == ((1, None, 3), 3, 2, True)
    dropped = part_of(value, {0: range(1, 2)}, frozenset({0}))
    assert (dropped.shape, dropped.size, dropped.bytes) == ((None, 5), 5, 3)
    assert Part(value, (), frozenset({0})).is_new
    assert not Part(value, ()).is_new
    assert Part(Value("t", DType.STRING, (3, 2)), ((0, range(2)),)).bytes == 4
    assert Part(Value("f", DType.FLOAT16, (3, 2)), ((0, range(2)),)).bytes == 8


@pytest.mark.parametrize("change", ["none", "variable", "details", "channels", "use"])
def test_constants_whose_parts_can_be_taken(change: str) -> None:
    text = """graph main(%x: i8[3,2] quant(scale: 0.5)) -> %y {
      %k = const i8[3,2] quant(scale: 0.5) [[1, 2], [3, 4], [5, 6]]
      %y = Add(%x, %k) : i8[3,2] quant(scale: 0.5)
    }"""
    graph = circlekit.parse(text).main
    value = graph.ops[0].inputs[1]
    assert value is not None
    if change == "variable":
        value.is_variable = True
    elif change == "details":
        value.quantization = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64), details={"a": 1})
    elif change == "channels":
        value.quantization = Quantization(np.ones(3, np.float32), np.zeros(3, np.int64))
    elif change == "use":
        graph.append(Neg(value))
    for dropped in (frozenset[int](), frozenset({1})):
        part = part_of(value, {0: range(1, 3), 1: range(1, 2)}, dropped)
        assert part.has_data is (change == "none" or (change == "channels" and not dropped))
        if change == "none":
            expected = np.array([[4], [6]], np.int8)
            np.testing.assert_array_equal(
                part.constant(graph).array(), expected[:, 0] if dropped else expected
            )
