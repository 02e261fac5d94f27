# SPDX-License-Identifier: Apache-2.0
"""The text of an operator's form."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.value import Quantization, Value
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.targets.operator_form import form_of, type_text


def value(dtype: DType, scales: int = 0) -> Value:
    """Return a value with ``scales`` scales; with 0 it is not quantized."""
    made = Value("x", dtype, (1, 2, 2, 3))
    if scales:
        made.quantization = Quantization(np.ones(scales, np.float32), np.zeros(scales, np.int64), 3)
    return made


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (None, "-"),
        (value(f32), "f32"),
        (value(i8), "i8"),
        (value(i8, 1), "i8q"),
        (value(u8, 3), "u8qc"),
        (value(i16, 1), "i16q"),
        (value(f32, 1), "f32"),
        (value(i32, 3), "i32"),
        (value(DType.INT4, 3), "i4qc"),
    ],
)
def test_type(made: Value | None, text: str) -> None:
    assert type_text(made) == text


def test_scales_per_block() -> None:
    blocks = Value("w", DType.INT4, (4, 32))
    blocks.quantization = Quantization(
        np.zeros(0, np.float32),
        np.zeros(0, np.int64),
        0,
        details={"": "BlockwiseQuantization", "block_size": 32},
    )
    assert type_text(blocks) == "i4qb"


def test_sparse_data() -> None:
    sparse = value(f32)
    sparse.extra["sparsity"] = {}
    assert type_text(sparse) == "f32s"


def test_absent_operands_at_the_end_do_not_count() -> None:
    data, weights, result = value(f32), value(i8, 3), value(f32)
    assert form_of(Conv2D(data, weights, None, results=[result])) == "f32,i8qc:f32"
    assert form_of(Conv2D(data, weights, value(f32), results=[result])) == "f32,i8qc,f32:f32"


def test_alike_members_of_lists_count_once() -> None:
    same = [value(i8, 1) for _ in range(3)]
    assert form_of(Concatenation(*same, results=[value(i8, 1)])) == "i8q:i8q"
    assert form_of(Concatenation(same[0], value(f32), same[1], results=[value(f32)])) == "i8q,f32:f32"
    split = Split(value(i32), value(f32), num_splits=2, results=[value(f32), value(f32)])
    assert form_of(split) == "i32,f32:f32"
