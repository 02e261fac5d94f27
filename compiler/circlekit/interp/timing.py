# SPDX-License-Identifier: Apache-2.0
"""Measure how long runs and single operators take in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from circlekit.interp.interpreter import Interpreter
from circlekit.ir.op import Op
from circlekit.ir.value import Array


@dataclass
class OpTime:
    """The time of one operator in a run, in seconds: the median of several runs.

    If a run executes the operator several times, because its graph is called again, these times are added.
    """

    op: Op
    seconds: float


@dataclass
class Timing:
    """The times of several runs of a graph.

    ``runs``: the seconds of each run.  ``ops``: the times of the operators, the longest first; empty if
    operators were not measured.
    """

    runs: list[float]
    ops: list[OpTime]

    @property
    def median(self) -> float:
        """The median of ``runs``, in seconds."""
        return median(self.runs)


def time_runs(
    interpreter: Interpreter, inputs: Sequence[Array], graph: int, count: int, per_op: bool
) -> Timing:
    """Return the times of ``count`` runs of graph number ``graph``, after one run that is not measured.

    ``inputs``: an array for each input of the graph, in order.  ``count``: at least 1.  ``per_op``: measure
    operators too.  Each run begins in the initial state.  Raise the errors of ``Interpreter.run``.
    The time of an operator runs from the end of the operator that finished before it (for the first one: from
    the start of the run) to its own end.  The operators of a called graph finish before the operator that
    calls the graph; the time of the calling operator does not include them.
    """
    seconds: list[float] = []
    operators: dict[Op, list[float]] = {}
    for number in range(count + 1):
        interpreter.reset()
        start = last = perf_counter()

        def observe(op: Op, results: Sequence[Array], number: int = number) -> None:
            nonlocal last
            now = perf_counter()
            times = operators.setdefault(op, [0.0] * (count + 1))
            times[number] += now - last
            last = perf_counter()  # read again, so that the lines above are not counted

        interpreter.run(inputs, graph, observe=observe if per_op else None)
        seconds.append(perf_counter() - start)
    ops = [OpTime(op, median(times[1:])) for op, times in operators.items()]
    return Timing(seconds[1:], sorted(ops, key=lambda timed: -timed.seconds))
