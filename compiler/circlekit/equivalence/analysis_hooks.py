# SPDX-License-Identifier: Apache-2.0
"""Run a user's analysis in Python on every operator of a model, with the hooks of ONE's dalgona.

The user's file NAME.py has a class NAME.  Its methods are the hooks, all of them optional:

    StartAnalysis(args), EndAnalysis()
    StartNetworkExecution(inputs), EndNetworkExecution(outputs)
    DefaultOpPre(name, opcode, inputs), DefaultOpPost(name, opcode, inputs, outputs)
    Conv2DPre(name, input, ...), Conv2DPost(name, input, ...) and so on for each operator in HOOKS

Pre hooks are called before an operator runs, Post hooks after it.  For an operator in HOOKS, a hook such as
Conv2DPre, if the class defines it, is called in place of the default hook DefaultOpPre.
``name`` is the name of the operator's first result.  ``inputs`` and ``outputs`` are lists of tensors.  A
tensor is a dict with the keys name, data (an array; None if there are no elements), quantparam (a dict of the
lists scale and zero_point, and the number quantized_dimension) and is_const.  Default hooks get no absent
operands; a hook such as Conv2DPre gets None for an absent operand.
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
from circlekit.ir.graph import Model
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
"""{operator: the arguments of its own hooks, after ``name``}.  Pre hooks get no ``output`` or ``outputs``."""

ONE_OPCODES = {
    "L2_NORMALIZATION": "L2Normalize",
    "BCQ_FULLY_CONNECTED": "BCQFullyConnected",
    "BCQ_GATHER": "BCQGather",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTM",
    "GRU": "GRU",
    "SVDF": "SVDF",
    "CUMSUM": "CumSum",
    "CUSTOM": "Custom",
}
"""{code: argument ``opcode`` of the default hooks}; for other operators, it is the name of their class."""

Tensor = dict[str, Any]
"""A tensor as hooks get it; the docstring of the module lists the keys."""


class AnalysisError(CirclekitError):
    """The error for an exception that a user's analysis raised."""


def load_analysis(path: str | os.PathLike[str]) -> object:
    """Return an instance of the class NAME that the Python file NAME.py at ``path`` defines.

    Raise FileError if there is no such Python file, ModelError if the file does not define the class,
    AnalysisError if the code of the file or of the class fails.
    """
    file = Path(path)
    if not file.is_file():
        raise FileError(f"{file}: no such file")
    # the prefix: the file may have the name of a module that Python has
    spec = importlib.util.spec_from_file_location(f"circlekit_analysis_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise FileError(f"{file}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module there
    sys.path.append(str(file.parent))  # the user's file may import files beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # anything can happen in a user's file
        raise AnalysisError(f"{file}: {type(error).__name__}: {error}") from error
    if not hasattr(module, file.stem):
        raise ModelError(f"{file}: expected a class {file.stem}, named as the file")
    return _called(getattr(module, file.stem))


def analyze(model: Model, analysis: object, samples: Iterable[Sequence[Array]], arguments: str = "") -> int:
    """Run ``model`` on ``samples`` and call the hooks of ``analysis``; return the number of samples.

    A sample has one array for each input of the main graph, in order.  ``arguments``: the argument of
    StartAnalysis.  Raise AnalysisError if a hook fails, and the errors of ``Interpreter.run``.
    """
    _hook(analysis, "StartAnalysis", arguments)
    interpreter = Interpreter(model)
    count = 0
    for sample in samples:
        observer = _Observer(analysis)
        interpreter.reset()
        inputs = [_tensor(v, a) for v, a in zip(model.main.inputs, sample, strict=True)]
        _hook(analysis, "StartNetworkExecution", inputs)
        arrays = interpreter.run(list(sample), observe=observer.after, before_op=observer.before)
        outputs = [_tensor(v, a) for v, a in zip(model.main.outputs, arrays, strict=True)]
        _hook(analysis, "EndNetworkExecution", outputs)
        count += 1
    _hook(analysis, "EndAnalysis")
    return count


class _Observer:
    """Calls the hooks of operators: ``before`` the Pre hook, ``after`` the Post hook.

    ``running``: a stack with the operands of each operator that has begun and not ended.  It has several
    items while an operator such as WHILE runs the operators of another graph.
    """

    def __init__(self, analysis: object) -> None:
        self.analysis = analysis
        self.running: list[list[Tensor | None]] = []

    def before(self, op: Op, operands: Sequence[Array | None]) -> None:
        pairs = zip(op.inputs, operands, strict=True)
        self.running.append([None if value is None else _tensor(value, array) for value, array in pairs])
        self.call(op, "Pre", self.running[-1], None)

    def after(self, op: Op, results: Sequence[Array]) -> None:
        outputs = [_tensor(value, array) for value, array in zip(op.results, results, strict=True)]
        self.call(op, "Post", self.running.pop(), outputs)

    def call(self, op: Op, when: str, inputs: list[Tensor | None], outputs: list[Tensor] | None) -> None:
        """Call the hook of ``op`` or, if the analysis has no such hook, the default hook.

        ``when``: "Pre" or "Post".  ``outputs``: None for Pre.
        """
        name = op.results[0].name if op.results else ""
        kind = type(op).__name__
        if kind in HOOKS and hasattr(self.analysis, kind + when):
            # strict=False: optional operands may be missing at the end
            given: dict[str, Any] = dict(zip([o.name for o in op.operands], inputs, strict=False))
            words = [w for w in HOOKS[kind].split() if w not in ("output", "outputs") or outputs is not None]
            if outputs is not None:
                given |= {"outputs": outputs, "output": outputs[0]}
            _hook(self.analysis, kind + when, name, *(_argument(op, word, given) for word in words))
            return
        present = [tensor for tensor in inputs if tensor is not None]
        more = [] if outputs is None else [outputs]
        opcode = ONE_OPCODES.get(op.code, kind)
        _hook(self.analysis, f"DefaultOp{when}", name, opcode, present, *more)


def _argument(op: Op, word: str, given: Mapping[str, Any]) -> Any:
    """Return the argument ``word`` of a hook of ``op``; ``word`` is one of the words in HOOKS.

    - an operand or ``output``: a tensor, or None for an absent operand
    - ``outputs``: a list of tensors
    - ``stride``, ``dilation``: a dict with the numbers ``w`` and ``h``
    - ``padding``, ``fused_act``: a name, such as ``SAME`` and ``relu``
    - any other attribute: its value

    ``given``: the operands, ``output`` and ``outputs``, by name.
    """
    attributes = op.attribute_items()
    if word in given or word not in {"stride", "dilation", "padding", "fused_act", *attributes}:
        return given.get(word)  # None: an operand that is not in ``given`` is absent
    if word in ("stride", "dilation"):
        return {axis: attributes[f"{word}_{axis}"] for axis in ("w", "h")}
    if word == "fused_act":
        return attributes["act"].name.lower()
    return attributes[word].name if word == "padding" else attributes[word]


def _tensor(value: Value, array: Array | None) -> Tensor:
    """Return the tensor that hooks get for ``value``; ``array``: its elements, or None."""
    form = value.quantization
    parameters = {
        "scale": [] if form is None else form.scale.tolist(),
        "zero_point": [] if form is None else form.zero_point.tolist(),
        "quantized_dimension": 0 if form is None else form.quantized_dimension,
    }
    data = None if array is None or not array.size else array
    return {"name": value.name, "data": data, "quantparam": parameters, "is_const": value.is_const}


def _hook(analysis: object, name: str, *arguments: Any) -> None:
    """Call the method ``name`` of the analysis; do nothing if it has no such method."""
    method = getattr(analysis, name, None)
    if method is not None:
        _called(method, *arguments)


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)`` for a user's function or class; raise AnalysisError if it fails."""
    try:
        return function(*arguments)
    except Exception as error:  # anything can happen in a user's hook
        name = getattr(function, "__qualname__", str(function))
        raise AnalysisError(f"{name}: {type(error).__name__}: {error}") from error
