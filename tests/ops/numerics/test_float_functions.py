# SPDX-License-Identifier: Apache-2.0
"""Functions of floats against numpy and math in float64; tests of LSTM and GELU check the last bits."""

from __future__ import annotations

import math
import platform

import numpy as np
import pytest

import circlekit
from circlekit.ops.arithmetic.activation import Tanh
from circlekit.ops.numerics.float_functions import (
    eigen_tanh_plus_one,
    erfc,
    fdlibm_tanh,
    normal_cdf,
    round_to_bfloat16,
)
from tests.ops.litert import graph_of, run_litert, var


def test_fdlibm_tanh_is_within_three_units_in_the_last_place() -> None:
    rng = np.random.default_rng(1)
    for spread in (1e-3, 0.1, 1, 5, 30):
        x = rng.normal(0, spread, 20000).astype(np.float32)
        exact = np.tanh(x.astype(np.float64))
        error = np.abs(fdlibm_tanh(x) - exact) / np.spacing(np.abs(exact).astype(np.float32))
        assert error.max() <= 3


OLD_GLIBC = platform.libc_ver()[0] == "glibc" and tuple(map(int, platform.libc_ver()[1].split("."))) <= (
    2,
    40,
)


@pytest.mark.skipif(not OLD_GLIBC, reason="the C library has another tanhf, whose last bits differ")
def test_fdlibm_tanh_is_that_of_the_c_library() -> None:
    """LiteRT's reference kernel calls tanhf of the C library."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(0, s, 5000).astype(np.float32) for s in (1e-8, 1e-3, 0.3, 1, 5, 30)])
    (wanted,) = run_litert(graph_of(Tanh(var(x))), [x])
    np.testing.assert_array_equal(fdlibm_tanh(x), wanted)


def test_ends_of_fdlibm_tanh() -> None:
    x = np.array([0.0, -0.0, 22, -22, 1e30, -np.inf, 1e-30], np.float32)
    wanted = np.array([0.0, -0.0, 1, -1, 1, -1, 1e-30], np.float32)
    got = fdlibm_tanh(x)
    assert np.array_equal(got, wanted)
    assert np.array_equal(np.signbit(got), np.signbit(wanted))


def test_eigen_tanh() -> None:
    x = np.linspace(-12, 12, 4001, dtype=np.float32)
    np.testing.assert_allclose(eigen_tanh_plus_one(x), 1 + np.tanh(x.astype(np.float64)), rtol=0, atol=3e-7)
    assert eigen_tanh_plus_one(np.array([20, 0], np.float32)).tolist() == [2, 1]


def test_erfc() -> None:
    x = np.concatenate([np.linspace(-6, 6, 241), np.linspace(6, 26, 41)])
    wanted = np.array([math.erfc(v) for v in x])
    np.testing.assert_allclose(erfc(x), wanted, rtol=1e-8)
    np.testing.assert_allclose(erfc(x[:241]), wanted[:241], rtol=1e-10)


def test_normal_cdf() -> None:
    x = np.linspace(-10, 10, 2001, dtype=np.float32)
    wanted = [math.erfc(-float(v) / math.sqrt(2)) / 2 for v in x]
    np.testing.assert_allclose(normal_cdf(x), wanted, rtol=1e-5)
    np.testing.assert_allclose(normal_cdf(x), wanted, rtol=0, atol=2e-7)
    assert normal_cdf(np.zeros(1, np.float32)).tolist() == [0.5]


@pytest.mark.parametrize("shape", [(), (1,), (0, 2)])
def test_rounding_to_bfloat16_keeps_the_shape(shape: tuple[int, ...]) -> None:
    for bits, rounded in ((0x3F818000, 0x3F820000), (0x3F808000, 0x3F800000), (0xFFFFFFFF, 0xFFC00000)):
        x = np.full(shape, bits, np.uint32).view(np.float32)
        got = round_to_bfloat16(x)
        assert got.shape == shape
        np.testing.assert_array_equal(got.view(np.uint32), np.full(shape, rounded, np.uint32))


@pytest.mark.parametrize("operator", ["Neg(%x)", "Add(%x, %x)", "Cast(%x)"])
def test_a_bfloat16_scalar_stays_a_scalar(operator: str) -> None:
    dtype = "f32" if operator == "Cast(%x)" else "bf16"
    model = circlekit.parse(f"graph main(%x: {dtype}[]) -> %y {{ %y = {operator} : bf16[] }}")
    (out,) = circlekit.run(model, [np.array(1.5, np.float32)])
    assert out.shape == ()
