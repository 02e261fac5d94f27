# SPDX-License-Identifier: Apache-2.0
"""Run a graph once; then, for changed values, compute only their cone: the operators that depend on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlekit.interp.blas_threads import limited_blas_threads
from circlekit.interp.evaluate import Inputs, compute
from circlekit.interp.execution_plan import ExecutionPlan, absent_operands
from circlekit.interp.fast import may_be_prepared
from circlekit.interp.graph_runner import GraphRunner
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.random_ops import Random
from circlekit.ops.program.state import State, Stateful


class ConeRunner:
    """Runs the main graph of a float model and keeps the arrays of all values.

    ``values``: the arrays of the inputs and results of the last ``run``, without constants.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.main
        self.values: dict[Value, Array] = {}
        self._interpreter = Interpreter(model)
        self._plan = ExecutionPlan(model.main)
        self._fast = {planned.op: planned.fast_kernel for planned in self._plan.operators}

    def run(self, inputs: Inputs) -> list[Array]:
        """Run on ``inputs`` from the initial state, keep all arrays, and return the outputs.

        Raise the errors of ``Interpreter.run``.
        """
        self.values = {}
        by_name = {value.name: value for value in self.graph.inputs}

        def keep_input(name: str, array: Array) -> None:
            """Keep ``array`` if ``name`` is that of an input."""
            if name in by_name:
                self.values.setdefault(by_name[name], array)

        def keep(op: Op, results: Sequence[Array]) -> None:
            """Keep the results of ``op``."""
            self.values.update(zip(op.results, results, strict=True))

        self._interpreter.reset()
        return self._interpreter.run(inputs, observe=keep, on_value=keep_input)

    def outputs(self, changes: Mapping[Value, Array]) -> list[Array]:
        """Return the outputs that the last run would have if the values in ``changes`` had these arrays.

        Call ``run`` first.  Raise UnsupportedError if an operator that depends on the changed values calls
        other graphs, or uses a resource variable or a hash table.  Raise ModelError if an operator that
        depends on them reads a variable tensor that several operators use: its contents are not kept.
        """
        changed = dict(changes)
        with limited_blas_threads(self._plan.largest_macs):
            for planned in self._plan.operators:
                op = planned.op
                if not any(value in changed for value in op.inputs if value is not None):
                    continue
                results = self.results_of(op, changed)
                for value, array in zip(op.results, results, strict=True):
                    changed.setdefault(value, array)  # a value in ``changes`` keeps its array
        return [self._read(value, changed) for value in self.graph.outputs]

    def results_of(self, op: Op, changed: Mapping[Value, Array]) -> list[Array]:
        """Return the results that ``op`` would have in the last run with changed operands.

        ``changed``: the new arrays of some operands; these may be constants, too.
        Raise the errors of ``outputs``.
        """
        operands = [None if v is None else self._read(v, changed) for v in op.inputs]
        operands += [None] * absent_operands(op)
        is_outdated = any(v in changed and may_be_prepared(v) for v in op.inputs if v is not None)
        # ``run`` began with the initial state, and a new State is the same
        state = GraphRunner(State(), self.model) if isinstance(op, Stateful | Random) else None
        with np.errstate(all="ignore"):
            return compute(op, operands, state, None if is_outdated else self._fast[op])

    def _read(self, value: Value, changed: Mapping[Value, Array]) -> Array:
        """Return the array of ``value`` in ``changed``, or else in the last run.

        For a constant, return its elements; for a variable that one operator uses, its initial contents.
        """
        array = changed.get(value)
        if array is None:
            array = self.values.get(value)
        if array is None and value.is_variable and value.use_count == 1:
            array = State().read(value)
        return self._plan.constant(value) if array is None else array
