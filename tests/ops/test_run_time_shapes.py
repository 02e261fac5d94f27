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
from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.comparison import Select
from circlekit.ops.convolution.conv import DepthwiseConv2D
from circlekit.ops.movement.gather import ReverseSequence
from circlekit.ops.movement.repeat import Tile
from circlekit.ops.program.detection import NonMaxSuppressionV4
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
