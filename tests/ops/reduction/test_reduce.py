# SPDX-License-Identifier: Apache-2.0
"""Reductions, ARG_MAX and ARG_MIN against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, boolean, f32, i8, i16, i32, i64
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.reduction.reduce import ArgMax, ArgMin, Mean, ReduceMax, Sum
from tests.ops.litert import check, const, graph_of, ints, kernel_results, run_litert, var

AXES: list[Any] = [[1], [-1, 0], [0, 1, 2, 3], [2, 2], [], 1]
FORMS = {
    "MEAN": ["f4", "i4", "i8"],
    "SUM": ["f4", "i4", "i8"],
    "REDUCE_PROD": ["f4", "i4", "i8"],
    "REDUCE_MAX": ["f4", "i4", "i8", "u1", "i1", "i2"],
    "REDUCE_MIN": ["f4", "i4", "i8", "u1", "i1", "i2"],
    "REDUCE_ANY": ["?"],
    "REDUCE_ALL": ["?"],
}


def data(dtype: str, *shape: int) -> Array:
    rng = np.random.default_rng(11)
    if dtype == "?":
        return rng.normal(0, 1, shape) > -0.5
    low = 0 if np.dtype(dtype).kind == "u" else -6
    return (rng.normal(0, 3, shape) if dtype == "f4" else rng.integers(low, 7, shape)).astype(dtype)


@pytest.mark.parametrize(("code", "dtype"), [(c, d) for c, dtypes in FORMS.items() for d in dtypes])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("keep_dims", [False, True])
def test_reduction(code: str, dtype: str, axes: Any, keep_dims: bool) -> None:
    x = data(dtype, 2, 3, 4, 5)
    check(REGISTRY[code](var(x), ints(axes), keep_dims=keep_dims), x)


@pytest.mark.parametrize("code", ["SUM", "REDUCE_PROD"])
def test_integers_wrap(code: str) -> None:
    x = np.full((2, 8), 2**30 + 3, np.int32)
    check(REGISTRY[code](var(x), ints([1])), x)


def test_a_sum_of_int64_wraps_before_it_becomes_a_mean() -> None:
    """Sums of 2^63, -2^63, -2^63 - 1, and of the largest number."""
    big = 2**62
    x = np.array([[big, big], [-big, -big], [-big, -big - 1], [big - 1, big]])
    check(Mean(var(x), ints([1])), x)


@pytest.mark.parametrize("code", ["MEAN", "SUM", "REDUCE_MAX"])
@pytest.mark.parametrize("axes", [[0], [-1, 3], []])
def test_a_scalar_is_reduced_to_itself(code: str, axes: Any) -> None:
    x, result = np.array(3, np.float32), Value("y", f32, ())
    op = REGISTRY[code](var(x), ints(axes), keep_dims=True, results=[result])
    graph = graph_of(op)
    (ours,), (theirs,) = kernel_results(op, [x]), run_litert(graph, [x])
    (run,) = Interpreter(Model([graph])).run([x])
    assert ours == theirs == run
    assert ours.shape == theirs.shape == run.shape == ()


@pytest.mark.parametrize("code", ["SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"])
def test_reduction_of_nothing(code: str) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    check(REGISTRY[code](var(x), ints([1])), x)


@pytest.mark.parametrize("kind", [ArgMax, ArgMin])
@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "i1"])
@pytest.mark.parametrize("dimension", [0, 2, -1, -3, [1]])
@pytest.mark.parametrize("output_type", [i32, i64])
def test_arg_extreme(kind: type[ArgMax], dtype: str, dimension: Any, output_type: DType) -> None:
    x = data(dtype, 4, 3, 5)  # the integers are few, so some are equal: the first counts
    check(kind(var(x), ints(dimension), output_type=output_type), x)


def test_unknown_dimensions() -> None:
    x = Value("x", f32, (None, 3, 4))
    assert Mean(x, ints([1]), keep_dims=True).output.shape == (None, 1, 4)
    assert Mean(x, ints([0])).output.shape == (3, 4)
    axes = Value("axes", i32, (1,))
    assert Mean(x, axes, keep_dims=True).output.shape == (None, None, None)
    assert Mean(x, axes).output.shape is None


def test_wrong_axes_and_output_types_are_shape_errors() -> None:
    x = var(data("f4", 2, 3))
    with pytest.raises(ShapeError, match="axis 2 is out of range for rank 2"):
        Mean(x, ints([2]))
    with pytest.raises(ShapeError, match="expected output_type i32 or i64, got f32"):
        ArgMax(x, ints(0))


def test_a_quantized_sum_needs_the_scale_of_its_result_and_a_maximum_does_not() -> None:
    quantization = Quantization.per_tensor(0.1, 3)
    x = Value("x", i8, (2, 3), None, quantization)
    check(ReduceMax(x, ints([1])), data("i1", 2, 3))  # the result has the quantization of the input
    with pytest.raises(ModelError, match="expected a scale, got i8 without"):
        kernel_results(Sum(x, ints([1])), [data("i1", 2, 3)])


def test_axes_follow_a_permutation_if_dimensions_are_kept() -> None:
    x = var(data("f4", 2, 3, 4, 5))
    assert Mean(x, ints([1, 2])).permuted((0, 3, 1, 2)) is None
    changed = Mean(x, ints([1, -1]), keep_dims=True).permuted((0, 3, 1, 2))
    assert changed is not None
    assert changed["axis"].dtype == np.int32
    assert changed["axis"].tolist() == [2, 1]  # the places of 1 and 3 in (0, 3, 1, 2)
    assert Mean(x, Value("a", i32, (1,)), keep_dims=True).permuted((0, 3, 1, 2)) is None


def test_the_index_of_an_extreme_is_never_that_of_nan_beside_a_number() -> None:
    inf, nan = np.inf, np.nan
    for kind, worst in ((ArgMax, -inf), (ArgMin, inf)):
        x = np.array([[nan, worst], [nan, nan], [worst, worst], [worst, 0], [nan, -worst]], np.float32)
        op = kind(var(x), const(1, np.int32), output_type=i64)
        (out,) = kernel_results(op, [x])
        assert out.tolist() == [1, 0, 0, 1, 1]


def test_versions() -> None:
    for code, versions in (
        ("MEAN", {f32: 1, i8: 2, i16: 3}),
        ("SUM", {f32: 1, i8: 2}),
        ("REDUCE_PROD", {f32: 1, i8: 2, i16: 2}),
        ("REDUCE_MAX", {f32: 1, i8: 2, i16: 3}),
        ("REDUCE_MIN", {f32: 1, i8: 2, i16: 3}),
    ):
        made = {t: REGISTRY[code](Value("x", t, (2,)), ints([0])) for t in versions}
        assert {t: op.required_version() for t, op in made.items()} == versions
    for kind in (ArgMax, ArgMin):
        made = {t: kind(Value("x", t, (2,)), ints(0), output_type=i32) for t in (f32, i8, boolean)}
        assert [op.required_version() for op in made.values()] == [1, 2, 3]
        assert kind.reference_version == 2


def test_unknown_shapes() -> None:
    x, axis = Value("x", f32, (None, 3, 4)), Value("axis", i32, ())
    nothing = Value("x", f32, None)
    assert Mean(nothing, ints([0]), keep_dims=True).output.shape is None
    assert ArgMax(x, axis, output_type=i64).output.shape == (None, None)
    assert ArgMax(nothing, ints(0), output_type=i64).output.shape is None
    assert ArgMax(x, ints(1), output_type=i64).output.shape == (None, 4)


def test_bools_have_reductions_but_no_mean_and_no_cumsum() -> None:
    flags = Value("x", boolean, (2,))
    for code in ("MEAN", "CUMSUM"):
        with pytest.raises(UnsupportedError, match=f"{code} on bool has no kernel"):
            kernel_results(REGISTRY[code](flags, ints([0])), [np.ones(2, bool)])
    for code, wanted in (("SUM", True), ("REDUCE_PROD", False), ("REDUCE_MAX", True), ("REDUCE_MIN", False)):
        (out,) = kernel_results(REGISTRY[code](flags, ints([0])), [np.array([True, False])])
        assert out.item() is wanted
    for code, wanted in (("REDUCE_MAX", False), ("REDUCE_MIN", True)):  # of no element
        (out,) = kernel_results(REGISTRY[code](Value("x", boolean, (0,)), ints([0])), [np.ones(0, bool)])
        assert out.item() is wanted


def test_mean_of_integers_rounds_towards_zero() -> None:
    x = np.array([[7, 0], [-7, 0], [1, -4]], np.int32)
    (out,) = kernel_results(Mean(var(x), ints([1])), [x])
    assert out.tolist() == [3, -3, -1]
