# SPDX-License-Identifier: Apache-2.0
"""Quantized layers whose wide weights an interpreter has no room to keep, against those that it keeps."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, i8, i16, i32, u8
from circlekit.ir.op import Op
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul import dense_quantized
from circlekit.ops.matmul.dense import FullyConnected
from tests.ops.quantized import draw, generator, quantized


class NoRoom(Tape):
    """Calls at once, and keeps nothing."""

    def keeps(self, size: int) -> bool:
        return False


SHAPES: dict[type[Op], tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    Conv2D: ((2, 9, 8, 5), (7, 3, 2, 5), (2, 9, 8, 7)),
    DepthwiseConv2D: ((2, 9, 8, 6), (1, 3, 3, 6), (2, 9, 8, 6)),
    TransposeConv: ((2, 4, 5, 6), (7, 3, 4, 6), (2, 8, 10, 7)),
    FullyConnected: ((3, 200), (900, 200), (3, 900)),
}
STRIDES: dict[type[Op], dict[str, int]] = {TransposeConv: {"stride_h": 2, "stride_w": 2}}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("dtype", [i8, u8, i16])
@pytest.mark.parametrize("rows", [1, 2])
def test_widened_in_every_run(
    kind: type[Op], dtype: DType, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_quantized, "WIDENED", 1 << 14)  # several parts
    monkeypatch.setattr(dense_quantized, "FEW", 0)
    rng = generator(kind.__name__, dtype.short)
    data_shape, filter_shape, out_shape = SHAPES[kind]
    data_shape, out_shape = (rows, *data_shape[1:]), (rows, *out_shape[1:])
    weights = u8 if dtype is u8 else i8
    x, w = draw(rng, dtype, data_shape), draw(rng, weights, filter_shape)
    channels = out_shape[-1]
    bias = rng.integers(-9000, 9000, channels).astype(np.int64 if dtype is i16 else np.int32)
    zeros = (0, 0, 0) if dtype is i16 else (7, 0 if dtype is i8 else 131, -3 if dtype is i8 else 90)
    values = [
        quantized(dtype, data_shape, 0.02, zeros[0]),
        quantized(weights, filter_shape, 0.003, zeros[1], w),
        quantized(DType.INT64 if dtype is i16 else i32, (channels,), 0.00006, 0, bias),
    ]
    arrays: list[Array] = [x, w, bias]
    if kind is TransposeConv:
        shape = np.array(out_shape, np.int32)
        values = [Value.constant("shape", shape), values[1], values[0], values[2]]
        arrays = [shape, w, x, bias]
    op = kind(*values, results=[quantized(dtype, out_shape, 0.05, zeros[2])], **STRIDES.get(kind, {}))
    kept, widened = op.bind(NOW, *arrays), op.bind(NoRoom(), *arrays)
    assert len(np.unique(kept)) > 20
    np.testing.assert_array_equal(widened, kept)
