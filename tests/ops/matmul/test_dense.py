# SPDX-License-Identifier: Apache-2.0
"""Matrix products against LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.value import Array, Quantization, Shape, Value
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected, shuffled_16x1
from tests.ops.litert import check, const, kernel_results, var

ACTS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [(6,), (1, 6), (5, 6), (2, 3, 6), (2, 1, 3, 6)])
def test_fully_connected(shape: tuple[int, ...], keep: bool, act: Activation) -> None:
    x, w = normal(0, *shape), const(normal(1, 4, 6))
    check(FullyConnected(var(x), w, const(normal(2, 4)), keep_num_dims=keep, act=act), x)
    check(FullyConnected(var(x), w, None, keep_num_dims=keep, act=act), x)
    check(FullyConnected(var(x), w, keep_num_dims=keep, act=act), x)


@pytest.mark.parametrize("shape", [(2, 3, 4), (12,), (1, 2, 2, 3), (4, 3)])
def test_fully_connected_flattens(shape: tuple[int, ...]) -> None:
    x = normal(0, *shape)
    check(FullyConnected(var(x), const(normal(1, 5, 6)), const(normal(2, 5))), x)


def test_fully_connected_weights_may_be_computed() -> None:
    x, w, b = normal(0, 3, 6), normal(1, 4, 6), normal(2, 4)
    check(FullyConnected(var(x), var(w), var(b)), x, w, b)


def test_fully_connected_large() -> None:
    x = normal(0, 33, 700)
    check(FullyConnected(var(x), const(normal(1, 129, 700)), const(normal(2, 129))), x)


def test_fully_connected_versions() -> None:
    x, w, b = Value("", f32, (2, 6)), const(normal(1, 4, 6)), const(normal(2, 4))
    assert FullyConnected(x, w, b).required_version() == 1
    assert FullyConnected(x, w, None).required_version() == 1
    assert FullyConnected(x, w).required_version() == 6
    assert FullyConnected(x, w, b, keep_num_dims=True).required_version() == 5
    small = Value.constant("", np.zeros((4, 6), np.int8))
    assert FullyConnected(x, small, b).required_version() == 3
    assert FullyConnected(x, small, b, asymmetric_quantize_inputs=True).required_version() == 9
    assert FullyConnected(Value("", i8, (2, 6)), small, b).required_version() == 4
    assert FullyConnected(Value("", i8, (2, 6)), Value("", DType.INT4, (4, 6)), b).required_version() == 10
    assert FullyConnected(Value("", i16, (2, 6)), Value("", i16, (4, 6)), b).required_version() == 7
    small.quantization = Quantization(np.ones(4, np.float32), np.zeros(4, np.int64))
    assert FullyConnected(x, small, b).required_version() == 12


def test_batch_matmul_versions() -> None:
    x, y = Value("", f32, (2, 6)), Value.constant("", np.zeros((6, 4), np.int8))
    assert BatchMatMul(x, Value("", f32, (6, 4))).required_version() == 1
    assert BatchMatMul(x, y).required_version() == 1
    assert BatchMatMul(x, y, asymmetric_quantize_inputs=True).required_version() == 4
    assert BatchMatMul(Value("", i8, (2, 6)), y, asymmetric_quantize_inputs=True).required_version() == 2
    assert BatchMatMul(Value("", i16, (2, 6)), Value("", i16, (6, 4))).required_version() == 3


@pytest.mark.parametrize(
    ("shape", "weights", "keep", "result"),
    [
        ((None, 6), (4, 6), False, (None, 4)),
        ((None, 6), (4, 6), True, (None, 4)),
        (None, (4, 6), False, (None, 4)),
        (None, (4, 6), True, None),
        ((2, 3, 6), None, True, (2, 3, None)),
        ((2, 3, 6), (4, None), False, (None, 4)),
    ],
)
def test_fully_connected_unknown_dimensions(
    shape: Shape | None, weights: Shape | None, keep: bool, result: Shape | None
) -> None:
    op = FullyConnected(Value("", f32, shape), Value("", f32, weights), keep_num_dims=keep)
    assert op.output.shape == result


def test_fully_connected_refuses() -> None:
    w = Value("", f32, (4, 6))
    with pytest.raises(ShapeError, match="input: expected a multiple of 6 elements, got 10"):
        FullyConnected(Value("", f32, (2, 5)), w)
    with pytest.raises(ShapeError, match=r"input: expected 6 columns, got shape \[3,12\]"):
        FullyConnected(Value("", f32, (3, 12)), w, keep_num_dims=True)
    with pytest.raises(ShapeError, match=r"input: expected rank 1 or more, got shape \[\]"):
        FullyConnected(Value("", f32, ()), Value("", f32, None), keep_num_dims=True)
    with pytest.raises(ShapeError, match="expected bias of 4 elements, one per channel of the result, got 3"):
        FullyConnected(Value("", f32, (2, 6)), w, Value("", f32, (3,)))
    with pytest.raises(ShapeError, match=r"expected weights of rank 2, got shape \[4,6,1\]"):
        FullyConnected(Value("", f32, (2, 6)), Value("", f32, (4, 6, 1)))
    with pytest.raises(ShapeError, match="expected input and weights of one dtype, got f32 and f64"):
        FullyConnected(Value("", f32, (2, 6)), Value("", DType.FLOAT64, (4, 6)))


def test_shuffled_weights_of_4_rows_have_no_kernel() -> None:
    x = normal(0, 2, 6)
    shuffled = WeightsFormat.SHUFFLED16x1FLOAT32
    op = FullyConnected(var(x), const(normal(1, 4, 6)), weights_format=shuffled)
    with pytest.raises(UnsupportedError, match="SHUFFLED16x1FLOAT32 weights"):
        kernel_results(op, [x])


BATCHES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (1, 3)), ((2, 1), (1, 3)),
    ((3,), ()), ((), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (2, 2, 1)),
]  # fmt: skip


@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
@pytest.mark.parametrize(("left", "right"), BATCHES)
def test_batch_matmul(left: tuple[int, ...], right: tuple[int, ...], adj_x: bool, adj_y: bool) -> None:
    x = normal(0, *left, *((5, 4) if adj_x else (4, 5)))
    y = normal(1, *right, *((6, 5) if adj_y else (5, 6)))
    check(BatchMatMul(var(x), var(y), adj_x=adj_x, adj_y=adj_y), x, y)
    check(BatchMatMul(var(x), const(y), adj_x=adj_x, adj_y=adj_y), x)


def test_batch_matmul_of_itself() -> None:
    x = normal(0, 2, 4, 5)
    value = var(x)
    check(BatchMatMul(value, value, adj_y=True), x)


def test_batch_matmul_refuses() -> None:
    with pytest.raises(ShapeError, match="y: expected 5 rows, one per column of x, got 4"):
        BatchMatMul(Value("", f32, (2, 4, 5)), Value("", f32, (2, 4, 5)))
    with pytest.raises(ShapeError, match=r"x: expected rank 2 or more, got shape \[5\]"):
        BatchMatMul(Value("", f32, (5,)), Value("", f32, (5, 4)))
    with pytest.raises(ShapeError, match=r"shapes \[2\] and \[3\] do not broadcast"):
        BatchMatMul(Value("", f32, (2, 4, 5)), Value("", f32, (3, 5, 4)))


def test_macs() -> None:
    assert FullyConnected(Value("", f32, (3, 6)), Value("", f32, (4, 6))).macs() == 3 * 4 * 6
    assert BatchMatMul(Value("", f32, (2, 4, 5)), Value("", f32, (5, 7))).macs() == 2 * 4 * 5 * 7
    assert BatchMatMul(Value("", f32, (2, 5, 4)), Value("", f32, (5, 7)), adj_x=True).macs() == 2 * 4 * 5 * 7
    assert BatchMatMul(Value("", f32, None), Value("", f32, (5, 7))).macs() == 0
    product = BatchMatMul(Value("", f32, (4, 5)), Value("", f32, (5, 7)))
    product.x.shape = ()  # in an old file: the rank is unknown
    assert product.macs() == 0


def test_shuffled_16x1_stores_blocks_of_sixteen_rows_by_columns() -> None:
    rows, columns = np.indices((32, 3))
    shuffled = shuffled_16x1(100 * rows + columns).reshape(-1).tolist()
    assert shuffled == [
        100 * (16 * block + row) + column for block in range(2) for column in range(3) for row in range(16)
    ]


@pytest.mark.parametrize(
    ("x", "y", "name"),
    [
        ((3, 4), (4, 5), None),
        ((2, 3, 4), (2, 4, 5), None),
        ((1, 2, 3, 4), (2, 1, 4, 5), None),
        ((2, 2, 3, 4), (2, 4, 5), "x"),
        ((2, 3, 4), (2, 2, 4, 5), "y"),
        ((2, None, 3, 4), (4, 5), "x"),
        (None, (4, 5), "x"),
    ],
)
def test_litert_may_scale_wrongly_with_several_batch_axes(
    x: Shape | None, y: Shape, name: str | None
) -> None:
    """``name``: the operand that has, or may have, several batch dimensions other than 1."""
    fault = BatchMatMul(Value("", f32, x), Value("", i8, y)).dynamic_fault()
    assert (fault and fault.split(":")[0]) == name


@pytest.mark.parametrize("units", [16, 48])
def test_shuffled_16x1_weights_give_the_same_products(units: int) -> None:
    x, weights = normal(0, 2, 3), normal(1, units, 3)
    op = FullyConnected(
        var(x), const(shuffled_16x1(weights)), weights_format=WeightsFormat.SHUFFLED16x1FLOAT32
    )
    np.testing.assert_allclose(kernel_results(op, [x])[0], x @ weights.T, rtol=1e-5, atol=1e-6)
