# SPDX-License-Identifier: Apache-2.0
"""Runs a graph with the kernels of the operators."""

from __future__ import annotations

from circlekit.interp.evaluate import CustomKernel, evaluate, register_custom
from circlekit.interp.run import Interpreter, Observe, run, run_graph

__all__ = ["CustomKernel", "Interpreter", "Observe", "evaluate", "register_custom", "run", "run_graph"]
