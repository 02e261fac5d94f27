# SPDX-License-Identifier: Apache-2.0
"""Complex numbers and the Fourier transform against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.unary import ComplexAbs, Imag, Real, Rfft2d
from tests.ops.litert import check, const, graph_of, kernel_results, run_litert, var


@pytest.mark.parametrize("kind", [Real, Imag, ComplexAbs])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts(kind: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))).astype(dtype)
    check(kind(var(x)), x)


def test_parts_of_real_numbers() -> None:
    with pytest.raises(ShapeError, match="expected complex numbers for input, got f32"):
        Real(Value("x", f32, (2,)))


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 6), (5, 9)])
@pytest.mark.parametrize("length", [(4, 4), (2, 8), (8, 2)])
def test_rfft2d(shape: tuple[int, ...], length: tuple[int, int]) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    op = Rfft2d(var(x), const(length, np.int32))
    (got,) = kernel_results(op, [x.copy()])
    assert got.dtype == np.complex64
    assert op.output.shape == got.shape
    (wanted,) = run_litert(graph_of(op), [x])
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            getattr(got, part), getattr(wanted, part), atol=1e-5 * np.abs(wanted).max()
        )


def test_rfft2d_refuses_lengths_that_are_not_powers_of_two() -> None:
    op = Rfft2d(Value("x", f32, (4, 6)), Value("n", i32, (2,)))
    with pytest.raises(ShapeError, match=r"expected powers of two for fft_length, got \[4, 6\]"):
        kernel_results(op, [np.zeros((4, 6), np.float32), np.array([4, 6], np.int32)])
