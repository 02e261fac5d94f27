# SPDX-License-Identifier: Apache-2.0
"""Findings of a comparison of two models: their interfaces, and every output on every set of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from circlekit.equivalence.array_comparison import Outcome, allowed_difference, compare_arrays, is_telling
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value, format_shape


@dataclass
class OutputDifference(Outcome):
    """The comparison of one output on the set of inputs called ``inputs``."""

    inputs: str = ""

    def __str__(self) -> str:
        return f"output %{self.name} on {self.inputs} inputs: {self.reason or self.worst or 'empty'}"


@dataclass
class Comparison:
    """The findings of a comparison.

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
        """The output with the largest difference in proportion to its tolerance."""
        return max(self.outputs, key=_excess, default=None)

    def lines(self) -> list[str]:
        """Return the findings, one a line."""
        return [*self.interface, *map(str, self.outputs), *self.notes]

    def __str__(self) -> str:
        return "\n".join(["equal" if self.equal else "different", *self.lines()])


def _excess(output: OutputDifference) -> float:
    """Return the difference in proportion to its tolerance; inf if the arrays cannot be compared."""
    if output.reason:
        return float("inf")
    worst = output.worst
    if worst is None or worst.absolute == 0:
        return 0.0
    return worst.absolute / worst.tolerance if worst.tolerance else float("inf")


# -- interface ---------------------------------------------------------------------------------

Interface = list[tuple[str, str]]
"""(place, description) of everything that a caller of a model sees, in order."""


def interface_of(model: Model) -> Interface:
    """Describe the inputs, outputs and signatures of a model."""
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
    """Return a sentence for each part of the interface that is missing or different in either.

    A shape [] may become any other: files write it for an unknown rank too.
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
    """Compare the outputs of two runs; ``inputs``: the name of their set of inputs.

    ``noise``: for each output an absolute difference that is tolerated if it exceeds the usual tolerance.
    """
    found = []
    for name, a, b, excused in zip(names, before, after, noise or [0.0] * len(names), strict=True):
        outcome = compare_arrays(name, a, b, max(allowed_difference(a), excused))
        found.append(OutputDifference(name, outcome.worst, outcome.reason, inputs))
    return found


def weak_outputs(graph: Graph, runs: Sequence[Sequence[Array]]) -> list[str]:
    """Return a sentence for every output that was NaN, infinite or zero throughout in every run."""
    return [
        f"output %{value.name} is NaN, infinite or zero on all inputs: its equality proves little"
        for index, value in enumerate(graph.outputs)
        if not any(is_telling(outputs[index]) for outputs in runs)
    ]
