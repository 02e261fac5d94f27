# SPDX-License-Identifier: Apache-2.0
"""Cases of matrix products."""

from __future__ import annotations

from typing import Any

from circlekit.ir.dtypes import DType
from circlekit.ir.enums import WeightsFormat
from circlekit.ir.op import Op
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.families.windows import bias_type, bounded, calm, quantized_weights, weighted
from tools.kit.kinds import F32, HYBRID, I8, QI8, Case, Kind


@family("FULLY_CONNECTED", "f32 f32 i8q i8q u8q i16q i16q hybrid hybrid")
def fully_connected(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    depth, channels = (
        draw.choice((draw.integer(1, 12), draw.integer(1, 12), draw.integer(60, 300))),
        draw.integer(1, 9),
    )
    keep = draw.chance(0.5)
    shape = (*draw.shape(0 if depth == 1 and not keep else 1, 3, 4), depth)
    made = weighted(draw, kind, shape, (channels, depth), 0, wide=True)
    given: dict[str, Any] = {
        "keep_num_dims": keep,
        "weights_format": WeightsFormat.DEFAULT,
        "quantized_bias_type": bias_type(made),
    }
    return bounded(draw, draw.case(cls, made[:3], made.label, quant_spec=None, **given))


@family("BATCH_MATMUL", "f32 f32 i8q i8q i16q hybrid i32")
def batch_matmul(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    rows, depth, columns = (
        draw.integer(1, 7),
        draw.choice((draw.integer(1, 9), draw.integer(50, 200))),
        draw.integer(1, 7),
    )
    batch = draw.shape(0, 3, 3)
    other = tuple(1 if draw.chance(0.3) else d for d in batch)[
        draw.integer(0, len(batch)) if draw.chance(0.4) else 0 :
    ]
    adj_x, adj_y = draw.chance(0.4), draw.chance(0.4)
    left = (*batch, depth, rows) if adj_x else (*batch, rows, depth)
    right = (*other, columns, depth) if adj_y else (*other, depth, columns)
    given: dict[str, Any] = {"adj_x": adj_x, "adj_y": adj_y}
    if kind is HYBRID:
        right = right[-4:]  # with more axes, LiteRT reads sums of rows that it did not compute
        x = draw.tensor(F32, left, const=0, make=lambda: calm(draw, left))
        return draw.case(cls, [x, quantized_weights(draw, I8, right, 0, False)], "f32 x i8", **given)
    if kind is F32:
        values = [draw.tensor(F32, s, const=0.2, make=lambda s=s: draw.summands(s)) for s in (left, right)]  # type: ignore[misc]
        return draw.case(cls, values, kind.label, **given)
    x = draw.tensor(kind, left, const=0)
    quantization = None
    if kind is QI8:
        quantization = draw.quantization(DType.INT8)
    return draw.case(cls, [x, draw.tensor(kind, right, quantization, const=0.4)], kind.label, **given)
