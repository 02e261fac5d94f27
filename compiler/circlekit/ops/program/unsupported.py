# SPDX-License-Identifier: Apache-2.0
"""Operators of the schema without a kernel, and the reason."""

from __future__ import annotations

_STABLEHLO_REASON = "StableHLO operators are kept unchanged, for runtimes that compile them"

_STABLEHLO = """
    ABS ADD AND BROADCAST_IN_DIM CASE CBRT CLAMP COMPARE CONCATENATE CONVERT CONVOLUTION COSINE CUSTOM_CALL
    DIVIDE DOT_GENERAL DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE EXPONENTIAL FLOOR GATHER IOTA LOG LOGISTIC MAXIMUM
    MINIMUM MULTIPLY NEGATE OR PAD POWER REDUCE REDUCE_WINDOW REMAINDER RESHAPE RNG_BIT_GENERATOR RSQRT
    SCATTER SELECT SHIFT_LEFT SLICE SORT SUBTRACT TANH TRANSPOSE WHILE
"""

UNSUPPORTED: dict[str, str] = {
    "CONCAT_EMBEDDINGS": "no runtime implements it",
    "DELEGATE": "it represents a part of a model that a delegate has replaced",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "it is a placeholder for newer operators in old files",
    "RUN_MODEL": "it runs another model file",
    **{f"STABLEHLO_{name}": _STABLEHLO_REASON for name in _STABLEHLO.split()},
}
"""Reason by the schema's name.  Custom operators are looked up by their custom code instead."""
