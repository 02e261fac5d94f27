# SPDX-License-Identifier: Apache-2.0
"""Runs a graph with the kernels of the operators."""

from __future__ import annotations

from circlekit.interp.evaluate import CustomKernel, evaluate, register_custom
from circlekit.interp.interpreter import Interpreter, Observe, OnValue
from circlekit.interp.run import run, run_graph

__all__ = [
    "CustomKernel",
    "Interpreter",
    "Observe",
    "OnValue",
    "evaluate",
    "register_custom",
    "run",
    "run_graph",
]
