# SPDX-License-Identifier: Apache-2.0
"""Run a user's analysis in Python on every operator of a model, with the hooks of ONE's dalgona.

The file NAME.py has a class NAME.  Its methods, all optional: StartAnalysis(args), EndAnalysis(),
StartNetworkExecution(inputs), EndNetworkExecution(outputs), DefaultOpPre(name, opcode, inputs),
DefaultOpPost(name, opcode, inputs, output), and for the operators in HOOKS their own Pre and Post.  A tensor
is a dict: name, data, quantparam (scale, zero_point, quantized_dimension), is_const.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from circlekit.errors import CirclekitError, FileError, ModelError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value

HOOKS = {
    "Conv2D": "input filter bias padding stride dilation output fused_act",
    "DepthwiseConv2D": "input filter bias padding stride depth_multiplier dilation output fused_act",
    "Add": "lhs rhs output fused_act",
    "FullyConnected": "input weights bias output fused_act",
    "TransposeConv": "input filter output_shape bias padding stride output",
    "InstanceNorm": "input gamma beta epsilon output fused_act",
    "Split": "split_dim value num_splits outputs",
}
"""The arguments of an operator's own hooks behind the name; Pre does not get ``output`` and ``outputs``."""

Tensor = dict[str, Any]


class AnalysisError(CirclekitError):
    """A hook of the user's analysis raised an exception."""


def load_analysis(path: str | os.PathLike[str]) -> object:
    """Return an instance of the class in the Python file at ``path`` that has the file's name.

    Raise FileError if there is no such file, ModelError if it lacks the class, AnalysisError if it fails.
    """
    file = Path(path)
    if not file.is_file():
        raise FileError(f"{file}: no such file")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise FileError(f"{file}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(file.parent))  # for imports of files beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # anything can happen in a user's file
        raise AnalysisError(f"{file}: {type(error).__name__}: {error}") from error
    if not hasattr(module, file.stem):
        raise ModelError(f"{file}: expected a class {file.stem}, named as the file")
    return _called(getattr(module, file.stem))


def analyze(model: Model, analysis: object, samples: Iterable[Sequence[Array]], arguments: str = "") -> int:
    """Run ``model`` on ``samples`` and call the hooks of ``analysis``; return the number of samples.

    The hooks of an operator are called when it has run, Pre before Post.  Raise AnalysisError if a hook
    fails, and the errors of ``Interpreter.run``.
    """
    _hook(analysis, "StartAnalysis", arguments)
    interpreter = Interpreter(model)
    count = 0
    for sample in samples:
        observer = _Observer(analysis)
        interpreter.reset()
        inputs = [_tensor(v, a) for v, a in zip(model.main.inputs, sample, strict=True)]
        _hook(analysis, "StartNetworkExecution", inputs)
        arrays = interpreter.run(list(sample), observe=observer.operator, on_graph=observer.graph)
        outputs = [_tensor(v, a) for v, a in zip(model.main.outputs, arrays, strict=True)]
        _hook(analysis, "EndNetworkExecution", outputs)
        count += 1
    _hook(analysis, "EndAnalysis")
    return count


class _Observer:
    """Calls the hooks of operators.  ``arrays``: what they have computed, until its last use."""

    def __init__(self, analysis: object) -> None:
        self.analysis = analysis
        self.arrays: dict[Value, Array] = {}
        self.last: dict[Value, Op] = {}

    def graph(self, graph: Graph, inputs: Sequence[Array]) -> None:
        self.arrays.update(zip(graph.inputs, inputs, strict=True))
        for op in graph:
            self.last.update((v, op) for v in op.inputs if v is not None)

    def operator(self, op: Op, results: Sequence[Array]) -> None:
        inputs = [None if v is None else _tensor(v, self.arrays.get(v, v.data)) for v in op.inputs]
        outputs = [_tensor(v, a) for v, a in zip(op.results, results, strict=True)]
        name = op.output.name if op.results else ""
        kind = type(op).__name__
        own = HOOKS.get(kind, "").split()
        named = dict(zip([o.name for o in op.operands], inputs, strict=False))
        for when in ("Pre", "Post"):
            if own and hasattr(self.analysis, kind + when):
                given = {**named, "outputs": outputs, "output": outputs[0]}
                words = [w for w in own if when == "Post" or not w.startswith("output") or w in named]
                _hook(self.analysis, kind + when, name, *(_argument(op, word, given) for word in words))
            elif len(outputs) == 1:
                present = [tensor for tensor in inputs if tensor is not None]
                more = outputs if when == "Post" else []
                _hook(self.analysis, f"DefaultOp{when}", name, kind, present, *more)
        self.arrays.update(zip(op.results, results, strict=True))
        for value in {v for v in op.inputs if v is not None and self.last.get(v) is op}:
            self.arrays.pop(value, None)


def _argument(op: Op, word: str, given: Mapping[str, Any]) -> Any:
    """Return one argument of a hook: a tensor, a pair of numbers as a dict, or an attribute."""
    attributes = op.attribute_items()
    if word in given or word not in {"stride", "dilation", "padding", "fused_act", *attributes}:
        return given.get(word)
    if word in ("stride", "dilation"):
        return {axis: attributes[f"{word}_{axis}"] for axis in ("w", "h")}
    if word == "fused_act":
        return attributes["act"].name.lower()
    return attributes[word].name if word == "padding" else attributes[word]


def _tensor(value: Value, array: Array | None) -> Tensor:
    form = value.quantization
    parameters = {
        "scale": [] if form is None else form.scale.tolist(),
        "zero_point": [] if form is None else form.zero_point.tolist(),
        "quantized_dimension": 0 if form is None else form.quantized_dimension,
    }
    data = None if array is None or not array.size else array
    return {"name": value.name, "data": data, "quantparam": parameters, "is_const": value.is_const}


def _hook(analysis: object, name: str, *arguments: Any) -> None:
    """Call a method of the analysis, if it has it."""
    method = getattr(analysis, name, None)
    if method is not None:
        _called(method, *arguments)


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # anything can happen in a user's hook
        name = getattr(function, "__qualname__", str(function))
        raise AnalysisError(f"{name}: {type(error).__name__}: {error}") from error
