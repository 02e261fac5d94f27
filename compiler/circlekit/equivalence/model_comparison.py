# SPDX-License-Identifier: Apache-2.0
"""Compare the outputs and interfaces of two models.  ``Comparison`` is the result of such a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.array_comparison import Outcome, allowed_difference, compare_arrays
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.shape_inference import following_axes, with_dims
from circlekit.ir.value import Array, Shape, Value, format_shape
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


class Port(NamedTuple):
    """An input or output as a caller sees it, without scale and zero point.

    ``following``: the axes whose dimensions follow unknown ones of inputs (see ``following_axes``).  On these
    axes, ``shape`` has None, also if the model states numbers.
    """

    name: str
    dtype: DType
    shape: Shape | None
    following: Sequence[int] = ()

    def __str__(self) -> str:
        return f"%{self.name}: {self.dtype.short}{format_shape(self.shape)}"

    def may_become(self, other: Port) -> bool:
        """Return whether a rewrite may replace this port by ``other``.

        A shape [] may become any other shape, because a file stores [] for an unknown rank too.  A known
        dimension may become unknown if it then follows an unknown dimension of an input: a rewrite may remove
        the RESHAPE from which the dimension was known.
        """
        if (self.name, self.dtype) != (other.name, other.dtype):
            return False
        if not self.shape or not other.shape or len(self.shape) != len(other.shape):
            return self.shape in ((), other.shape)
        pairs = enumerate(zip(self.shape, other.shape, strict=True))
        return all(a == b or axis in other.following for axis, (a, b) in pairs)


Interface = dict[str, Port]
"""The ports that a caller of a model sees, in order, by their places, such as "input 0" or "output 1"."""


def interface_of(model: Model) -> Interface:
    """Return the inputs and outputs of the main graph and of the signatures."""
    following = following_axes(model)

    def port(value: Value) -> Port:
        axes = following.get(value, ())
        return Port(value.name, value.dtype, value.shape and with_dims(value.shape, axes, None), axes)

    ports = {f"input {i}": port(v) for i, v in enumerate(model.main.inputs)}
    ports |= {f"output {i}": port(v) for i, v in enumerate(model.main.outputs)}
    for signature in model.signatures:
        place = f"signature {signature.key!r}"
        ports |= {f"{place} input {name!r}": port(v) for name, v in signature.inputs.items()}
        ports |= {f"{place} output {name!r}": port(v) for name, v in signature.outputs.items()}
    return ports


def interface_differences(before: Interface, after: Interface) -> list[str]:
    """Return a sentence for each place, such as ``input 0``, at which the interfaces differ."""
    sentences = []
    for place in {**before, **after}:
        old, new = before.get(place), after.get(place)
        if old is None or new is None or not old.may_become(new):
            sentences.append(f"{place} was {old or 'missing'}, is {new or 'missing'}")
    return sentences


def compare_outputs(
    inputs: str,
    before: Mapping[str, Array],
    after: Mapping[str, Array],
    noise: Mapping[str, float] | None = None,
    fraction: float | None = None,
) -> list[Outcome]:
    """Return an outcome for each output of the run ``before`` that the run ``after`` has, too.

    ``before``, ``after``: the arrays of the outputs, by name.  ``inputs``: the name of the set of inputs of
    the runs.  ``noise``: by output, an absolute difference that is tolerated even if ``allowed_difference``
    is smaller.  ``fraction``: see ``allowed_difference``.
    """
    outcomes = []
    for name in (name for name in before if name in after):
        tolerance = max(allowed_difference(before[name], fraction), (noise or {}).get(name, 0.0))
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
