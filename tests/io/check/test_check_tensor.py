# SPDX-License-Identifier: Apache-2.0
"""The rules of ``circle-verify`` for single tensors, at the limits of each rule."""

from __future__ import annotations

import struct
from itertools import pairwise, product

import numpy as np
import pytest

from circlekit.io.check.check_tensor import _strings_fault, tensor_findings
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Quantization, Value


def rules(value: Value, **tree: object) -> list[str]:
    """Return the names of the rules that ``value`` breaks; ``tree``: more fields of its table in the file."""
    shape = [0 if d is None else d for d in value.shape or ()]
    return [finding.rule for finding in tensor_findings(value, {"shape": shape, **tree}, "t", {1})]


@pytest.mark.parametrize(
    ("dtype", "exponents", "expected"),
    [
        (DType.INT8, (21, 21, 20), []),
        (DType.INT8, (21, 21, 21), ["shape-size"]),
        (DType.FLOAT32, (20, 20, 20), []),
        (DType.FLOAT32, (21, 20, 20), ["shape-size"]),
        (DType.INT4, (22, 21, 20), []),
        (DType.INT4, (22, 21, 21), ["shape-size"]),
    ],
)
def test_sizes_are_signed_numbers_of_64_bits(
    dtype: DType, exponents: tuple[int, ...], expected: list[str]
) -> None:
    """Fewer than 2^63 bytes: the exponents of 2 add up to 62 or 63, with 2 for float32 and -1 for int4."""
    assert rules(Value("x", dtype, tuple(1 << n for n in exponents))) == expected


@pytest.mark.parametrize("number", range(-1, 5))
@pytest.mark.parametrize("size", [4, 8, 11, 12, 16, 19])
def test_strings_lie_one_after_the_other_in_the_data(number: int, size: int) -> None:
    """LiteRT reads int32 numbers: the count, then the start of each string, then the end of the last."""
    places = [-1, 0, size - 1, size, size + 1]
    offsets = size // 4 - 1  # the number of int32 numbers after the count
    for ends in product(places, repeat=offsets):
        data = np.frombuffer(struct.pack(f"<{offsets + 1}i", number, *ends) + bytes(size % 4), np.uint8)
        used = ends[: number + 1]
        fits = number == 0 or (
            0 < number < offsets
            and all(0 <= end <= size for end in used)
            and all(a <= b for a, b in pairwise(used))
        )
        assert (_strings_fault(data, max(number, 0)) == "") == (fits and number >= 0), ends
        assert _strings_fault(data, max(number, 0) + 1), "the shape has one string more"


def test_no_data_are_no_strings() -> None:
    assert _strings_fault(np.zeros(0, np.uint8), 0) == ""
    assert _strings_fault(np.zeros(3, np.uint8), 1)


@pytest.mark.parametrize("scales", [1, 2, 3])
@pytest.mark.parametrize("count", range(5))
def test_zero_points_and_ranges_are_none_one_or_as_many_as_scales(scales: int, count: int) -> None:
    """Ranges need as many minima as maxima."""
    axis = scales > 1
    value = Value("x", DType.INT8, (1, scales))
    scale = np.ones(scales, np.float32)
    for zeros, low, high in ((count, 0, 0), (scales, count, count), (scales, count, 0), (scales, 0, count)):
        minimum, maximum = (np.zeros(n, np.float32) if n else None for n in (low, high))
        value.quantization = Quantization(scale, np.zeros(zeros, np.int64), int(axis), minimum, maximum)
        found = rules(value)
        assert ("min-max" in found) == (low != high or low not in (0, 1, scales))
        assert ("quantization" in found) == (zeros not in (0, 1, scales))


@pytest.mark.parametrize(
    ("zero_point", "dtype", "is_good"),
    [(-128, DType.INT8, True), (-129, DType.INT8, False), (127, DType.INT8, True), (128, DType.INT8, False),
     (0, DType.UINT8, True), (-1, DType.UINT8, False), (255, DType.UINT8, True), (256, DType.UINT8, False)],
)  # fmt: skip
def test_a_zero_point_is_a_number_of_the_type(zero_point: int, dtype: DType, is_good: bool) -> None:
    value = Value("x", dtype, (2,))
    value.quantization = Quantization.per_tensor(1.0, zero_point)
    assert rules(value) == ([] if is_good else ["quantization-values"])


@pytest.mark.parametrize(("scale", "is_good"), [(0.0, False), (1e-40, True), (-1.0, False), (np.inf, False)])
def test_a_scale_is_finite_and_above_zero(scale: float, is_good: bool) -> None:
    value = Value("x", DType.INT8, (2,))
    value.quantization = Quantization.per_tensor(scale)
    assert rules(value) == ([] if is_good else ["quantization-values"])


def test_shape_signatures_and_external_data() -> None:
    value = Value("x", DType.FLOAT32, (2, 3))
    assert rules(value, shape_signature=[-1, 3]) == rules(value, external_buffer=1) == []
    assert rules(value, shape=[-1, 3], shape_signature=[2, 3]) == [], (
        "only one of the two knows the dimension"
    )
    assert rules(value, shape_signature=[2]) == rules(value, shape_signature=[2, 3, 4]) == ["shape-signature"]
    assert rules(value, shape_signature=[2, 4]) == rules(value, shape_signature=[0, 3]) == ["shape-signature"]
    assert rules(value, external_buffer=2) == ["external-buffer"]


def test_a_dimension_of_zero_makes_a_small_tensor() -> None:
    assert rules(Value("x", DType.INT8, (0, 1 << 40, 1 << 40))) == []
