# SPDX-License-Identifier: Apache-2.0
"""Optimize circle and TFLite models, every rewrite proven by value.

    model = circlekit.load("in.tflite")
    report = circlekit.optimize(model, verify=True)
    circlekit.save(model, "out.circle")

A name is imported when it is first used, so that the start of a command pays for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from circlekit.api import compare, load, optimize, read_pipeline, run, save
    from circlekit.errors import CirclekitError
    from circlekit.interp.evaluate import register_custom
    from circlekit.interp.interpreter import Interpreter
    from circlekit.ir.graph import Model
    from circlekit.ir.resource_limits import limited
    from circlekit.ops.numerics.kernel_flavor import Kernels

__all__ = [
    "CirclekitError",
    "Interpreter",
    "Kernels",
    "Model",
    "compare",
    "limited",
    "load",
    "optimize",
    "read_pipeline",
    "register_custom",
    "run",
    "save",
]

_HOMES = {
    "CirclekitError": "circlekit.errors",
    "Interpreter": "circlekit.interp.interpreter",
    "Kernels": "circlekit.ops.numerics.kernel_flavor",
    "Model": "circlekit.ir.graph",
    "compare": "circlekit.api",
    "limited": "circlekit.ir.resource_limits",
    "load": "circlekit.api",
    "optimize": "circlekit.api",
    "read_pipeline": "circlekit.api",
    "register_custom": "circlekit.interp.evaluate",
    "run": "circlekit.api",
    "save": "circlekit.api",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("circlekit")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
