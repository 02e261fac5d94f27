# SPDX-License-Identifier: Apache-2.0
"""Tables of elementwise functions against the plain kernels, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ModelError
from circlekit.interp.fast import prepare
from circlekit.interp.fast.elementwise_table import ElementwiseTable
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.activation import LeakyRelu, Tanh
from circlekit.ops.arithmetic.binary import Add, Mul, Sub
from circlekit.ops.arithmetic.unary import Sqrt
from circlekit.ops.numerics.output_stage import Kernels, following
from tests.ops.quantized import draw, generator, quantized


def check(op: Op, sizes: list[tuple[int, ...]], runs: int) -> ElementwiseTable:
    """Assert ``runs`` times that the fast path equals the plain kernel on new data; return the fast path."""
    kernel = prepare(op)
    assert isinstance(kernel, ElementwiseTable)
    for run in range(runs):
        rng = generator(op.code, run)
        arrays = [draw(rng, v.dtype, size) for v, size in zip(op.inputs, sizes, strict=True) if v is not None]
        np.testing.assert_array_equal(kernel(*arrays), op.kernel(*arrays))
    return kernel


@pytest.mark.parametrize("kind", [Sub, Mul])
@pytest.mark.parametrize("dtype", [i8, u8])
def test_pairs_of_8_bits(kind: type[Op], dtype: DType) -> None:
    """The operands broadcast, and differ in scale and zero point, so that their order matters."""
    zero = 100 if dtype is u8 else -9
    x, y = quantized(dtype, (40, 50, 30), 0.4, zero), quantized(dtype, (50, 1), 0.3, zero + 5)
    op = kind(x, y, results=[quantized(dtype, (40, 50, 30), 0.8 if kind is Sub else 9.0, zero)])
    table = check(op, [(40, 50, 30), (50, 1)], 3)
    assert table.table is not None
    assert table.table.size == 1 << 16
    assert len(np.unique(table.table)) > 100


@pytest.mark.parametrize("kind", [LeakyRelu, Tanh])
@pytest.mark.parametrize(("dtype", "size"), [(i8, 200), (u8, 200), (i16, 50_000)])
def test_one_operand(kind: type[Op], dtype: DType, size: int) -> None:
    zero = {u8: 128, i8: -5, i16: 0}[dtype]
    scale, result_scale = (2.0**-12, 2.0**-15) if dtype is i16 else (0.05, 2.0**-7)
    op = kind(quantized(dtype, (size,), scale, zero), results=[quantized(dtype, (size,), result_scale, zero)])
    table = check(op, [(size,)], 3)
    assert table.table is not None
    assert table.table.size == 1 << dtype.bits


def test_few_results_are_computed_without_a_table() -> None:
    op = Sub(*(quantized(i8, (4,), 0.5, n) for n in (1, 2)), results=[quantized(i8, (4,), 0.5, 0)])
    assert check(op, [(4,), (4,)], 10).table is None  # 40 results, but the table has 65,536


def test_a_function_that_is_undefined_for_some_arguments_has_no_table() -> None:
    op = Sqrt(quantized(i8, (400,), 0.5, -128), results=[quantized(i8, (400,), 0.5, -128)])
    assert check(op, [(400,)], 2).table is not None
    op = Sqrt(quantized(i8, (400,), 0.5, 3), results=[quantized(i8, (400,), 0.5, 3)])
    kernel = prepare(op)
    assert isinstance(kernel, ElementwiseTable)
    x = np.arange(3, 403).clip(3, 127).astype(np.int8)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(x), op.kernel(x))
    assert kernel.table is None
    with pytest.raises(ModelError, match="SQRT: expected numbers >= 0, got a negative number"):
        kernel(np.full(400, 2, np.int8))


def test_an_addition_by_optimized_kernels_has_no_table() -> None:
    """The last numbers of a row are rounded in another way than those in vector registers."""
    x, y = quantized(i8, (256, 256), 0.53, 3), quantized(i8, (256, 256), 0.41, -7)
    op = Add(x, y, results=[quantized(i8, (256, 256), 0.9, 2)])
    assert prepare(op) is not None
    with following(Kernels.OPTIMIZED):
        assert prepare(op) is None


def test_operators_without_a_table() -> None:
    x, y = quantized(i16, (4,), 0.5), quantized(i16, (4,), 0.5)
    assert prepare(Sub(x, y, results=[quantized(i16, (4,), 0.5)])) is None, "32 bits"
    assert prepare(Tanh(Value("", f32, (4,)))) is None, "floats"
    assert prepare(Sub(Value("", i32, (4,)), Value("", i32, (4,)))) is None, "plain integers"
    per_channel = Value("", i8, (4,), None, Quantization(np.ones(4, np.float32), np.zeros(4, np.int64), 0))
    assert prepare(LeakyRelu(per_channel, results=[quantized(i8, (4,), 0.5)])) is None, "several scales"
