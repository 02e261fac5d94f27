# SPDX-License-Identifier: Apache-2.0
"""Parts of a tensor, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.slice import Slice, StridedSlice
from tests.ops.litert import check, const, ints, kernel_results, var

MOVED = ["f4", "i4", "i8", "i2", "i1", "u1", "?"]


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)


def test_sizes_up_to_the_end_follow_a_new_shape() -> None:
    op = Slice(var(data("f4", 5, 6, 4)), ints([0, 2, 1]), ints([4, 3, 2]))
    old = {"input": (4, 5, 4)}  # the first two axes are read up to the end, and have become longer
    assert op.for_new_shapes(old, True) == {"size": [-1, -1, 2]}


@pytest.mark.parametrize("dtype", [*MOVED, "f2", "u4"])
@pytest.mark.parametrize(
    ("begin", "size"), [([0, 1, 2], [2, 2, 3]), ([1, 0, 0], [-1, -1, 0]), ([0, 3, 1], [1, 0, -1])]
)
def test_slice(dtype: str, begin: list[int], size: list[int]) -> None:
    x = data(dtype, 2, 3, 5)
    check(Slice(var(x), ints(begin), ints(size)), x)
    check(Slice(var(x), const(begin, np.int64), const(size, np.int64)), x)


def test_slice_of_rank_5() -> None:
    x = data("f4", 2, 1, 3, 4, 2)
    check(Slice(var(x), ints([0, 0, 1, 1, 1]), ints([1, -1, 2, 2, -1])), x)


def test_slice_of_unknown_dimensions() -> None:
    x = Value("x", f32, (None, 4))
    assert Slice(x, ints([1, 1]), ints([-1, 2])).output.shape == (None, 2)
    assert Slice(x, Value("b", i32, (2,)), ints([3, -1])).output.shape == (3, None)
    assert Slice(x, Value("b", i32, (2,)), Value("s", i32, (2,))).output.shape == (None, None)


def random_box(seed: int) -> tuple[list[list[int]], dict[str, Any]]:
    """Return begin, end and strides over [4,5,6], some of them negative; and begin and end masks."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    begin, end = rng.integers(-6, 7, count).tolist(), rng.integers(-8, 9, count).tolist()
    strides = rng.choice([-3, -2, -1, 1, 2, 3], count).tolist()
    return [begin, end, strides], {"begin_mask": int(rng.integers(0, 8)), "end_mask": int(rng.integers(0, 8))}


@pytest.mark.parametrize("seed", range(60))
def test_strided_slice(seed: int) -> None:
    x = data("f4", 4, 5, 6)
    boxes, masks = random_box(seed)
    check(StridedSlice(var(x), *[ints(b) for b in boxes], **masks), x)
    check(StridedSlice(var(x), *[ints(b) for b in boxes]), x)


def random_entries(seed: int) -> tuple[list[list[int]], dict[str, Any]]:
    """Return begin, end and strides over [4,5,6]; and all masks.

    Some entries are new axes or shrunk axes.  With an odd seed, one is an ellipsis for one axis or more.
    """
    rng = np.random.default_rng(seed)
    new, ellipsis, real = int(rng.integers(0, 3)), seed % 2, int(rng.integers(0, 3))
    kinds = rng.permutation(
        ["new"] * new + ["ellipsis"] * ellipsis + ["real"] * real + ["shrink"] * (seed % 3 == 0 and real < 2)
    )
    if not len(kinds):
        kinds = np.array(["real"])

    def mask(kind: str) -> int:
        return sum(1 << i for i, k in enumerate(kinds) if k == kind)

    boxes = [rng.integers(0, 3, len(kinds)).tolist(), rng.integers(3, 6, len(kinds)).tolist()]
    strides = [1 if k == "shrink" else int(rng.integers(1, 3)) for k in kinds]
    masks = {
        "ellipsis_mask": mask("ellipsis"),
        "new_axis_mask": mask("new"),
        "shrink_axis_mask": mask("shrink"),
    }
    more = {"begin_mask": int(rng.integers(0, 32)), "end_mask": int(rng.integers(0, 32))}
    return [*boxes, strides], masks | more


@pytest.mark.parametrize("seed", range(60))
def test_strided_slice_masks(seed: int) -> None:
    x = data("f4", 4, 5, 6)
    boxes, masks = random_entries(seed)
    check(StridedSlice(var(x), *[ints(b) for b in boxes], **masks), x)


@pytest.mark.parametrize("dtype", [*MOVED, "u4"])
def test_strided_slice_moves_any_dtype(dtype: str) -> None:
    x = data(dtype, 3, 4)
    check(StridedSlice(var(x), ints([0, -1]), ints([3, 0]), ints([2, -2]), begin_mask=1), x)


def test_strided_slice_by_offset() -> None:
    x = data("f4", 4, 5, 6)
    check(StridedSlice(var(x), ints([1, 2, 0]), ints([2, 2, 6]), ints([1, 1, 2]), offset=True), x)


def test_strided_slice_of_negative_single_elements() -> None:
    x = data("f4", 4, 5, 6)
    check(StridedSlice(var(x), ints([-1, -2, 0]), ints([0, 2, 6]), ints([1, 1, 1]), shrink_axis_mask=3), x)


def test_strided_slice_of_unknown_dimensions() -> None:
    x, one = Value("x", f32, (None, 4, 5)), ints([1, 1])
    assert StridedSlice(x, ints([0, 1]), ints([2, 3]), one).output.shape == (None, 2, 5)
    assert StridedSlice(x, ints([0, 1]), ints([2, 3]), one, shrink_axis_mask=1).output.shape == (2, 5)
    assert StridedSlice(x, ints([0, 1]), ints([0, 3]), one, begin_mask=1, end_mask=1).output.shape == (
        None,
        2,
        5,
    )
    free = Value("b", i32, (2,))
    assert StridedSlice(x, free, free, one, shrink_axis_mask=2).output.shape == (None, 5)


def test_an_ellipsis_for_no_axis_is_refused() -> None:
    x = data("f4", 4)
    op = StridedSlice(var(x), ints([0, 1]), ints([0, 2]), ints([1, 1]), ellipsis_mask=1)
    assert op.output.shape == (1,)
    with pytest.raises(UnsupportedError, match="an ellipsis that stands for no axis"):
        kernel_results(op, [x])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: Slice(x, ints([0, 2]), ints([1, 2])), "a slice of size 2 at 2 exceeds a dimension of 3"),
        (lambda x: Slice(x, ints([0, -1]), ints([1, 2])), "a slice of size 2 at -1 exceeds a dimension of 3"),
        (lambda x: Slice(x, ints([0, 4]), ints([1, -1])), "a slice of size -1 at 4 exceeds a dimension of 3"),
        (lambda x: Slice(x, ints([0]), ints([1])), r"expected begin of shape \[2\], got \[1\]"),
        (lambda x: Slice(x, ints([0, 0]), ints([1, -2])), "size: expected -1 or more, got -2"),
        (
            lambda x: StridedSlice(x, ints([0]), ints([1]), ints([0])),
            "strides: expected non-zero numbers, got 0",
        ),
        (
            lambda x: StridedSlice(x, *[ints([1, 1, 1])] * 3),
            "begin: expected at most 2 axes of input, got 3",
        ),
        (
            lambda x: StridedSlice(x, *[ints([5])] * 3, shrink_axis_mask=1),
            "index 5 is out of range for a dimension of 2",
        ),
        (
            lambda x: StridedSlice(x, ints([0]), ints([1, 2]), ints([1])),
            "expected begin, end and strides of equal length, got 1, 2 and 1 elements",
        ),
    ],
)
def test_wrong_operands_are_explained(make: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        make(var(np.zeros((2, 3), np.float32)))


def test_versions() -> None:
    def version(dtype: str, **masks: Any) -> int:
        return StridedSlice(
            var(data(dtype, 2, 3)), ints([0]), ints([1]), ints([1]), **masks
        ).required_version()

    assert [version("f4"), version("i1"), version("?"), version("u4")] == [1, 2, 3, 7]
    assert [version("f4", new_axis_mask=1), version("f4", offset=True)] == [6, 8]


def test_a_sliced_string_stays_an_array() -> None:
    x = Value("x", DType.STRING, (2,))
    op = StridedSlice(x, ints([1]), ints([2]), ints([1]), shrink_axis_mask=1)
    (out,) = kernel_results(op, [np.array([b"one", b"two"], object)])
    assert out.shape == ()
    assert out.dtype == np.dtype(object)
    assert out.item() == b"two"
