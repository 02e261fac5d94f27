# SPDX-License-Identifier: Apache-2.0
"""Constraints on several things at once, that no measurement proposes by itself: read from published sources.

They enter a table only where measurement confirms them.
"""

from __future__ import annotations

from typing import Any

_KEEPS = {"values": {"keep_dims": [True]}}
_REDUCE = (
    {
        "any_of": [
            [
                _KEEPS,
                {"ranks": {"input": [0, 1, 2, 3, 5, 6, 7, 8]}},
                {"ranks": {"output": [0, 1, 4]}},
                {
                    "ranks": {"output": [2]},
                    "same_dims": [["input", 0, "output", 0], ["input", 3, "output", 1]],
                },
                {
                    "ranks": {"output": [3]},
                    "same_dims": [["input", axis, "output", axis] for axis in range(3)],
                },
                *(
                    {
                        "ranks": {"output": [3]},
                        "same_dims": [["input", 0, "output", 0], ["input", axis, "output", 1]],
                        "dims": [["input", 3, 1], ["output", 2, 1]],
                    }
                    for axis in (1, 2)
                ),
            ]
        ]
    },
)
"""ONE, ShapeValidator.cc, Reduce: of four dimensions, only height and width or channels are removed."""

_RESIZE = (
    {
        "any_of": [
            [
                {"values": {"align_corners": [False]}},
                {"values": {"half_pixel_centers": [False]}},
                {"computed": ["size"]},
            ]
        ]
    },
)
"""TensorFlow Lite, resize_bilinear.cc: both together are refused, if the size is constant."""

_ARG = ({"any_of": [[{"constant": ["dimension"]}, {"ranks": {"input": [0, 1]}}]]},)
"""onert, with a computed dimension: the shape of the result must be known without it."""

SUSPECTS: dict[str, tuple[dict[str, Any], ...]] = {
    **dict.fromkeys(
        ("REDUCE_ANY", "REDUCE_ALL", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM", "MEAN"), _REDUCE
    ),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _RESIZE),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _ARG),
    "SLICE": (
        {"any_of": [[{"constant": ["begin"]}, {"ranks": {"input": [1]}}]]},
        {"any_of": [[{"constant": ["begin"]}, {"lowest": {"size": 0}}]]},
    ),
    "STRIDED_SLICE": ({"numbers": {"strides": [1]}},),
    "ONE_HOT": ({"values": {"axis": list(range(-1, 9))}},),
    "REVERSE_V2": ({"consecutive": ["axis"]},),
    "SELECT": (
        {
            "any_of": [
                [
                    {"same_shape": [["condition", "x"]]},
                    {"ranks": {"condition": [0]}},
                    {"elements": {"condition": 1, "x": 1}},
                    {"ranks": {"condition": [1]}, "same_dims": [["condition", 0, "x", 0]]},
                ],
            ]
        },
    ),
}
