# SPDX-License-Identifier: Apache-2.0
"""The operators of the schema that have no kernel here, and why.  All others have one."""

from __future__ import annotations

_PROGRAM = "it is kept as it is, for runtimes that compile StableHLO"

_STABLEHLO = """
    ABS ADD AND BROADCAST_IN_DIM CASE CBRT CLAMP COMPARE CONCATENATE CONVERT CONVOLUTION COSINE CUSTOM_CALL
    DIVIDE DOT_GENERAL DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE EXPONENTIAL FLOOR GATHER IOTA LOG LOGISTIC MAXIMUM
    MINIMUM MULTIPLY NEGATE OR PAD POWER REDUCE REDUCE_WINDOW REMAINDER RESHAPE RNG_BIT_GENERATOR RSQRT
    SCATTER SELECT SHIFT_LEFT SLICE SORT SUBTRACT TANH TRANSPOSE WHILE
"""

UNSUPPORTED: dict[str, str] = {
    "CONCAT_EMBEDDINGS": "no runtime computes it",
    "DELEGATE": "it stands for a part of a model that a delegate has taken over",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "it is no operator, but a mark in old files",
    "RUN_MODEL": "it runs another model file",
    **{f"STABLEHLO_{name}": _PROGRAM for name in _STABLEHLO.split()},
}
"""Why, by the schema's name.  CUSTOM is not here: it is known by its custom code."""
