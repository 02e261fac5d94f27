# SPDX-License-Identifier: Apache-2.0
"""What LiteRT's XNNPACK delegate checks before it takes an operator, as constraints of its forms.

Source: ``Visit*Node`` in tflite/delegates/xnnpack/xnnpack_delegate.cc, and the ``xnn_define_*`` functions
that it calls.  No other operators are taken.  Measurement decides which forms there are, and may contradict a
check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Checks = tuple[dict[str, Any], ...]

MAX_RANK: dict[str, Any] = {"rank": 6}
"""XNN_MAX_TENSOR_DIMS."""

ACTIVATIONS = {"values": {"act": ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]}}
SAME_SCALE = {"same_scale": [["input", "output"]]}
POOLING: Checks = (
    ACTIVATIONS,
    {"at_most": [["stride_w", "filter_width"], ["stride_h", "filter_height"]]},
    {"nonempty": ["input"]},
)


def _shaped(*names: str) -> Checks:
    """Return the checks of shapes: the highest rank, and elements in the operands ``names``."""
    return (MAX_RANK, {"nonempty": list(names)})


def _constant(*names: str) -> dict[str, Any]:
    return {"constant": list(names)}


def _ratio(names: Iterable[str], least: float, greatest: float) -> dict[str, Any]:
    return {"scale_ratio": [[list(names), "output", least, greatest]]}


_SLOPE = {"any_of": [[{"range": {"alpha": [2.0**-126, None]}}, {"range": {"alpha": [None, -(2.0**-126)]}}]]}
_FLAT_SHAPE = {"any_of": [[{"lowest": {"shape": 1}}, {"ranks": {"output": [0, 2, 3, 4, 5, 6]}}]]}
_TRANSPOSED_SIZES = {
    "any_of": [
        [
            {
                "values": {"padding": ["VALID"]},
                "at_most": [[["filter", 1], ["output", 1]], [["filter", 2], ["output", 2]]],
            },
            {
                "values": {"padding": ["SAME"]},
                "at_most": [["stride_h", ["filter", 1]], ["stride_w", ["filter", 2]]],
            },
        ]
    ]
}
_SCALARS = {"scalar_rank": [["lhs", "rhs"], ["rhs", "lhs"]]}
"""Not published: the result has the rank of the other operand."""

_SUM: Checks = (_ratio(["lhs"], 1 / 1024, 256), _ratio(["rhs"], 1 / 1024, 256), _SCALARS)
_REDUCE: Checks = (*_shaped("input", "axis"), _constant("axis"))
_CONVOLUTION: Checks = (
    *_shaped("input"),
    _constant("bias", "filter"),
    ACTIVATIONS,
    _ratio(["input", "filter"], 0, 256),
)

_UNARY = (
    *("ABS", "CEIL", "COS", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "LOGISTIC"),
    *("NEG", "RELU", "RELU6", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE", "TANH"),
)

XNNPACK: dict[str, Checks] = {
    **dict.fromkeys(_UNARY, _shaped("input")),
    **dict.fromkeys(("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"), _shaped("lhs", "rhs")),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), POOLING),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), _REDUCE),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _CONVOLUTION),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), (SAME_SCALE, {"range": {"block_size": [2, None]}})),
    **dict.fromkeys(("ADD", "SUB"), (*_shaped("lhs", "rhs"), ACTIVATIONS, *_SUM)),
    "BATCH_MATMUL": (
        *_shaped("x", "y"),
        {"ranks": {"x": [2, 3, 4, 5, 6], "y": [2, 3, 4, 5, 6]}},
        {"symmetric": ["y"]},
    ),
    "CONCATENATION": (
        MAX_RANK,
        {"operands": [2, 5]},
        {"same_scale": [["output", "values"]]},
        {"values": {"act": ["NONE"]}},
    ),
    "DIV": (*_shaped("lhs", "rhs"), ACTIVATIONS),
    "FULLY_CONNECTED": (
        MAX_RANK,
        _constant("bias", "weights"),
        ACTIVATIONS,
        {"values": {"weights_format": ["DEFAULT"]}},
        {"symmetric": ["weights"]},
        {"row_multiple": {"weights": 2}},  # of int4
    ),
    "LEAKY_RELU": (
        *_shaped("input"),
        _SLOPE,
        _ratio(["input"], 1 / 256, 128),
        _ratio(["input", "alpha"], 1 / 256, 128),
    ),
    "MUL": (*_shaped("lhs", "rhs"), ACTIVATIONS, _ratio(["lhs", "rhs"], 1 / 65536, 256), _SCALARS),
    "PAD": (
        *_shaped("input", "output"),
        _constant("paddings"),
        {"lowest": {"paddings": 0}},
        SAME_SCALE,
        {"ranks": {"input": [1, 2, 3, 4, 5, 6]}},
    ),
    "PRELU": (*_shaped("input", "alpha"), _constant("alpha")),
    "QUANTIZE": (*_shaped("input"), _ratio(["input"], 1 / 256, 128)),
    "RESHAPE": (*_shaped("input", "output"), _constant("shape"), SAME_SCALE, _FLAT_SHAPE),
    "RESIZE_BILINEAR": (_constant("size"), {"nonempty": ["input"]}, SAME_SCALE),
    "SLICE": (MAX_RANK, _constant("begin", "size"), {"lowest": {"size": 1}}, SAME_SCALE),
    "SOFTMAX": (MAX_RANK, {"range": {"beta": [1, 1]}}),
    "SPLIT": (
        MAX_RANK,
        _constant("split_dim"),
        {"range": {"num_splits": [2, 4]}},
        {"same_scale": [["output", "value"]]},
    ),
    "STRIDED_SLICE": (
        MAX_RANK,
        _constant("begin", "end", "strides"),
        {"numbers": {"strides": [1]}},
        {"values": {"ellipsis_mask": [0], "new_axis_mask": [0], "shrink_axis_mask": [0]}},
        SAME_SCALE,
    ),
    "TRANSPOSE": (*_shaped("input"), _constant("perm"), SAME_SCALE),
    "TRANSPOSE_CONV": (_constant("bias", "filter", "output_shape"), ACTIVATIONS, _TRANSPOSED_SIZES),
}
"""Checks by operator."""
