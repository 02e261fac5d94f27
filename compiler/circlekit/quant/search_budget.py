# SPDX-License-Identifier: Apache-2.0
"""The budget of a search, counted in work: the result does not depend on how fast or busy the machine is."""

from __future__ import annotations

from dataclasses import dataclass

from circlekit.interp.execution_plan import work_of
from circlekit.ir.graph import Model

WORK_PER_SECOND = 7e9
"""Multiply-accumulates that a usual core computes in a second: the unit of ``seconds``."""

OPERATOR_WORK = 1.5e6
"""The time of an operator besides its multiply-accumulates, counted in these."""


ROTATION_RUNS = 24
"""The comparison of rotations takes about this many runs of the float model for each sample."""

COLLECTING_RUNS = 3
"""Collecting the ranges of a sample takes as long as about this many runs of the float model."""

COLLECTING_NUMBERS_RUNS = 5
"""The same for ranges with histograms."""

CORRECTING_RUNS = 6
"""A sweep that corrects biases takes as long as about this many runs for each sample."""

COMPARING_RUNS = 2
"""A sweep that changes nothing takes as long as about this many runs for each sample."""

READER_RUNS = 20
"""The search for ranges by readers takes as long as about this many runs for each sample."""


@dataclass
class SearchBudget:
    """The budget of a search, counted in runs of the float model on one sample.

    ``seconds``: the budget as time of a usual core.  ``run_work``: the multiply-accumulates of a run.
    ``spent``: the number of runs so far.
    """

    seconds: float
    run_work: float
    spent: float = 0.0

    @staticmethod
    def of(model: Model, seconds: float) -> SearchBudget:
        """Return the budget for a search on the main graph of ``model``."""
        return SearchBudget(seconds, sum(work_of(op) + OPERATOR_WORK for op in model.main) + 1)

    def runs(self, part: float = 1.0) -> float:
        """Return the number of runs in this part, 0 to 1, of the budget."""
        return part * self.seconds * WORK_PER_SECOND / self.run_work

    def spend(self, runs: float) -> None:
        """Add ``runs`` to those that are spent."""
        self.spent += runs
