# SPDX-License-Identifier: Apache-2.0
"""Compare the outputs and interfaces of two models.  ``Comparison`` is the result of such a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from circlekit.equivalence.array_comparison import Outcome, allowed_difference, compare_arrays
from circlekit.ir.graph import Graph, Model
from circlekit.ir.shape_inference import following_axes, with_dims
from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.engine.optimization_report import equal_within


@dataclass
class Comparison:
    """The result of a comparison of two models.

    ``interface``: sentences about inputs, outputs and signatures that differ.  ``outputs``: one outcome for
    each output and set of inputs.  ``notes``: sentences about what was not compared or proves little.
    """

    interface: list[str] = field(default_factory=list)
    outputs: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.interface and all(output.equal for output in self.outputs)

    def __bool__(self) -> bool:
        return self.equal

    @property
    def worst(self) -> Outcome | None:
        """The output with the largest difference relative to its tolerance; None if there are no outputs."""
        return max(self.outputs, key=lambda outcome: outcome.excess, default=None)

    @property
    def verdict(self) -> str:
        """A text about the output ``worst``, such as ``equal within 0.25, allowed 1``.

        ``different`` if the models differ, ``exactly equal`` if the difference is 0, and ``equal`` if there
        is no output ``worst``, or it has no elements.
        """
        if not self.equal:
            return "different"
        worst = self.worst.worst if self.worst is not None else None
        return "equal" if worst is None else equal_within(worst.absolute, worst.tolerance)

    def __str__(self) -> str:
        return "\n".join([self.verdict, *self.interface, *map(str, self.outputs), *self.notes])


Interface = list[tuple[str, str]]
"""What a caller of a model sees, in order: pairs such as ("input 0", "%x: f32[1,4]")."""


def interface_of(model: Model) -> Interface:
    """Return the inputs and outputs of the main graph and of the signatures as text.

    The text has name, dtype and shape, but neither scales nor zero points.  A dimension that follows an
    unknown one of an input is unknown, also if a number is stated (see ``following_axes``).
    """
    following = following_axes(model)

    def describe(value: Value) -> str:
        shape = value.shape and with_dims(value.shape, following.get(value, ()), None)
        return f"%{value.name}: {value.dtype.short}{format_shape(shape)}"

    parts = [(f"input {i}", describe(v)) for i, v in enumerate(model.main.inputs)]
    parts += [(f"output {i}", describe(v)) for i, v in enumerate(model.main.outputs)]
    for signature in model.signatures:
        place = f"signature {signature.key!r}"
        parts += [(f"{place} input {name!r}", describe(v)) for name, v in signature.inputs.items()]
        parts += [(f"{place} output {name!r}", describe(v)) for name, v in signature.outputs.items()]
    return parts


def interface_differences(before: Interface, after: Interface) -> list[str]:
    """Return a sentence for each place, such as ``input 0``, at which the interfaces differ.

    A shape [] may become any other shape, because a file stores [] for an unknown rank too.
    """
    left, right = dict(before), dict(after)
    sentences = []
    for place in dict.fromkeys([*left, *right]):
        old, new = left.get(place, "missing"), right.get(place, "missing")
        if old != new and not (old.endswith("[]") and new.startswith(old[:-1])):
            sentences.append(f"{place} was {old}, is {new}")
    return sentences


def compare_outputs(
    inputs: str,
    before: Mapping[str, Array],
    after: Mapping[str, Array],
    noise: Mapping[str, float] | None = None,
) -> list[Outcome]:
    """Return an outcome for each output of the run ``before`` that the run ``after`` has, too.

    ``before``, ``after``: the arrays of the outputs, by name.  ``inputs``: the name of the set of inputs of
    the runs.  ``noise``: by output, an absolute difference that is tolerated even if ``allowed_difference``
    is smaller.
    """
    outcomes = []
    for name in (name for name in before if name in after):
        tolerance = max(allowed_difference(before[name]), (noise or {}).get(name, 0.0))
        outcomes.append(replace(compare_arrays(name, before[name], after[name], tolerance), inputs=inputs))
    return outcomes


def weak_outputs(graph: Graph, runs: Sequence[Sequence[Array]]) -> list[str]:
    """Return a sentence for each output that is empty, or has only 0, NaN and infinities, in all ``runs``.

    ``runs``: for each run, one array per output of ``graph``.
    """

    def is_telling(array: Array) -> bool:
        """Return whether an element is finite and not 0."""
        finite = np.isfinite(array) if array.dtype.kind in "fc" else True
        return bool(np.any(finite & (array != 0)))

    sentences = []
    for index, value in enumerate(graph.outputs):
        arrays = [outputs[index] for outputs in runs]
        if not any(map(is_telling, arrays)):
            has_elements = any(array.size for array in arrays)
            what = (
                "is NaN, infinite or zero on all inputs" if has_elements else "has no elements on any input"
            )
            sentences.append(f"output %{value.name} {what}: its equality proves little")
    return sentences
