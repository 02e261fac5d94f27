# SPDX-License-Identifier: Apache-2.0
"""Run samples with circlekit's interpreter, to get their outputs or to observe tensors for a calibration.

The tensors of called graphs (of IF, WHILE) are observed, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from circlekit.equivalence.random_seeds import with_seeds
from circlekit.interp.blas_threads import blas_libraries
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.resources.progress import Progress, watched
from circlekit.ir.value import Array
from circlekit.quant.calibration.calibration import keeps_state
from circlekit.quant.calibration.observer import Observations, Observer, Selection


def sample_outputs(model: Model, samples: Iterable[Inputs]) -> Iterator[list[Array]]:
    """Yield the outputs of the main graph of ``model`` for each sample.

    Each sample is run from the initial state, unless the model computes one step of a sequence per run
    (``keeps_state``).  Raise the errors of ``Interpreter.run``.
    """
    interpreter, is_ordered = Interpreter(model), keeps_state(model)
    for sample in samples:
        if not is_ordered:
            interpreter.reset()
        yield interpreter.run(sample)


class InterpreterEngine:
    """Runs samples with the interpreter in one thread.

    The bits of a matrix product may depend on the number of threads of BLAS (numpy's library of matrix
    products), so BLAS uses one thread, too.
    Each sample is run from the initial state (variables, hash tables, random streams), unless the model
    computes one step of a sequence per run (``keeps_state``).
    """

    name = "circlekit"

    def __init__(self, model: Model, selection: Selection) -> None:
        seeded = with_seeds(model)
        self._keeps_state = keeps_state(model)
        self._interpreter = Interpreter(seeded)
        self._observer = Observer(seeded, selection)

    def observe(self, sample: Sequence[Array]) -> Observations:
        """Run the main graph on ``sample``, arrays in the order of its inputs; return the statistics.

        Raise the errors of ``Interpreter.run`` and of ``Observer``.
        """
        if not self._keeps_state:
            self._interpreter.reset()
        # ``Progress()`` shows nothing: the caller counts samples
        with watched(Progress()), blas_libraries().limit(limits=1):
            inside = self._operands if self._observer.inside else None
            self._interpreter.run(sample, observe=self._results, on_graph=self._inputs, before_op=inside)
        return self._observer.take()

    def _results(self, op: Op, results: Sequence[Array]) -> None:
        """Observe the results of ``op``; the interpreter calls this after each operator."""
        for value, array in zip(op.results, results, strict=True):
            self._observer.see(value, array)

    def _operands(self, op: Op, operands: Sequence[Array | None]) -> None:
        """Observe the tensors inside ``op``, such as gate sums of an LSTM; called before each operator."""
        # ``operands`` may lack optional operands at the end
        absent = [None] * (len(op.operands) - len(operands))
        self._observer.see_inside(op, [*operands, *absent])

    def _inputs(self, graph: Graph, inputs: Sequence[Array]) -> None:
        """Observe the inputs of ``graph``; the interpreter calls this when it begins to run a graph."""
        for value, array in zip(graph.inputs, inputs, strict=True):
            self._observer.see(value, array)
