# SPDX-License-Identifier: Apache-2.0
"""Comparison of the values inside two models: results that have the same name in both main graphs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from circlekit.equivalence.model_comparison import Outcome, compare_outputs, similarity
from circlekit.equivalence.seeded_inputs import with_seeds
from circlekit.equivalence.verify import Run, excused, with_moved_constants
from circlekit.interp.interpreter import expect_runs
from circlekit.interp.interpreter import run as run_model
from circlekit.ir.graph import Model
from circlekit.ir.resource_limits import adding_up, hold_memory, need_memory
from circlekit.ir.value import Array


def compare_layers(before: Model, after: Model, run: Run) -> list[Outcome]:
    """Compare the results that both models name, in the order in which ``after`` computes them.

    ``run``: the run of ``before``.  Differences are tolerated as for outputs, in proportion to each result.
    Raise LimitError if the shared results do not fit into memory.
    """
    names = _results(before)
    shared = [name for name in _results(after) if name in set(names)]
    with adding_up():
        left, right = _values(before, run, shared), _values(after, run, shared)
        outcomes = compare_outputs(run.kind, _ordered(left, shared), right)
        suspects = [outcome.name for outcome in outcomes if not outcome.equal and not outcome.reason]
        if suspects:
            moved = _values(with_moved_constants(before), run, suspects)
            noise = {name: excused(left[name], moved[name]) for name in suspects if name in moved}
            outcomes = compare_outputs(run.kind, _ordered(left, shared), right, noise)
    for outcome in outcomes:
        outcome.similarity = similarity(left[outcome.name], right[outcome.name])
    return outcomes


def _results(model: Model) -> list[str]:
    return [value.name for op in model.main for value in op.results]


def _ordered(arrays: dict[str, Array], names: Collection[str]) -> dict[str, Array]:
    return {name: arrays[name] for name in names if name in arrays}


def _values(model: Model, run: Run, names: Collection[str]) -> dict[str, Array]:
    """Return the named results of ``model`` on the inputs of ``run``; in a loop, the first of each name."""
    wanted, found = set(names), dict[str, Array]()

    def keep(name: str, array: Array) -> None:
        if name in wanted and name not in found:
            need_memory(array.nbytes, "keeping the results of all operators")
            hold_memory(array.nbytes)
            found[name] = array

    expect_runs(model, 1)
    with np.errstate(all="ignore"):  # boundary inputs may overflow
        run_model(with_seeds(model), run.inputs, on_value=keep, kernels=run.kernels)
    return found
