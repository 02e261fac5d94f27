# SPDX-License-Identifier: Apache-2.0
"""Compares two models: their interface, and the values of every output on every set of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from circlekit.equivalence.array_comparison import Outcome, allowed_difference, compare_arrays, is_telling
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value, format_shape


@dataclass
class OutputDifference(Outcome):
    """How one output compares on the set of inputs that ``inputs`` names."""

    inputs: str = ""

    def __str__(self) -> str:
        return f"output %{self.name} on {self.inputs} inputs: {self.reason or self.worst or 'empty'}"


@dataclass
class Comparison:
    """What a comparison of two models found.

    ``interface``: sentences on inputs, outputs and signatures that differ.  ``outputs``: one entry for each
    output and set of inputs.  ``notes``: what the comparison does not prove.
    """

    interface: list[str] = field(default_factory=list)
    outputs: list[OutputDifference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.interface and all(output.equal for output in self.outputs)

    def __bool__(self) -> bool:
        return self.equal

    @property
    def worst(self) -> OutputDifference | None:
        """The output that is farthest beyond its tolerance; the closest to it where all are equal."""
        return max(self.outputs, key=_excess, default=None)

    def lines(self) -> list[str]:
        """The findings, one a line."""
        return [*self.interface, *map(str, self.outputs), *self.notes]

    def __str__(self) -> str:
        return "\n".join(["equal" if self.equal else "different", *self.lines()])


def _excess(output: OutputDifference) -> float:
    if output.reason:
        return float("inf")
    worst = output.worst
    if worst is None or worst.absolute == 0:
        return 0.0
    return worst.absolute / worst.tolerance if worst.tolerance else float("inf")


# -- interface ---------------------------------------------------------------------------------

Interface = list[tuple[str, str]]


def interface_of(model: Model) -> Interface:
    """(place, content) of everything that a caller of ``model`` sees, in order."""
    parts: Interface = []
    parts += [(f"input {i}", _describe(v)) for i, v in enumerate(model.main.inputs)]
    parts += [(f"output {i}", _describe(v)) for i, v in enumerate(model.main.outputs)]
    for signature in model.signatures:
        place = f"signature {signature.key!r}"
        parts += [(f"{place} input {name!r}", _describe(v)) for name, v in signature.inputs.items()]
        parts += [(f"{place} output {name!r}", _describe(v)) for name, v in signature.outputs.items()]
    return parts


def _describe(value: Value) -> str:
    return f"%{value.name}: {value.dtype.short}{format_shape(value.shape)}"


def interface_differences(before: Interface, after: Interface) -> list[str]:
    """A sentence for every part of the interface that is not in both, or not the same in both.

    What had the shape [], which in files stands for an unknown rank too, may have any shape after.
    """
    left, right = dict(before), dict(after)
    sentences = []
    for place in dict.fromkeys([*left, *right]):
        a, b = left.get(place, "missing"), right.get(place, "missing")
        if a != b and not (a.endswith("[]") and b.startswith(a[:-1])):
            sentences.append(f"{place} was {a}, is {b}")
    return sentences


# -- values ------------------------------------------------------------------------------------


def compare_outputs(
    inputs: str,
    names: Sequence[str],
    before: Sequence[Array],
    after: Sequence[Array],
    noise: Sequence[float] | None = None,
) -> list[OutputDifference]:
    """One entry for each output; ``inputs`` names the set of inputs that gave these values.

    ``noise``: absolute differences, one an output, that are allowed where they exceed the tolerance.
    """
    found = []
    for name, a, b, excused in zip(names, before, after, noise or [0.0] * len(names), strict=True):
        outcome = compare_arrays(name, a, b, max(allowed_difference(a), excused))
        found.append(OutputDifference(name, outcome.worst, outcome.reason, inputs))
    return found


def weak_outputs(graph: Graph, runs: Sequence[Sequence[Array]]) -> list[str]:
    """A sentence for every output that was NaN, infinite or zero throughout, in every run."""
    return [
        f"output %{value.name} is NaN, infinite or zero on all inputs: its equality proves little"
        for index, value in enumerate(graph.outputs)
        if not any(is_telling(outputs[index]) for outputs in runs)
    ]
