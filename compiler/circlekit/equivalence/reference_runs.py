# SPDX-License-Identifier: Apache-2.0
"""Runs a model on the input sets that equivalence is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlekit.equivalence.random_seeds import without_chance
from circlekit.equivalence.seeded_inputs import InputSet, input_sets, make_inputs
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.interpreter import run
from circlekit.interp.kernel_selection import select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.kernel_flavor import Kernels

Inputs = Sequence[Array] | Mapping[str, Array]

NEEDS_KERNELS = "so the model cannot be verified, which means to run it before and after"


@dataclass
class Run:
    """Outputs of a model on one set of inputs; ``kind`` is the label of the set, or "given".

    ``kernels``: whose integers these are, and what they are compared with has to be.
    """

    kind: str
    inputs: Inputs
    outputs: list[Array]
    kernels: Kernels = Kernels.REFERENCE

    @staticmethod
    def of(kind: str, model: Model, inputs: Inputs, kernels: Kernels) -> Run:
        first = Run(kind, inputs, [], kernels)
        return replace(first, outputs=first.again(model))

    def again(self, model: Model) -> list[Array]:
        """What another ``model`` makes of the same.

        Inputs at the ends of their ranges may well overflow, so numpy's warnings of that say nothing.
        """
        with np.errstate(all="ignore"):
            return run(without_chance(model), self.inputs, kernels=self.kernels)


def reference_runs(
    model: Model, inputs: Inputs | None = None, kernels: Kernels | None = None
) -> tuple[list[Run], list[str]]:
    """``model`` on ``inputs``, or on every seeded set, and sentences on the sets that it cannot take.

    ``kernels``: those of the model of which ``model`` is a part; None where it is a whole one.
    UnsupportedError where it cannot run at all for want of a kernel; the error of the run where it cannot
    take normal inputs.
    """
    kernels = select_kernels(model, kernels)
    if inputs is not None:
        return [Run.of("given", model, inputs, kernels)], []
    found = [_attempt(model, which, kernels) for which in input_sets(model.main)]
    return [x for x in found if isinstance(x, Run)], [x for x in found if isinstance(x, str)]


def _attempt(model: Model, which: InputSet, kernels: Kernels) -> Run | str:
    """The run, or the sentence why there is none."""
    try:
        return _seeded_run(model, which, kernels)
    except UnsupportedError as error:
        raise error.note(NEEDS_KERNELS) from None
    except CirclekitError as error:
        if which.kind == "normal":
            raise
        return f"not compared on {which.label} inputs, which the model does not take: {error.message}"


def _seeded_run(model: Model, which: InputSet, kernels: Kernels) -> Run:
    """Unknown dimensions are 2, which tells a broadcast from a batch, or 1 where the model wants that."""
    if any(None in (value.shape or ()) for value in model.main.inputs):
        inputs = make_inputs(model.main, which, unknown=2)
        try:
            return Run.of(which.label, model, inputs, kernels)
        except UnsupportedError:
            raise
        except CirclekitError:
            pass
    inputs = make_inputs(model.main, which)
    return Run.of(which.label, model, inputs, kernels)
