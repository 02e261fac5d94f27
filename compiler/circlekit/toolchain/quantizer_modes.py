# SPDX-License-Identifier: Apache-2.0
"""Modes of one-quantize, their options, and the metrics of its evaluation."""

from __future__ import annotations

GROUPS = {
    "force_quantparam": ("tensor_name", "scale", "zero_point"),
    "copy_quantparam": ("src_tensor_name", "dst_tensor_name"),
}
"""Modes of one-quantize with repeated options: the n-th values of these options belong together."""

CHANGES = ("force_quantparam", "copy_quantparam", "fake_quantize", "requantize")
"""Modes that change a quantized model; the first that is given wins."""

METRICS = ("mae", "mape", "mpeir", "top1_match", "top5_match", "mse")
"""The metrics that ``evaluate_result`` can print: those of ``evaluation``, which imports the interpreter."""
