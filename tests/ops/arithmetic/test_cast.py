# SPDX-License-Identifier: Apache-2.0
"""Changes of dtype against LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.value import Array, Quantization, TensorType, Value
from circlekit.ops.arithmetic.cast import NOT_INTEGER, Cast, Dequantize, FakeQuant, Quantize
from tests.ops.litert import check, graph_of, kernel_results, run_litert, var
from tests.ops.quantized import per_tensor

DTYPES = [
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool",
]  # fmt: skip
INTEGERS = {"int8": i8, "uint8": u8, "int16": i16}
EXTREMES = [
    0, -0.0, 0.5, -0.5, 1.5, -2.7, 100.9, -100.9, 127, 128, 250, -129, 300, 32768, 40000, 65504, 70000, -1e9,
    3e9, 9.3e18, 1.9e19, 1e20, -1e20, np.inf, -np.inf, np.nan,
]  # fmt: skip


def numbers(dtype: str) -> Array:
    """Return numbers of ``dtype``; floats include values that no integer type can hold."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return np.array(EXTREMES).astype(dtype)
    low, high = (0, 2) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    return np.append(np.random.default_rng(3).integers(low, high, 20), low).astype(dtype)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_cast(source: str, target: str) -> None:
    x = numbers(source)
    op = Cast(var(x), in_data_type=DType.of(x.dtype), out_data_type=DType.of(target))
    (got,), (wanted,) = kernel_results(op, [x]), run_litert(graph_of(op), [x])
    assert got.dtype == wanted.dtype == np.dtype(target)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", ["complex64", "float32", "int32"])
@pytest.mark.parametrize("source", ["complex64", "float32"])
def test_only_real_results_lose_the_imaginary_part(source: str, target: str) -> None:
    x = np.array([1.5 + 2j, -3 - 0.5j, 7]).astype("complex64")
    x = x if source == "complex64" else x.imag.copy()
    check(Cast(var(x), in_data_type=DType.of(x.dtype), out_data_type=DType.of(target)), x)


def test_complex_numbers_of_both_sizes() -> None:
    x = np.array([1.5 + 2j, -3 - 0.5j], np.complex64)
    op = Cast(var(x), out_data_type=DType.COMPLEX128)
    assert kernel_results(op, [x])[0].tolist() == x.tolist()


def test_strings_are_not_converted_to_numbers() -> None:
    op = Cast(Value("x", DType.STRING, (1,)), results=[Value("y", i32, (1,))])
    with pytest.raises(UnsupportedError, match="CAST from str has no kernel"):
        kernel_results(op, [np.array([b"1"], object)])


def test_the_dtype_of_an_existing_result_decides() -> None:
    x = var(np.array([1.5], np.float32))
    op = Cast(x, results=[Value("y", i32, (1,))])
    assert op.inferred()[0].dtype is i32
    assert kernel_results(op, [np.array([1.5], np.float32)])[0].dtype == np.int32


# -- quantization ------------------------------------------------------------------------------


def grid(scale: float, zero: int) -> Array:
    """Return real numbers on the grid, halfway between its points, and at random.

    Divided by ``scale`` and shifted by ``zero``, most are -150 to 149.5, beyond both ends of int8.
    """
    halves = (np.arange(-300, 300) * 0.5 - zero) * scale
    return np.concatenate([halves, np.random.default_rng(4).normal(0, 60 * scale, 200)]).astype(np.float32)


PER_CHANNEL = Quantization(np.array([0.5, 0.01, 0.1], np.float32), np.array([0, 0, 0]), 1)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("scale", [0.5, 0.05, 0.0173])
@pytest.mark.parametrize("zero", [0, 7])
def test_quantize(dtype: str, scale: float, zero: int) -> None:
    zero = 0 if dtype == "int16" else zero
    x = grid(scale, zero)
    check(Quantize(var(x), results=[Value("q", INTEGERS[dtype], x.shape, None, per_tensor(scale, zero))]), x)


def test_quantize_per_channel() -> None:
    x = np.random.default_rng(5).normal(0, 2, (2, 3, 5)).astype(np.float32)
    check(Quantize(var(x), results=[Value("q", i8, x.shape, None, PER_CHANNEL)]), x)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("scale", [0.5, 0.0173])
def test_dequantize(dtype: str, scale: float) -> None:
    q = np.arange(0, 128, dtype=dtype).reshape(2, -1)
    quantization = per_tensor(scale, 0 if dtype == "int16" else 7)
    check(Dequantize(Value("q", INTEGERS[dtype], q.shape, None, quantization)), q, tolerance=0)


def test_dequantize_per_channel() -> None:
    q = np.random.default_rng(6).integers(-128, 128, (2, 3, 5)).astype(np.int8)
    check(Dequantize(Value("q", i8, q.shape, None, PER_CHANNEL)), q, tolerance=0)


def test_dequantize_of_int32_subtracts_exactly() -> None:
    """float32 holds neither 2^24 + 1 nor 2^24 + 3."""
    q = np.array([2**24 + 3], np.int32)
    op = Dequantize(Value("q", i32, (1,), None, per_tensor(0.5, 2**24 + 1)))
    assert kernel_results(op, [q])[0].tolist() == [1.0]


def test_dequantize_of_half_precision() -> None:
    x = np.array([0.1, -65504, 1e-7, np.inf], np.float16)
    check(Dequantize(var(x)), x, tolerance=0)


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("limits", [(-1.0, 2.0), (0.0, 3.3), (-2.2, 0.0), (-0.37, 5.1)])
def test_fake_quant(bits: int, limits: tuple[float, float]) -> None:
    x = np.random.default_rng(7).normal(0, 3, 500).astype(np.float32)
    check(FakeQuant(var(x), min=limits[0], max=limits[1], num_bits=bits), x)


def test_fake_quant_of_a_narrow_range() -> None:
    """With ``narrow_range``, 8 bits give the 255 multiples of 1/127 from -1 to 1.  LiteRT refuses it."""
    x = np.array([-2, -1, 0.5, 0.504, 2], np.float32)
    op = FakeQuant(var(x), min=-1.0, max=1.0, num_bits=8, narrow_range=True)
    np.testing.assert_allclose(kernel_results(op, [x])[0] * 127, [-127, -127, 64, 64, 127], rtol=1e-6)


@pytest.mark.parametrize("bits", [-1, 0, 1, 17, 2**31 - 1])
def test_a_fake_quant_of_an_invalid_number_of_bits_is_an_error(bits: int) -> None:
    x = np.zeros(2, np.float32)
    with pytest.raises(ModelError, match=rf"^FAKE_QUANT: expected num_bits from 2 to 16, got {bits}\b"):
        kernel_results(FakeQuant(var(x), min=-1.0, max=1.0, num_bits=bits), [x])


@pytest.mark.parametrize("dtype", NOT_INTEGER)
def test_all_declared_dtypes_are_dequantized_to_float32(dtype: DType) -> None:
    assert Dequantize(Value("q", dtype, (2, None))).infer() == TensorType(f32, (2, None))


def test_quantize_and_dequantize_need_fitting_forms() -> None:
    x = var(np.zeros(2, np.float32))
    with pytest.raises(ModelError, match="expected a declared result"):
        Quantize(x)
    with pytest.raises(ShapeError, match="expected input of quantized numbers, f16 or bf16, got f32"):
        Dequantize(x)
    with pytest.raises(ModelError, match="%q: expected a scale, got i8 without scales"):
        kernel_results(Dequantize(Value("q", i8, (2,))), [np.zeros(2, np.int8)])
    requantize = Quantize(Value("q", i32, (2,)), results=[Value("r", u8, (2,), None, per_tensor(1, 0))])
    with pytest.raises(UnsupportedError, match="QUANTIZE from i32 to u8 has no kernel, and LiteRT has none"):
        kernel_results(requantize, [np.zeros(2, np.int32)])
