# SPDX-License-Identifier: Apache-2.0
"""Every dtype that LiteRT moves, looks up and resizes; float16 to the last bit; strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.interp import run
from circlekit.ir.dtypes import DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Cast
from circlekit.ops.constant_operands import encode_strings, packed
from circlekit.ops.movement.gather import EmbeddingLookup
from tests.ops.litert import assert_close, check, const, graph_of, kernel_results, run_litert, var
from tests.ops.quantized import draw, generator, per_tensor

ALL = [f32, f16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean, DType.COMPLEX64]
COMMON = [f32, i8, u8, i16, i32, i64]
NARROW = (i8, u8, i16)


def ints(*numbers: int) -> Value:
    return const(np.array(numbers, np.int32))


PADS = const([[1, 0], [2, 1]], np.int32)
CASES: dict[str, tuple[list[DType], list[tuple[int, ...]], Callable[..., Op]]] = {
    "RESHAPE": (ALL, [(2, 6)], lambda op, x: op(x, ints(3, 4))),
    "TRANSPOSE": (ALL, [(2, 3, 4)], lambda op, x: op(x, ints(2, 0, 1))),
    "SLICE": (ALL, [(4, 5)], lambda op, x: op(x, ints(1, 2), ints(2, -1))),
    "STRIDED_SLICE": (ALL, [(4, 5)], lambda op, x: op(x, ints(3, 1), ints(0, 5), ints(-1, 2))),
    "TILE": (ALL, [(2, 3)], lambda op, x: op(x, ints(2, 2))),
    "BROADCAST_TO": (ALL, [(1, 3)], lambda op, x: op(x, ints(2, 2, 3))),
    "SELECT_V2": (ALL, [(2, 3), (1, 3)], lambda op, x, y: op(const([True, False, True]), x, y)),
    "DYNAMIC_UPDATE_SLICE": (ALL, [(4, 5), (2, 2)], lambda op, x, y: op(x, y, ints(1, 4))),
    "SPACE_TO_BATCH_ND": (
        ALL,
        [(1, 4, 3, 1)],
        lambda op, x: op(x, ints(2, 2), const([[0, 0], [1, 0]], "i4")),
    ),
    "MIRROR_PAD": (ALL, [(3, 4)], lambda op, x: op(x, PADS)),
    "GATHER": ([*COMMON, f16, boolean], [(4, 5)], lambda op, x: op(x, ints(3, 0, 0), axis=1)),
    "GATHER_ND": ([*COMMON, boolean], [(4, 5)], lambda op, x: op(x, const([[1, 2], [3, 4]], np.int32))),
    "SCATTER_ND": (
        [f32, i8, u8, i32, i64, boolean],
        [(3, 2)],
        lambda op, x: op(const([[1], [3], [1]], np.int32), x, ints(5, 2)),
    ),
    "PAD": ([*COMMON, f16, boolean], [(2, 3)], lambda op, x: op(x, PADS)),
    "PADV2": ([*COMMON, f16, boolean], [(2, 3), ()], lambda op, x, y: op(x, PADS, y)),
    "CONCATENATION": ([*COMMON, f16, u32, boolean], [(2, 3), (1, 3)], lambda op, x, y: op(x, y, axis=0)),
    "UNPACK": ([f32, i8, u8, i16, i32, boolean], [(2, 3)], lambda op, x: op(x, num=2)),
    "SPLIT": (COMMON, [(2, 6)], lambda op, x: op(ints(1), x, num_splits=3)),
    "SPLIT_V": (COMMON, [(2, 6)], lambda op, x: op(x, ints(1, -1, 2), ints(1), num_splits=3)),
    "REVERSE_V2": ([*COMMON, boolean], [(2, 3)], lambda op, x: op(x, ints(1))),
    "TOPK_V2": (COMMON, [(3, 9)], lambda op, x: op(x, ints(4))),
    "EMBEDDING_LOOKUP": (ALL, [(3, 4)], lambda op, x: op(ints(1, 0, 2, 2), x)),
    "RESIZE_NEAREST_NEIGHBOR": ([f32, i8, u8, i16, i32], [(1, 4, 5, 3)], lambda op, x: op(x, ints(7, 8))),
    "RESIZE_BILINEAR": ([f32, i8, u8, i16], [(1, 4, 5, 3)], lambda op, x: op(x, ints(7, 8))),
    "REDUCE_MAX": ([*COMMON, boolean], [(3, 4)], lambda op, x: op(x, ints(1))),
    "REDUCE_MIN": ([*COMMON, boolean], [(3, 4)], lambda op, x: op(x, ints(0))),
    "SUM": ([f32, i32, i64, boolean], [(3, 4)], lambda op, x: op(x, ints(0))),
    "REDUCE_PROD": ([f32, i32, i64, boolean], [(3, 4)], lambda op, x: op(x, ints(0))),
}
"""{operator: (dtypes for which LiteRT has a kernel, shapes of the operands, constructor)}."""


def data(dtype: DType, shape: tuple[int, ...], *seed: object) -> Array:
    rng = generator(dtype.short, shape, *seed)
    assert dtype.numpy is not None
    if dtype.numpy.kind == "c":
        return np.asarray(rng.normal(0, 3, shape) + 1j * rng.normal(0, 3, shape), dtype.numpy)
    if dtype.numpy.kind in "fb":
        return np.asarray(
            rng.normal(0, 3, shape) if dtype.is_float else rng.integers(0, 2, shape), dtype.numpy
        )
    return draw(rng, dtype, shape) if dtype.bits < 32 else rng.integers(0, 2**20, shape).astype(dtype.numpy)


@pytest.mark.parametrize(
    ("code", "dtype"), [(code, t) for code, (types, _, _) in CASES.items() for t in types]
)
def test_the_kernel_equals_litert_in_every_dtype(code: str, dtype: DType) -> None:
    _, shapes, make = CASES[code]
    quantization = per_tensor(0.1, 0 if dtype is i16 else 5) if dtype in NARROW else None
    arrays = [data(dtype, shape, code, i) for i, shape in enumerate(shapes)]
    values = [Value("", dtype, shape, None, quantization) for shape in shapes]
    op = make(REGISTRY[code], *values)
    for result in op.results:
        assert result.dtype is not dtype or quantization is None or result.quantization == quantization
    check(op, *arrays)


# -- embeddings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [i8, u8, DType.INT4])
@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("result", [f32, f16])
def test_quantized_rows_become_floats(dtype: DType, channels: int, result: DType) -> None:
    rng = generator(dtype.short, channels)
    rows = draw(rng, dtype, (5, 4, 2)) if dtype is not DType.INT4 else rng.integers(-8, 8, (5, 4, 2))
    stored = packed(rows, dtype) if dtype is DType.INT4 else rows
    scales = rng.uniform(0.01, 1, channels).astype(np.float32)
    quantization = Quantization(scales, np.zeros(channels, np.int64))
    value = Value("rows", dtype, rows.shape, stored, quantization)
    numbers = np.array([4, 0, 0, 2], np.int32)
    op = EmbeddingLookup(var(numbers), value, results=[Value("y", result, (4, 4, 2))])
    graph = graph_of(op)
    (got,), (wanted,) = run(Model([graph]), [numbers]), run_litert(graph, [numbers])
    assert_close(got, wanted, 0)


def test_rows_with_a_zero_point_are_refused() -> None:
    rows = np.zeros((2, 2), np.int8)
    value = Value("", i8, (2, 2), rows, per_tensor(0.1, 3))
    op = EmbeddingLookup(ints(1), value, results=[Value("y", f32, (1, 2))])
    with pytest.raises(UnsupportedError, match="zero points or column scales has no kernel"):
        kernel_results(op, [])


# -- half precision ------------------------------------------------------------------------------


def halves() -> Array:
    rng = np.random.default_rng(3)
    drawn = np.concatenate([rng.normal(0, spread, 500) for spread in (0.01, 3, 200)])
    ends = [0, -0.0, np.inf, -np.inf, np.nan, 65504, -65504, 0.5, 1.5, 2.5, -0.5, 1e-7, 30, -30, -9.2]
    return np.concatenate([drawn, ends]).astype(np.float16)


@pytest.mark.parametrize("code", ["NEG", "SIN", "COS", "FLOOR", "ROUND", "LOGISTIC", "TANH", "GELU"])
def test_functions_of_float16(code: str) -> None:
    x = halves()
    choices: list[dict[str, Any]] = [{"approximate": a} for a in (False, True)] if code == "GELU" else [{}]
    for attributes in choices:
        check(REGISTRY[code](var(x), **attributes), x, tolerance=0)


@pytest.mark.parametrize("code", ["ADD", "MUL", "MAXIMUM", "MINIMUM", "EQUAL", "LESS", "GREATER_EQUAL"])
def test_pairs_of_float16(code: str) -> None:
    x = halves()
    y = np.random.default_rng(4).permutation(x)
    check(REGISTRY[code](var(x), var(y)), x, y, tolerance=0)


@pytest.mark.parametrize("code", ["NEG", "FLOOR", "ROUND", "LOGISTIC", "TANH", "MAXIMUM", "RESHAPE"])
def test_bfloat16(code: str) -> None:
    """Cast to bfloat16, compute, cast back: LiteRT's Python API cannot read bfloat16."""
    x = np.clip(np.nan_to_num(halves()).astype(np.float32), -80, 80)
    given = Value("x", f32, x.shape)
    down = Cast(given, in_data_type=f32, out_data_type=bf16)
    others = {"MAXIMUM": (down.output,), "RESHAPE": (ints(-1, 5),)}.get(code, ())
    op = REGISTRY[code](down.output, *others)
    up = Cast(op.output, in_data_type=bf16, out_data_type=f32)
    graph = Graph("main", (given,))
    for step in (down, op, up):
        graph.append(step)
        step.output.name = type(step).__name__ + str(len(graph))
    graph.outputs = [up.output]
    (got,), (wanted,) = run(Model([graph]), [x]), run_litert(graph, [x])
    np.testing.assert_array_equal(got, wanted)


# -- strings -------------------------------------------------------------------------------------


def strings(*shape: int) -> Array:
    out = np.empty(shape, object)
    out.reshape(-1)[:] = [b"abc"[: i % 4] * (i % 3) for i in range(out.size)]
    return out


STRINGS: dict[str, Callable[..., Op]] = {
    "RESHAPE": lambda op, x: op(x, ints(3, 2)),
    "SQUEEZE": lambda op, x: op(x),
    "EXPAND_DIMS": lambda op, x: op(x, ints(1)),
    "SLICE": lambda op, x: op(x, ints(0, 1), ints(2, 2)),
    "STRIDED_SLICE": lambda op, x: op(x, ints(0, 0), ints(2, 3), ints(1, 2)),
    "GATHER_ND": lambda op, x: op(x, const([[1, 2], [0, 1]], np.int32)),
    "TILE": lambda op, x: op(x, ints(1, 2)),
}


@pytest.mark.parametrize("code", STRINGS)
def test_strings_are_moved(code: str) -> None:
    x = strings(2, 3)
    op = STRINGS[code](REGISTRY[code], Value("x", DType.STRING, x.shape))
    (got,), (wanted,) = kernel_results(op, [x]), run_litert(graph_of(op), [x])
    assert got.shape == wanted.shape
    assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize("code", ["EQUAL", "NOT_EQUAL"])
def test_strings_are_compared(code: str) -> None:
    x, y = strings(2, 3), strings(2, 3)[::-1].copy()
    op = REGISTRY[code](Value("x", DType.STRING, x.shape), Value("y", DType.STRING, y.shape))
    (got,), (wanted,) = kernel_results(op, [x, y]), run_litert(graph_of(op), [x, y])
    assert_close(got, wanted)


def test_constant_strings() -> None:
    x = strings(6)
    value = Value("words", DType.STRING, (6,), encode_strings(x.tolist()))
    numbers = np.array([5, 1, 3], np.int32)
    graph = graph_of(REGISTRY["GATHER"](value, var(numbers)))
    (got,), (wanted,) = run(Model([graph]), [numbers]), run_litert(graph, [numbers])
    assert got.tolist() == wanted.tolist() == [x[5], x[1], x[3]]
