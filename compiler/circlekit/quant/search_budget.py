# SPDX-License-Identifier: Apache-2.0
"""The budget of a search, counted in work, so that the result does not depend on how fast the machine is."""

from __future__ import annotations

from dataclasses import dataclass

from circlekit.interp.execution_plan import work_of
from circlekit.ir.graph import Model

WORK_PER_SECOND = 7e9
"""The number of multiply-accumulates that a usual core is assumed to compute in a second."""

OPERATOR_WORK = 1.5e6
"""The fixed cost of running an operator, expressed as a number of multiply-accumulates."""

# The approximate costs of the steps of a search, for each sample, in runs of the float model.

ROTATION_RUNS = 24.0
"""The cost of comparing the rotated model with the original (see ``techniques.rotation``)."""

COLLECTING_RUNS = 3.0
"""The cost of observing ranges."""

COLLECTING_NUMBERS_RUNS = 5.0
"""The cost of observing ranges and histograms."""

CORRECTING_RUNS = 6.0
"""The cost of a sweep over the layers (``techniques.layer_sweep``) that corrects biases."""

COMPARING_RUNS = 2.0
"""The cost of a sweep that only measures the error."""

READER_RUNS = 20.0
"""The cost of the search for the ranges that are best for the users of each tensor."""


@dataclass
class SearchBudget:
    """The budget of a search, counted in runs of the float model on one sample.

    ``seconds``: the whole budget, as the time that a usual core needs for it.  ``run_work``: the number of
    multiply-accumulates of one run, fixed costs included.  ``spent``: the number of runs spent so far.
    """

    seconds: float
    run_work: float
    spent: float = 0.0

    @staticmethod
    def of(model: Model, seconds: float) -> SearchBudget:
        """Return a budget of ``seconds`` for runs of the main graph of ``model``."""
        # + 1: a graph without operators has a cost, too, so that ``runs`` does not divide by 0
        return SearchBudget(seconds, sum(work_of(op) + OPERATOR_WORK for op in model.main) + 1)

    def runs(self, part: float = 1.0) -> float:
        """Return how many runs a ``part`` (0 to 1) of the whole budget pays for."""
        return part * self.seconds * WORK_PER_SECOND / self.run_work
