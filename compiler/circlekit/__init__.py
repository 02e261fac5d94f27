# SPDX-License-Identifier: Apache-2.0
"""Read, optimize, quantize, compare and write circle and TFLite models.

    model = circlekit.load("in.tflite")
    report = circlekit.optimize(model, verify=True)
    circlekit.save(model, "out.circle")

With ``verify=True``, the model is run before the passes and after each pass that changes it, and the outputs
are compared.

Each public name is imported from its module when it is first used, so that a command imports only what it
needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from circlekit.api.checking import check
    from circlekit.api.explaining import explain, explain_op
    from circlekit.api.fake_quantizing import fake_quantize
    from circlekit.api.models import compare, load, parse, run, save
    from circlekit.api.options import read_pipeline
    from circlekit.api.quantizing import calibrate, quantize
    from circlekit.api.rewriting import convert, optimize
    from circlekit.api.structure import extract, merge, partition, resize, select
    from circlekit.api.structure_checks import verify
    from circlekit.errors import CirclekitError
    from circlekit.interp.evaluate import register_custom
    from circlekit.interp.interpreter import Interpreter
    from circlekit.ir.graph import Graph, Model
    from circlekit.ir.op import Op
    from circlekit.ir.resources.resource_limits import limited
    from circlekit.ir.value import Value
    from circlekit.ops.numerics.output_stage import Kernels
    from circlekit.passes.engine.optimization_report import Report
    from circlekit.passes.engine.registry import every_pass as passes  # see __getattr__
    from circlekit.quant.calibration.calibration import Calibration
    from circlekit.rewrite import Pass, Rewrite, condition

    __version__: str

__all__ = [
    "Calibration",
    "CirclekitError",
    "Graph",
    "Interpreter",
    "Kernels",
    "Model",
    "Op",
    "Pass",
    "Report",
    "Rewrite",
    "Value",
    "calibrate",
    "check",
    "compare",
    "condition",
    "convert",
    "explain",
    "explain_op",
    "extract",
    "fake_quantize",
    "limited",
    "load",
    "merge",
    "optimize",
    "parse",
    "partition",
    "passes",
    "quantize",
    "read_pipeline",
    "register_custom",
    "resize",
    "run",
    "save",
    "select",
    "verify",
]

_MODULES = {
    "circlekit.api.checking": ("check",),
    "circlekit.api.explaining": ("explain", "explain_op"),
    "circlekit.api.fake_quantizing": ("fake_quantize",),
    "circlekit.api.models": ("compare", "load", "parse", "run", "save"),
    "circlekit.api.options": ("read_pipeline",),
    "circlekit.api.quantizing": ("calibrate", "quantize"),
    "circlekit.api.rewriting": ("convert", "optimize"),
    "circlekit.api.structure": ("extract", "merge", "partition", "resize", "select"),
    "circlekit.api.structure_checks": ("verify",),
    "circlekit.errors": ("CirclekitError",),
    "circlekit.interp.evaluate": ("register_custom",),
    "circlekit.interp.interpreter": ("Interpreter",),
    "circlekit.ir.graph": ("Graph", "Model"),
    "circlekit.ir.op": ("Op",),
    "circlekit.ir.resources.resource_limits": ("limited",),
    "circlekit.ir.value": ("Value",),
    "circlekit.ops.numerics.output_stage": ("Kernels",),
    "circlekit.passes.engine.optimization_report": ("Report",),
    "circlekit.quant.calibration.calibration": ("Calibration",),
    "circlekit.rewrite": ("Pass", "Rewrite", "condition"),
}
"""{module: its public names}; ``__getattr__`` finds ``passes`` and ``__version__`` in other ways."""


if not TYPE_CHECKING:  # a type checker must not see __getattr__: it would accept misspelled names

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("importlib.metadata").version("circlekit")
        if name == "passes":  # this package has __call__: circlekit.passes() returns all passes
            return import_module("circlekit.passes")
        for module, names in _MODULES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(module), name)
                return value
        near = import_module("circlekit.errors").did_you_mean(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
