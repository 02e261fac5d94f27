# SPDX-License-Identifier: Apache-2.0
"""Kernels refuse operands that do not fit together and whose shapes are known only in the run.

numpy would accept these operands: it broadcasts them, adds axes, or drops what is left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import DType, i32
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.bits import MatrixSetDiag
from circlekit.ops.arithmetic.comparison import Select
from circlekit.ops.arithmetic.unary import Rfft2d
from circlekit.ops.convolution.conv import DepthwiseConv2D
from circlekit.ops.movement.gather import ReverseSequence, ReverseV2
from circlekit.ops.movement.repeat import Tile
from circlekit.ops.movement.scatter import ScatterNd
from circlekit.ops.movement.sparse import EmbeddingLookupSparse, HashtableLookup, SparseToDense
from circlekit.ops.program.detection import NonMaxSuppressionV4
from circlekit.ops.reduction.cumsum import Cumsum
from circlekit.ops.reduction.reduce import ArgMax
from tests.ops.litert import kernel_results


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def integers(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


@pytest.mark.parametrize(
    ("kind", "arrays", "sentence"),
    [
        (DepthwiseConv2D, [floats(1, 2, 2, 2), floats(1, 2, 2, 1)], "filter has 1 channel, expected"),
        (
            DepthwiseConv2D,
            [floats(1, 2, 2, 1), floats(3, 1, 1, 2)],
            r"filter has shape \[3,1,1,2\]",
        ),
        (ReverseSequence, [floats(2, 3), integers(1)], "seq_lengths: expected 2 elements, .*, got 1"),
        (
            Select,
            [np.array([True, False]), floats(1, 3), floats(1, 3)],
            "expected 1 element, one per row",
        ),
        (Tile, [floats(2), integers(2, 2)], "multiples: expected 1 element, got 2"),
        (
            NonMaxSuppressionV4,
            [floats(3, 4), floats(2), integers(1), floats(), floats()],
            r"expected boxes of shape \[n,4\] and scores of shape \[n\], got \[3,4\] and \[2\]",
        ),
    ],
)
def test_operands_that_do_not_fit(kind: type[Op], arrays: Sequence[Any], sentence: str) -> None:
    attributes: dict[str, Any] = {"seq_dim": 1} if kind is ReverseSequence else {}
    op = kind(*(Value("", DType.of(array.dtype), None) for array in arrays), **attributes)
    with pytest.raises(ShapeError, match=sentence):
        kernel_results(op, arrays)


@pytest.mark.parametrize(
    ("kind", "arrays", "sentence"),
    [
        (ReverseV2, [floats(2), integers(5)], "axis 5 is out of range for rank 1"),
        (ReverseV2, [floats(2, 3), integers(1, -1)], r"axis: expected each axis once, got \[1, -1\]"),
        (ArgMax, [floats(3, 0), integers(1)], "ARG_MAX: expected elements along axis 1, got none"),
        (Cumsum, [floats(3), integers()], "expected 1 element in axis, got 0"),
        (
            NonMaxSuppressionV4,
            [floats(3, 4), floats(3), integers(1)[0], floats(2), floats()],
            r"expected iou_threshold of shape \[\], got \[2\]",
        ),
        (
            SparseToDense,
            [integers(1), integers(3), floats(1), floats(0)],
            r"default_value: expected 1 element, got shape \[0\]",
        ),
        (
            EmbeddingLookupSparse,
            [integers(0, 0), np.zeros((2, 2), np.int32), integers(1, 1), floats(3), floats(4, 2)],
            r"expected weights of shape \[2\], got \[3\]",
        ),
        (
            EmbeddingLookupSparse,
            [integers(0), np.zeros((1, 2), np.int32), integers(1, 1), floats(1), floats(4)],
            r"expected value of rank 2 or more, got shape \[4\]",
        ),
        (
            HashtableLookup,
            [integers(1), integers(1, 2), floats(3, 2)],
            r"expected key of shape \[3\], got \[2\]",
        ),
        (
            SparseToDense,
            [np.zeros((1, 2), np.int32), integers(3), floats(1), floats()],
            "expected indices of 1 coordinate, one per axis of the result, got 2",
        ),
        (
            ScatterNd,
            [np.zeros((1, 1), np.int32), floats(1, 4), integers(2, 3)],
            r"updates: expected shape \[1,3\], got \[1,4\]",
        ),
        (MatrixSetDiag, [floats(5, 2, 3), floats(5, 3)], r"diagonal: expected shape \[5,2\], got \[5,3\]"),
        (Rfft2d, [floats(4, 4), integers(3, 4)], r"expected powers of two for fft_length, got \[3, 4\]"),
        (
            HashtableLookup,
            [integers(1), integers(1), floats()],
            "value of rank 1 or more, got a scalar",
        ),
    ],
)
def test_rules_say_why_operands_do_not_fit(kind: type[Op], arrays: Sequence[Any], sentence: str) -> None:
    """They say the same before a run, with known shapes and constants, and in a run that shows these."""
    attributes: dict[str, Any] = {"output_type": i32} if kind is ArgMax else {}
    with pytest.raises(ShapeError, match=sentence):
        kind(*(Value.constant("", np.asarray(array)) for array in arrays), **attributes)
    op = kind(*(Value("", DType.of(np.asarray(array).dtype), None) for array in arrays), **attributes)
    with pytest.raises(ShapeError, match=sentence):
        evaluate(op, arrays)
