# SPDX-License-Identifier: Apache-2.0
"""Functions of one element, activations included, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import i8
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.activation import Gelu, LeakyRelu, PRelu, Relu
from circlekit.ops.arithmetic.unary import Abs, Exp
from tests.ops.litert import check, graph_of, kernel_results, run_litert, var

GELU_TOLERANCE = 1e-6

FUNCTIONS = ["ABS", "NEG", "EXP", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "ZEROS_LIKE"]
ACTIVATIONS = [
    "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LEAKY_RELU", "ELU", "GELU", "HARD_SWISH", "LOGISTIC",
    "TANH",
]  # fmt: skip
SHAPES: list[tuple[int, ...]] = [(), (7,), (2, 3), (2, 3, 4, 5), (1, 2, 1, 3, 2), (0, 2)]


@pytest.mark.parametrize("code", FUNCTIONS + ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_function(code: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(0, 4, shape).astype(np.float32)
    check(REGISTRY[code](var(x)), x)


@pytest.mark.parametrize("code", ["LOG", "SQRT", "RSQRT"])
@pytest.mark.parametrize("shape", SHAPES)
def test_function_of_positive_numbers(code: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).uniform(0.01, 9, shape).astype(np.float32)
    check(REGISTRY[code](var(x)), x)


@pytest.mark.parametrize("code", FUNCTIONS + ACTIVATIONS)
def test_function_at_bends_ties_and_large_inputs(code: str) -> None:
    x = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 6, 30, -30, 88, -88], np.float32)
    check(REGISTRY[code](var(x)), x)


@pytest.mark.parametrize("code", ["LOG", "SQRT", "RSQRT", "EXP", "LOGISTIC"])
def test_where_a_function_has_no_finite_value(code: str) -> None:
    x = np.array([0.0, -1.0, 1000.0, -1000.0, np.inf, -np.inf], np.float32)
    check(REGISTRY[code](var(x)), x)
    scalar = np.array(-1000.0, np.float32)
    check(REGISTRY[code](var(scalar)), scalar)


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        ("ABS", "i4"), ("ABS", "i2"), ("NEG", "i4"), ("NEG", "i8"), ("SIGN", "i4"), ("ZEROS_LIKE", "i4"),
        ("ZEROS_LIKE", "i8"),
    ],
)  # fmt: skip
def test_integers(code: str, dtype: str) -> None:
    x = np.array([[5, -7, 0], [1, -1, 100]], dtype)
    check(REGISTRY[code](var(x)), x)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.5, -0.3])
def test_leaky_relu(alpha: float) -> None:
    x = np.random.default_rng(3).normal(0, 2, (3, 5)).astype(np.float32)
    check(LeakyRelu(var(x), alpha=alpha), x)


@pytest.mark.parametrize("alpha", [(5,), (1, 1, 5), (4, 1), (2, 3, 4, 5), (1,)])
def test_prelu(alpha: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    x, slope = rng.normal(0, 2, (2, 3, 4, 5)).astype(np.float32), rng.normal(0, 1, alpha).astype(np.float32)
    check(PRelu(var(x), var(slope)), x, slope)


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(approximate: bool) -> None:
    x = np.linspace(-9, 9, 2001, dtype=np.float32)
    check(Gelu(var(x), approximate=approximate), x, tolerance=GELU_TOLERANCE)


@pytest.mark.parametrize("size", [1, 6, 40_000])
def test_gelu_by_tanh_is_exact(size: int) -> None:
    """Below -3, 1 + tanh cancels.

    The last bit of tanh is 0.002 % of the sum at -3, and more than half of it at -5.
    """
    rng = np.random.default_rng(2)
    for low, high in ((-6, -3), (-100, 100), (-1e-3, 1e-3)):
        x = rng.uniform(low, high, size).astype(np.float32)
        op = Gelu(var(x), approximate=True)
        (wanted,), (got,) = run_litert(graph_of(op), [x]), kernel_results(op, [x])
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("code", FUNCTIONS + ACTIVATIONS)
def test_other_precisions_keep_their_dtype(code: str, dtype: Any) -> None:
    x = np.linspace(-2, 2, 9).astype(dtype)
    assert kernel_results(REGISTRY[code](var(x)), [x])[0].dtype == dtype


def test_integers_have_no_exponential() -> None:
    x = np.ones(3, np.int32)
    with pytest.raises(UnsupportedError, match="EXP on int32 has no kernel"):
        kernel_results(Exp(var(x)), [x])


@pytest.mark.parametrize("kind", [Abs, Relu])
def test_a_quantized_operand_needs_a_quantized_result(kind: type[Abs]) -> None:
    quantization = Quantization.per_tensor(0.1)
    value = Value("x", i8, (2,), None, quantization)
    with pytest.raises(ModelError, match="expected a scale, got i8 without"):
        kernel_results(kind(value), [np.ones(2, np.int8)])


def test_prelu_wants_one_dtype() -> None:
    with pytest.raises(ShapeError, match="expected input and alpha of one dtype, got f32 and i32"):
        PRelu(var(np.zeros(2, np.float32)), var(np.zeros(2, np.int32)))
