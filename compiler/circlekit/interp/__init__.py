# SPDX-License-Identifier: Apache-2.0
"""The interpreter: run models with the kernels of their operators."""

from __future__ import annotations

from circlekit.interp.evaluate import CustomKernel, evaluate, register_custom, unregister_custom
from circlekit.interp.graph_runner import Observe, OnValue
from circlekit.interp.interpreter import Interpreter, run

__all__ = [
    "CustomKernel",
    "Interpreter",
    "Observe",
    "OnValue",
    "evaluate",
    "register_custom",
    "run",
    "unregister_custom",
]
