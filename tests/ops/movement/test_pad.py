# SPDX-License-Identifier: Apache-2.0
"""Borders around a tensor, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64
from circlekit.ir.enums import MirrorPadMode
from circlekit.ir.value import Array, Quantization, Shape, Value
from circlekit.ops.movement.pad import MirrorPad, Pad, PadV2
from circlekit.ops.movement.scatter import ScatterNd
from circlekit.ops.movement.space import SpaceToBatchND
from tests.ops.litert import check, const, ints, kernel_results, var


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)


PADDINGS = [[[0, 0], [1, 2], [0, 3]], [[1, 0], [0, 1], [2, 2]], [[0, 0], [0, 0], [0, 0]]]


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i2", "i1", "u1", "?"])
@pytest.mark.parametrize("paddings", PADDINGS)
def test_pad(dtype: str, paddings: list[list[int]]) -> None:
    x = data(dtype, 2, 3, 4)
    check(Pad(var(x), ints(paddings)), x)
    check(Pad(var(x), const(paddings, np.int64)), x)
    check(PadV2(var(x), ints(paddings), const(x[0, 0, 0])), x)


def test_pad_of_rank_5() -> None:
    x = data("f4", 1, 2, 3, 2, 2)
    check(Pad(var(x), ints([[0, 1], [1, 0], [0, 0], [2, 1], [0, 3]])), x)


@pytest.mark.parametrize("dtype", [i8, i16, i32, i64])
def test_zero_of_a_quantized_border_is_the_zero_point(dtype: DType) -> None:
    """LiteRT ignores the zero point of data of 32 and 64 bits."""
    x, quantization = (
        data(f"i{dtype.bits // 8}", 2, 3),
        Quantization.per_tensor(0.5, -7),
    )
    check(Pad(Value("x", dtype, (2, 3), None, quantization), ints([[1, 0], [0, 2]])), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "u1", "i1", "i2"])
@pytest.mark.parametrize("mode", [MirrorPadMode.REFLECT, MirrorPadMode.SYMMETRIC])
@pytest.mark.parametrize("paddings", [[[1, 0], [2, 1], [0, 3]], [[0, 0], [0, 2], [3, 3]]])
def test_mirror_pad(dtype: str, mode: MirrorPadMode, paddings: list[list[int]]) -> None:
    x = data(dtype, 2, 3, 4)
    check(MirrorPad(var(x), ints(paddings), mode=mode), x)


def test_pad_of_unknown_dimensions() -> None:
    assert Pad(Value("x", f32, (None, 2)), ints([[0, 1], [1, 1]])).output.shape == (None, 4)
    assert Pad(Value("x", f32, (1, 2)), Value("p", i32, (2, 2))).output.shape == (None, None)
    assert Pad(Value("x", f32, None), ints([[0, 1], [1, 1]])).output.shape == (None, None)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: Pad(x, ints([[0, 1]])), "paddings: expected 2 rows, got 1"),
        (lambda x: Pad(x, ints([0, 1])), r"paddings: expected shape \[rank,2\], got \[2\]"),
        (lambda x: Pad(x, ints([[0, -1], [0, 0]])), "paddings: expected 0 or more, got 0 and -1"),
        (
            lambda x: PadV2(x, ints([[0, 1], [0, 0]]), ints(0)),
            "expected input and constant_values of one dtype, got f32 and i32",
        ),
        *(
            (
                lambda x, count=count: PadV2(x, ints([[0, 1], [0, 0]]), const([1.0] * count, np.float32)),
                rf"constant_values: expected 1 element, got shape \[{count}\]",
            )
            for count in (0, 2)
        ),
        (
            lambda x: MirrorPad(x, ints([[0, 2], [0, 0]])),
            "paddings: expected at most 1 for REFLECT of 2 elements, got 0 and 2",
        ),
    ],
)
def test_wrong_operands_are_explained(make: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        make(var(np.zeros((2, 3), np.float32)))


@pytest.mark.parametrize("kind", [Pad, PadV2, MirrorPad])
def test_paddings_computed_in_the_run_must_not_be_negative(kind: Any) -> None:
    x, pairs = data("f4", 1), np.array([[-1, 2]], np.int32)
    op = kind(var(x), var(pairs), *([const(x[0])] if kind is PadV2 else []))
    with pytest.raises(ShapeError, match="paddings: expected 0 or more, got "):
        kernel_results(op, [x, pairs])


def test_versions() -> None:
    rows = ints(np.zeros((5, 2)))
    assert Pad(var(data("i1", 1, 1, 1, 1, 1)), rows).required_version() == 4
    assert Pad(var(data("i2", 1)), ints(np.zeros((1, 2)))).required_version() == 3


@pytest.mark.parametrize(
    ("shape", "rows", "result"),
    [
        ((2, 3), (None, 2), (None, None)),
        ((2, 3), None, (None, None)),
        (None, (3, 2), (None, None, None)),
        (None, (None, 2), None),
        (None, None, None),
    ],
)
def test_the_rank_of_a_padded_tensor_is_that_of_the_operand_or_the_number_of_paddings(
    shape: Shape | None, rows: Shape | None, result: Shape | None
) -> None:
    for dtype in (i32, i64):
        assert Pad(Value("x", f32, shape), Value("p", dtype, rows)).results[0].shape == result


def test_strings_have_no_zero_to_pad_with() -> None:
    """LiteRT refuses them, too; PADV2 and others that fill with an operand take strings."""
    x, texts = Value("x", DType.STRING, (2,)), np.array([b"a", b"b"], object)
    updates = ScatterNd(ints([[1], [0]]), x, ints([4]))
    for op in (Pad(x, ints([[1, 0]])), updates):
        with pytest.raises(UnsupportedError, match=f"{op.code} on object has no kernel"):
            kernel_results(op, [texts])
    images = SpaceToBatchND(Value("x", DType.STRING, (1, 2, 1)), ints([2]), ints([[1, 1]]))
    with pytest.raises(UnsupportedError, match="SPACE_TO_BATCH_ND on object has no kernel"):
        kernel_results(images, [texts.reshape(1, 2, 1)])
