# SPDX-License-Identifier: Apache-2.0
"""Modes of one-quantize, choices of its options, and the metrics of its evaluation.

This module imports nothing, so that ``one-quantize --help`` is fast.
"""

from __future__ import annotations

GROUPS = {
    "force_quantparam": ("tensor_name", "scale", "zero_point"),
    "copy_quantparam": ("src_tensor_name", "dst_tensor_name"),
}
"""{mode: its repeated options}; the n-th values of these options belong together.

The mode itself is a switch, which takes no value.
"""

CHANGES = ("force_quantparam", "copy_quantparam", "fake_quantize", "requantize")
"""The modes that change a quantized model; if several are set, the first runs."""

ALGORITHMS = ("bisection", "pattern")
"""The values of ``ampq_algorithm``."""

SIDES = {"auto": None, "i16_front": True, "i16_back": False}
"""{value of ``bisection_type``: argument ``is_int16_front`` of ``Solver.bisect``}."""

METRICS = ("mae", "mape", "mpeir", "top1_match", "top5_match", "mse")
"""The metrics that ``evaluate_result`` can print: the keys of ``evaluation.METRICS``."""
