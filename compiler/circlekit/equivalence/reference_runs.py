# SPDX-License-Identifier: Apache-2.0
"""Run a model on the sets of inputs that equivalence is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlekit.equivalence.random_seeds import with_seeds
from circlekit.equivalence.seeded_inputs import InputSet, input_sets, make_inputs
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.interpreter import run
from circlekit.interp.kernel_selection import select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels

Inputs = Sequence[Array] | Mapping[str, Array]


@dataclass
class Run:
    """The outputs of a model on one set of inputs.

    ``kind``: the label of the set, or "given".  ``kernels``: the kernels that computed integers; a model
    that is compared with this one must use the same.
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
        """Return the outputs of another ``model`` on the same inputs, with the same kernels."""
        with np.errstate(all="ignore"):  # boundary inputs may overflow
            return run(with_seeds(model), self.inputs, kernels=self.kernels)


def reference_runs(
    model: Model, inputs: Inputs | None = None, kernels: Kernels | None = None
) -> tuple[list[Run], list[str]]:
    """Run ``model`` on ``inputs``, or on every seeded set; return notes on sets that it cannot take too.

    ``kernels``: those of the whole model if ``model`` is a part of one.  UnsupportedError if an operator
    has no kernel; the error of the run if it fails on normal inputs.
    """
    kernels = select_kernels(model, kernels)
    if inputs is not None:
        return [Run.of("given", model, inputs, kernels)], []
    found = [_attempt(model, which, kernels) for which in input_sets(model.main)]
    return [x for x in found if isinstance(x, Run)], [x for x in found if isinstance(x, str)]


def _attempt(model: Model, which: InputSet, kernels: Kernels) -> Run | str:
    """Return the run on a set, or a note that the model does not take it."""
    try:
        return _seeded_run(model, which, kernels)
    except UnsupportedError as error:
        raise error.note("so the model cannot be verified: verifying runs it before and after") from None
    except CirclekitError as error:
        if which.kind == "normal":
            raise
        return f"not compared on {which.label} inputs, which the model does not take: {error.message}"


def _seeded_run(model: Model, which: InputSet, kernels: Kernels) -> Run:
    """Run with unknown dimensions of 2, which tells a broadcast from a batch, or of 1 if that fails."""
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
