# SPDX-License-Identifier: Apache-2.0
"""Comparison, logic and selection against LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import boolean, f32
from circlekit.ir.op import REGISTRY
from circlekit.ir.text import parse_model
from circlekit.ir.value import Value
from circlekit.ir.verifier import verify
from circlekit.ops.arithmetic.comparison import Equal, LogicalNot, Select, SelectV2, Where
from tests.ops.litert import check, const, graph_of, kernel_results, run_litert, var

ORDERED = ["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((), (4,)), ((2, 1, 3, 1), (3, 1, 2)),
]  # fmt: skip
DTYPES = ["f4", "i4", "i8", "i2", "i1", "u1", "?"]

CONDITIONS = ("bool", "f32", "i64", "i32", "i8", "u8", "u32")

COMPARISONS = [
    *((code, dtype) for code in ORDERED for dtype in ("f4", "i4", "i8", "i2")),
    *(("EQUAL", dtype) for dtype in ("f4", "i4", "i8", "i2", "?")),
    *(("NOT_EQUAL", dtype) for dtype in ("f4", "i4", "i8", "?")),
]
"""(operator, numpy's code of a dtype): i8 is int64.

int8 and uint8 are left out: LiteRT multiplies them by their scales, and takes 0 for a missing scale.
"""


@pytest.mark.parametrize(("code", "dtype"), COMPARISONS)
@pytest.mark.parametrize("shapes", SHAPES)
def test_comparison(code: str, dtype: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.integers(0, 3, s).astype(dtype) for s in shapes)
    check(REGISTRY[code](var(x), var(y)), x, y)


@pytest.mark.parametrize("code", ["LOGICAL_AND", "LOGICAL_OR"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_logic(code: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(6)
    x, y = (rng.integers(0, 2, s).astype(bool) for s in shapes)
    check(REGISTRY[code](var(x), var(y)), x, y)


def test_logical_not() -> None:
    x = np.array([[True, False, True]])
    check(LogicalNot(var(x)), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("condition", [(2, 3, 4), (), (2,)])
def test_select(dtype: str, condition: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.integers(0, 2, (2, 3, 4)).astype(dtype) for _ in range(2))
    choice = rng.integers(0, 2, condition).astype(bool)
    check(Select(var(choice), var(x), var(y)), choice, x, y)


@pytest.mark.parametrize("choice", [True, False])
def test_select_of_scalars_is_a_scalar(choice: bool) -> None:
    x, y = np.array(1.5, np.float32), np.array(2.5, np.float32)
    (out,) = check(Select(var(np.array(choice)), var(x), var(y)), np.array(choice), x, y)
    assert out.shape == ()


@pytest.mark.parametrize("kind", [Select, SelectV2])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_single_element_keeps_its_shape(kind: type[Select | SelectV2], shape: tuple[int, ...]) -> None:
    """As in LiteRT, a result of one element keeps its declared shape if this shape has one element."""
    choice, x, y = np.array([True]), np.array([1.5], np.float32), np.array([2.5], np.float32)
    (out,) = check(kind(var(choice), var(x), var(y), results=[Value("y", f32, shape)]), choice, x, y)
    assert out.shape == shape
    stated = kind(*(Value("", t, (1,)) for t in (boolean, f32, f32)), results=[Value("y", f32, (2,))])
    assert stated.inferred()[0].shape == (1,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shapes",
    [((2, 3, 4),) * 3, ((3, 1), (4,), (2, 1, 1)), ((), (2,), (2,)), ((2, 1), (), ()), ((), (), ())],
)
def test_select_v2(dtype: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(8)
    choice = rng.integers(0, 2, shapes[0]).astype(bool)
    x, y = (rng.integers(0, 2, s).astype(dtype) for s in shapes[1:])
    check(SelectV2(var(choice), var(x), var(y)), choice, x, y)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i1", "u1", "?"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4)])
def test_where(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(9).integers(0, 2, shape).astype(dtype)
    op = Where(var(x))
    assert op.output.shape == (None, len(shape))
    (got,), (wanted,) = kernel_results(op, [x]), run_litert(graph_of(op), [x])
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    assert Where(const(x)).output.shape == got.shape


def test_infer_of_unknown_dimensions() -> None:
    unknown = Value("", const(0.0, np.float32).dtype, (None, 3))
    assert Equal(unknown, var(np.zeros((5, 1), np.float32))).output.shape == (5, 3)
    assert Equal(unknown, var(np.zeros((1, 1), np.float32))).output.shape == (None, 3)


def test_select_of_unknown_shapes() -> None:
    flags, row = var(np.zeros(2, bool)), Value("", f32, (1, 3))
    unknown = Value("", f32, None)
    assert Select(flags, unknown, unknown).output.shape is None
    assert Select(flags, row, unknown).output.shape == (None, 3)


def test_a_select_of_other_dtypes_or_ranks_is_a_shape_error() -> None:
    x, flags = var(np.zeros((2, 3), np.float32)), var(np.zeros((2, 3), bool))
    with pytest.raises(ShapeError, match="condition: expected bool, got f32"):
        Select(x, x, x)
    with pytest.raises(ShapeError, match="expected x and y of one dtype, got f32 and bool"):
        SelectV2(flags, x, flags)
    with pytest.raises(ShapeError, match=r"expected x and y of equal rank, got \[2,3\] and \[3\]"):
        Select(flags, x, var(np.zeros(3, np.float32)))
    with pytest.raises(ShapeError, match="condition: expected 2 elements, one per row, got 3"):
        Select(var(np.zeros(3, bool)), x, x)


def test_a_vector_over_axis_0_cannot_be_permuted() -> None:
    x = var(np.zeros((2, 3), np.float32))
    assert Select(var(np.zeros(2, bool)), x, x).permuted((1, 0)) is None
    assert Select(var(np.zeros((2, 3), bool)), x, x).permuted((1, 0)) == {}


@pytest.mark.parametrize("dtype", CONDITIONS)
def test_a_condition_of_where_is_of_any_dtype_that_litert_takes(dtype: str) -> None:
    model = parse_model(f"graph main(%x: {dtype}[2,3]) -> %y {{ %y = Where(%x) : i64[?,2] }}")
    assert verify(model) == []
