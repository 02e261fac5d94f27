# SPDX-License-Identifier: Apache-2.0
"""Checks of shape rules and kernels: what they accept, and what their errors say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from circlekit.errors import CirclekitError, ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32, f64, i8, i32
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.checks import (
    reject_quantized,
    require_bias,
    require_float,
    require_int_list,
    require_length,
    require_numpy_kind,
    require_rank,
    require_same_dtype,
    require_same_float,
)


def var(dtype: Any, *shape: int | None) -> Value:
    return Value("v", dtype, shape)


QUANTIZED = Value("q", i8, (1,), None, Quantization.per_tensor(0.5))
ADD = Add(var(f32, 2), var(f32, 2))
F4, F8, I4 = (np.zeros(1, t) for t in (np.float32, np.float64, np.int32))

ACCEPTED: list[Callable[[], object]] = [
    lambda: require_rank(Value("v", f32, None), "x", 4),
    lambda: require_rank(var(f32, 1, 2), "x", 4, 2),
    lambda: require_length(None, 2, "x"),
    lambda: require_length((None,), 2, "x"),
    lambda: require_length((2,), 2, "x"),
    lambda: require_bias(None, 3),
    lambda: require_bias(Value("v", f32, None), 3),
    lambda: require_bias(var(f32, 3), 3),
    lambda: require_bias(var(f32, 3), None),
    lambda: require_same_dtype("a", var(f32), "b", var(f32)),
    lambda: require_same_float(ADD),
    lambda: require_int_list([1, np.int64(2)], "x"),
    lambda: require_numpy_kind(ADD, F4, "if"),
    lambda: require_float(ADD, F4, None, F4),
    lambda: require_float(ADD, F8, F8),
    lambda: reject_quantized(ADD),
]

REFUSED: list[tuple[Callable[[], object], type[CirclekitError], str]] = [
    (
        lambda: require_rank(var(f32, 1, 2), "x", 3, 4),
        ShapeError,
        r"expected x of rank 3 or 4, got shape \[1,2\]",
    ),
    (lambda: require_length((3,), 2, "x"), ShapeError, r"expected x of shape \[2\], got \[3\]"),
    (lambda: require_length((2, 1), 2, "x"), ShapeError, r"expected x of shape \[2\], got \[2,1\]"),
    (
        lambda: require_bias(var(f32, 2), 3),
        ShapeError,
        "expected bias of 3 elements, one per channel of the .* 2",
    ),
    (
        lambda: require_same_dtype("a", var(f32), "b", var(i8)),
        ShapeError,
        "expected a and b of one dtype, got f32 and i8",
    ),
    (
        lambda: require_same_float(Add(var(f32), var(f64), results=[])),
        ShapeError,
        "expected lhs and rhs of one dtype, got f32 and f64",
    ),
    (lambda: require_int_list([1, 2.5], "x"), ModelError, "expected integers in x, got 2.5"),
    (lambda: require_int_list(5, "x"), ModelError, "expected a list of integers in x, got 5"),
    (lambda: require_int_list(np.array(5), "x"), ModelError, "expected a list of integers in x, got array"),
    (lambda: require_int_list("12", "x"), ModelError, "expected a list of integers in x, got '12'"),
    (lambda: require_int_list([True], "x"), ModelError, "expected integers in x, got True"),
    (lambda: require_numpy_kind(ADD, I4, "fu"), UnsupportedError, "ADD on int32 has no kernel"),
    (lambda: require_float(ADD, F4, F8), UnsupportedError, "ADD on float32, float64 has no kernel"),
    (lambda: require_float(ADD, I4), UnsupportedError, "ADD on int32 has no kernel"),
    (
        lambda: reject_quantized(Add(var(f32), QUANTIZED, results=[])),
        UnsupportedError,
        "ADD on quantized i8 .%q. has no kernel",
    ),
    (
        lambda: reject_quantized(Add(var(i32), var(i32), results=[QUANTIZED])),
        UnsupportedError,
        "ADD on quantized i8 .%q. has no kernel",
    ),
]


@pytest.mark.parametrize("check", ACCEPTED)
def test_accepted(check: Callable[[], object]) -> None:
    check()


@pytest.mark.parametrize(("check", "error", "sentence"), REFUSED)
def test_refused(check: Callable[[], object], error: type[CirclekitError], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        check()
