# SPDX-License-Identifier: Apache-2.0
"""The engine that calibrates with LiteRT: for large models, several times as fast as circlekit's interpreter.

LiteRT runs in one thread with its fastest kernels (XNNPACK).  The observed tensors are outputs of the model
that it runs, so it keeps all of them in memory.  The ranges differ from those of circlekit's interpreter by
the rounding of floats.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from circlekit.equivalence.litert import is_available, settable
from circlekit.errors import ModelError, UnsupportedError
from circlekit.interp.evaluate import evaluate
from circlekit.io.write.save import save
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import Progress, watched
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.program.state import Stateful
from circlekit.passes.engine.legalize import legalize
from circlekit.quant.calibration.calibration import keeps_state, observed_values
from circlekit.quant.calibration.observer import Observations, Observer, Selection

ADVICE = "use the engine circlekit"
"""The end of messages about models that LiteRT cannot calibrate."""


class LitertEngine:
    """Runs samples of one model, whose main graph must not call other graphs.

    The model is saved to a temporary file.  LiteRT's interpreter is made from that file when the first sample
    is run.  A worker process that is forked earlier makes its own interpreter; one that is forked later has a
    copy of this process's interpreter.

    LiteRT resets variable tensors before each sample.  It does not reset any other state, such as a random
    stream or the variables of ASSIGN_VARIABLE, so models with such state are refused.

    Raise UnsupportedError if LiteRT is not installed, or if the main graph calls other graphs, computes one
    step of a sequence per run (``keeps_state``), or has state that LiteRT does not reset.  Raise LimitError
    if the tensors of known shapes take more memory than allowed.
    """

    name = "litert"

    def __init__(self, model: Model, selection: Selection) -> None:
        if not is_available():
            raise UnsupportedError(f"LiteRT (the package ai-edge-litert) is not installed; {ADVICE}")
        caller = next((op for op in model.main if op.called_graphs()), None)
        if caller is not None:
            raise UnsupportedError(
                f"{caller.code} calls graphs, whose tensors LiteRT does not keep; {ADVICE}"
            )
        if keeps_state(model):
            raise UnsupportedError(
                f"the model keeps state between runs, and LiteRT does not show this state; {ADVICE}"
            )
        kept = next((op for op in model.main if op.stateful and not isinstance(op, Stateful)), None)
        if kept is not None:
            raise UnsupportedError(
                f"LiteRT does not reset the state of {kept.code} between samples; {ADVICE}"
            )
        self._observer = Observer(model, selection)
        observed = [value for value, (graph, _) in self._observer.keys.items() if graph == 0]
        size = sum(v.numel * v.dtype.bits // 8 for v in observed if v.is_static)
        need_memory(size, "keeping every tensor in LiteRT")
        self._constants = _computed_from_constants(model)
        self._values = [v for v in observed if v not in self._constants]  # the tensors to read from LiteRT
        folder = tempfile.mkdtemp(prefix="circlekit-")
        weakref.finalize(self, _remove, folder, os.getpid())
        self._path = Path(folder) / "model.tflite"
        with watched(Progress()):  # shows nothing: the caller reports samples, not these steps
            legal = legalize(model, "tflite")
            legal.main.outputs = self._found_in(legal)
            save(legal, self._path, "tflite")
        self._interpreter: Any = None
        self._tensors: dict[Value, int] = {}  # LiteRT's index of each observed tensor

    def observe(self, sample: Sequence[Array]) -> Observations:
        """Run the main graph on ``sample``, arrays in the order of its inputs; return the statistics.

        Raise ModelError if LiteRT fails, and the errors of ``Observer``.
        """
        try:
            if self._interpreter is None:
                self._prepare()
            self._run(sample)
            with np.errstate(all="ignore"):
                for value in (*self._constants, *self._values):
                    self._observer.see(value, self._tensor(value))
                for op in self._observer.inside:
                    self._observer.see_inside(op, [self._operand(value) for value in op.inputs])
        except (ValueError, RuntimeError) as error:
            raise ModelError(f"LiteRT fails: {' '.join(str(error).split())}; {ADVICE}") from None
        return self._observer.take()

    def _found_in(self, legal: Model) -> list[Value]:
        """Return the tensors of ``legal``, the legalized model, that have the names of ``_values``.

        Raise UnsupportedError if ``legal`` computes no tensor, or several tensors, with one of these names.
        """
        found = [value for index, _, value in observed_values(legal) if index == 0]
        counts, by_name = Counter(value.name for value in found), {value.name: value for value in found}
        for value in self._values:
            if counts[value.name] != 1:
                got = f"got {counts[value.name]}; {ADVICE}"
                raise UnsupportedError(f"expected one tensor %{value.name} in the model for LiteRT, {got}")
        return [by_name[value.name] for value in self._values]

    def _prepare(self) -> None:
        """Make LiteRT's interpreter, and find the tensors to observe in it."""
        from ai_edge_litert.interpreter import Interpreter, OpResolverType  # optional dependency

        interpreter = Interpreter(
            model_path=str(self._path),
            experimental_op_resolver_type=OpResolverType.BUILTIN,
            num_threads=1,
        )
        interpreter.allocate_tensors()
        outputs = interpreter.get_output_details()
        self._tensors = {v: output["index"] for v, output in zip(self._values, outputs, strict=True)}
        self._interpreter = interpreter

    def _run(self, sample: Sequence[Array]) -> None:
        """Reset variables, resize inputs to the shapes of ``sample``, and run LiteRT."""
        details = self._interpreter.get_input_details()
        changed = [(d, a) for d, a in zip(details, sample, strict=True) if tuple(d["shape"]) != a.shape]
        for detail, array in changed:
            self._interpreter.resize_tensor_input(detail["index"], array.shape)
        if changed:
            self._interpreter.allocate_tensors()
        self._interpreter.reset_all_variables()
        for detail, array in zip(details, sample, strict=True):
            self._interpreter.set_tensor(detail["index"], settable(array))
        self._interpreter.invoke()

    def _operand(self, value: Value | None) -> Array | None:
        """Return the elements of ``value``, an operand of an operator with inner tensors; None if absent.

        LiteRT does not show inner tensors, such as the sums of an LSTM's gates.  So the observer computes
        them from the operands.
        """
        if value is None:
            return None
        if value.is_const:
            return constant_elements(value)
        if value.is_variable:
            return np.zeros(value.static_shape, value.dtype.numpy)  # its initial state, from which runs begin
        return self._tensor(value)

    def _tensor(self, value: Value) -> Array:
        """Return the elements of ``value``, perhaps as a view, which is valid until the next run."""
        if value in self._constants:
            return self._constants[value]
        index = self._tensors[value]
        if 0 in self._interpreter._get_tensor_details(index, 0)["shape"]:
            return np.zeros(0, np.float32)  # an empty tensor has no memory to view
        array: Array = self._interpreter.tensor(index)()
        return array


def _computed_from_constants(model: Model) -> dict[Value, Array]:
    """Return the elements of the results in the main graph that depend on constants alone.

    LiteRT does not show them: XNNPACK keeps dequantized weights, for example, in memory of its own.
    """
    computed: dict[Value, Array] = {}
    for op in model.main:
        if op.inputs and op.pure and all(v is None or v.is_const or v in computed for v in op.inputs):
            arrays = [
                None if v is None else constant_elements(v) if v.is_const else computed[v] for v in op.inputs
            ]
            computed.update(zip(op.results, evaluate(op, arrays), strict=True))
    return computed


def _remove(folder: str, owner: int) -> None:
    """Remove ``folder`` if this is the process ``owner``; do nothing in a process forked from it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
