# SPDX-License-Identifier: Apache-2.0
"""Tables of all integers of 8 bits, and of all pairs, against what they are tables of."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.interp.interpreter import run
from circlekit.ir.dtypes import DType, i8, u8
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY
from circlekit.ir.tape import NOW
from circlekit.ir.value import Array
from circlekit.ops.numerics.lookup import MANY, every, look_up, look_up_pairs, table_of
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("result", [np.int8, np.uint8, np.bool_, np.float32, np.int16])
@pytest.mark.parametrize("shape", [(5,), (0, 3), (MANY + 3,), (3, 41, 61), (70_000,)])
@pytest.mark.parametrize("strided", [False, True])
def test_look_up(dtype: type, result: type, shape: tuple[int, ...], strided: bool) -> None:
    rng = generator("look_up", shape)
    table: Array = rng.integers(0, 2 if result is np.bool_ else 120, 256).astype(result)
    whole: Array = rng.integers(0, 256, (*shape[:-1], 2 * shape[-1])).astype(np.uint8).view(dtype)
    x = whole[..., ::2] if strided else np.ascontiguousarray(whole[..., ::2])
    out: Array = np.empty(shape, result)
    look_up(NOW, table, x, out)
    np.testing.assert_array_equal(out, table[x.view(np.uint8) if not strided else x.astype(np.uint8)])


SHAPES = [
    ((70, 300), (70, 300)),
    ((3, 5, 700), (700,)),
    ((1, 9), (200, 1)),
    ((2, 3, 1, 5), (3, 40, 1)),
    ((0, 3), (3,)),
    ((9,), (9,)),
]


def halved(x: Array, y: Array) -> Array:
    """Something that does not commute, and whose sign matters."""
    return ((3 * x.astype(np.int32) - y) >> 2).astype(np.int16)


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_look_up_pairs(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = generator("pairs", left, right)
    x, y = draw(rng, i8, left), draw(rng, u8, right)
    table = table_of(halved, every(x.dtype), every(y.dtype))
    out = np.empty(np.broadcast_shapes(left, right), np.int16)
    look_up_pairs(NOW, table, x, y, out)
    np.testing.assert_array_equal(out, halved(x, y))


@pytest.mark.parametrize("code", ["ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "PRELU", "LESS"])
@pytest.mark.parametrize("constant", ["none", "left", "right"])
@pytest.mark.parametrize("channels", [1, 7, 300])
@pytest.mark.parametrize("dtype", [i8, u8])
def test_recorded_operators_are_those_that_are_not(
    code: str, constant: str, channels: int, dtype: DType
) -> None:
    """With tables, and without: the kernels are held against LiteRT elsewhere."""
    if (code, dtype) == ("SQUARED_DIFFERENCE", u8):
        pytest.skip("LiteRT has no such form")
    rng = generator(code, constant, channels, dtype.short)
    shapes = {"none": ((9, 31, channels), (9, 31, channels)), "left": ((channels,), (9, 310, channels))}
    left, right = shapes.get(constant, ((9, 310, channels), (channels,)))
    x, y = draw(rng, dtype, left), draw(rng, dtype, right)
    scales, zeros = [draw_scale(rng, 0.01, 0.9) for _ in range(3)], [draw_zero(rng, dtype) for _ in range(3)]
    values = [
        quantized(dtype, a.shape, scale, zero, a if constant == side else None)
        for a, scale, zero, side in zip((x, y), scales, zeros, ("left", "right"), strict=False)
    ]
    for value, name in zip(values, "xy", strict=True):
        value.name = name
    inputs = [a for a, v in zip((x, y), values, strict=True) if v.data is None]
    result = quantized(
        DType.BOOL if code == "LESS" else dtype,
        (9, 31 if constant == "none" else 310, channels),
        scales[2],
        zeros[2],
    )
    graph = Graph("main", [v for v in values if v.data is None])
    graph.outputs = (graph.append(REGISTRY[code](*values, results=[result])).output,)
    model = Model([graph], format="tflite")
    wanted = run(model, inputs)[0]
    interpreter = circlekit.Interpreter(model)
    for _ in range(2):
        np.testing.assert_array_equal(interpreter.run(inputs)[0], wanted)
