# SPDX-License-Identifier: Apache-2.0
"""Run a model, and keep the arrays of the values with given names: inputs and results of operators.

Random operators without a seed get a fixed seed (``interpreter_of``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from circlekit.equivalence.random_seeds import with_seeds
from circlekit.interp.evaluate import Inputs, model_inputs
from circlekit.interp.interpreter import Interpreter, expect_runs
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.resources.resource_limits import count_memory, counted_memory, need_memory
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels


class PairedRuns(Protocol):
    """A second model that runs right after each run of a first model, on the same inputs.

    ``after``: the second model.  ``names``: the names of the values of the first model that ``add`` needs.
    ``outputs``: the outputs of the second model, by the label of the inputs.  A label names a set of inputs.
    """

    @property
    def after(self) -> Model: ...

    @property
    def names(self) -> Collection[str]: ...

    @property
    def outputs(self) -> Mapping[str, list[Array]]: ...

    def wants(self, label: str) -> bool:
        """Return whether the second model is to run on the inputs with ``label``."""

    def add(
        self, label: str, inputs: Inputs, outputs: list[Array], results: Mapping[str, Array], kernels: Kernels
    ) -> None:
        """Run the second model on ``inputs``.

        ``outputs``, ``kernels``: the outputs and the kernel set of the run of the first model.  ``results``:
        the inputs of the first model and the results of its operators with the names in ``names``.
        """


def interpreter_of(model: Model, kernels: Kernels | None = None) -> Interpreter:
    """Return an interpreter of ``model``, or of a copy in which every random operator has a seed.

    ``kernels``: LiteRT's reference or optimized kernels, whose integer results are reproduced; None:
    ``select_kernels`` chooses.
    """
    return Interpreter(with_seeds(model), kernels)


def run_with_pair(
    label: str,
    interpreter: Interpreter,
    inputs: Inputs,
    pair: PairedRuns | None = None,
    earlier: Sequence[Inputs] = (),
) -> list[Array]:
    """Return the outputs of ``interpreter`` on ``inputs``, from its initial state.

    ``label``: the label of the inputs.  If ``pair.wants`` this label, the model of ``pair`` then runs, too.
    ``earlier``: without ``pair``, inputs on which the model runs first; it keeps the state that they leave.
    """
    with np.errstate(all="ignore"):  # boundary inputs may overflow
        if pair is None or not pair.wants(label):
            interpreter.reset()
            for before in earlier:
                interpreter.run(before)
            return interpreter.run(inputs)
        with counted_memory():  # all results that are kept count together against the memory limit
            outputs, results = run_keeping(interpreter, inputs, pair.names)
            pair.add(label, inputs, outputs, results, interpreter.kernels)
            return outputs


def run_keeping(
    interpreter: Interpreter, inputs: Inputs, names: Collection[str], earlier: Sequence[Inputs] = ()
) -> tuple[list[Array], dict[str, Array]]:
    """Run the model of ``interpreter`` from its initial state; return its outputs, and values by name.

    These values are the inputs of the main graph and the results of its operators that have one of ``names``,
    but not constants.  ``earlier``: inputs on which the model runs first; it keeps the state that they leave.
    """
    wanted, model = set(names), interpreter.model
    given = zip(model.main.inputs, model_inputs(model, 0, inputs), strict=True)
    results = {value.name: array for value, array in given if value.name in wanted}

    def keep(op: Op, arrays: Sequence[Array]) -> None:
        for value, array in zip(op.results, arrays, strict=True):
            if value.name in wanted and op.graph is model.main:
                need_memory(array.nbytes, "keeping the results of all operators")
                count_memory(array.nbytes)
                results[value.name] = array

    interpreter.reset()
    for before in earlier:
        interpreter.run(before)
    return interpreter.run(inputs, observe=keep), results


def results_by_name(
    model: Model,
    inputs: Inputs,
    kernels: Kernels | None,
    names: Collection[str],
    earlier: Sequence[Inputs] = (),
) -> dict[str, Array]:
    """Run ``model``; return the inputs and results of operators of the main graph whose names are given.

    ``kernels``: see ``interpreter_of``.  ``earlier``: see ``run_keeping``.
    """
    expect_runs(model, 1 + len(earlier))
    return run_keeping(interpreter_of(model, kernels), inputs, names, earlier)[1]
