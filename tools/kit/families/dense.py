# SPDX-License-Identifier: Apache-2.0
"""Cases of matrix products and normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization
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


# -- normalization -----------------------------------------------------------------------------

SOFTMAX = {DType.INT8: (1 / 256, -128), DType.UINT8: (1 / 256, 0), DType.INT16: (1 / 32768, 0)}
LOG_SOFTMAX = {DType.INT8: (16 / 256, 127), DType.UINT8: (16 / 256, 255), DType.INT16: (16 / 32768, 0)}
UNIT = {DType.INT8: (1 / 128, 0), DType.UINT8: (1 / 128, 128), DType.INT16: (1 / 32768, 0)}


def _fixed(table: dict[DType, tuple[float, int]], dtype: DType) -> Quantization | None:
    if dtype not in table:
        return None
    scale, zero = table[dtype]
    return Quantization(np.array([scale], np.float32), np.array([zero]))


@family("SOFTMAX", "f32 f32 i8q u8q i16q f16")
def softmax(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    x = draw.tensor(kind, draw.shape(1, 4, draw.choice((7, 40))), const=0)
    beta = draw.choice((1.0, 1.0, 0.5, 2.0, 0.1))
    if kind is QI8 and draw.chance(0.2):
        out = _fixed({DType.INT8: (1 / 65536, -32768)}, DType.INT8)
        return draw.case(cls, [x], "i8 to i16 q", [out], [DType.INT16], beta=beta)
    return draw.case(cls, [x], kind.label, [_fixed(SOFTMAX, kind.dtype)], beta=beta)


@family("LOG_SOFTMAX", "f32 f32 i8q u8q i16q")
def log_softmax(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    x = draw.tensor(kind, draw.shape(1, 4, draw.choice((7, 40))), const=0)
    return draw.case(cls, [x], kind.label, [_fixed(LOG_SOFTMAX, kind.dtype)])


@family("L2_NORMALIZATION", "f32 f32 i8q u8q i16q")
def l2_normalization(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    x = draw.tensor(kind, draw.shape(1, 4, draw.choice((7, 40))), const=0)
    return draw.case(cls, [x], kind.label, [_fixed(UNIT, kind.dtype)], act=Activation.NONE)


@family("LOCAL_RESPONSE_NORMALIZATION", "f32 u8q")
def local_response(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(4, 4)
    given: dict[str, Any] = {
        "radius": draw.integer(0, 5),
        "bias": draw.real(0.5, 4),
        "alpha": draw.real(0.01, 2),
        "beta": draw.real(0.2, 2),
    }
    x = draw.tensor(kind, shape, const=0, make=(lambda: calm(draw, shape)) if kind is F32 else None)
    return draw.case(cls, [x], kind.label, **given)


@family("RMS_NORM INSTANCE_NORM", "f32")
def affine_norm(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(4, 4)
    scales = [draw.constant(calm(draw, shape[-1:])) for _ in cls.operands[1:]]
    return draw.case(cls, [draw.tensor(F32, shape, const=0), *scales], "f32", epsilon=1e-5)


@family("FAKE_QUANT", "f32")
def fake_quant(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    given: dict[str, Any] = {
        "num_bits": draw.choice((8, 8, 4, 16, 2)),
        "min": -draw.real(0.1, 9),
        "max": draw.real(0.1, 9),
    }
    if draw.chance(0.2):
        given["min"] = draw.choice((0.0, 1.0))
        given["max"] = given["min"] + draw.real(0.5, 8)
    return draw.case(cls, [draw.tensor(F32, draw.shape(0, 5), const=0)], "f32", **given)
