# SPDX-License-Identifier: Apache-2.0
"""Find the operators, inputs and outputs of a model that a target cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.targets.ignored_attributes import tolerated
from circlekit.targets.planners import PLANNERS
from circlekit.targets.target import Target
from circlekit.targets.target_choice import OperatorCheck

INPUT = "input"
"""The value of ``Finding.operator`` in a finding about an input of the model."""


@dataclass(frozen=True)
class Finding:
    """A problem that a target has with an operator, an input or an output of a model.

    ``target``, ``graph``: their names.  ``index``: the index of the operator in the graph, from 0.
    ``operator``: its name in the schema, or its custom code.  ``result``: the name of its first result or "".
    ``reason``: a sentence.  ``remedy``: what would help; "" if nothing is known.

    In a finding about an output, ``index`` and ``operator`` are those of the operator that produces the
    output, ``result`` is the name of the output, and ``is_output`` is True.  In a finding about an input,
    ``index`` is the index among the inputs, ``operator`` is INPUT, and ``result`` is the name of the input.
    """

    target: str
    graph: str
    index: int
    operator: str
    result: str
    reason: str
    remedy: str = ""
    is_output: bool = False

    @property
    def is_operator(self) -> bool:
        """Whether the target cannot run an operator; False: it has a problem with an input or output."""
        return self.operator != INPUT and not self.is_output

    @property
    def place(self) -> tuple[str, str]:
        """The names of graph and result.  They stay the same when passes change the index.

        Operators without results have the same place if they are in the same graph.
        """
        return self.graph, self.result

    def document(self) -> dict[str, Any]:
        """Return the finding as a dict of JSON types."""
        return asdict(self)

    @property
    def where(self) -> str:
        """The place as users read it, such as ``main > op 12 CONV_2D > %y``."""
        what = "input" if self.operator == INPUT else "op"
        code = "" if self.operator == INPUT else f" {self.operator}"
        result = f" > %{self.result}" if self.result else ""
        return f"{self.graph} > {what} {self.index}{code}{result}"

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}{'; ' if self.remedy else ''}{self.remedy}"


def find_unsupported(model: Model, target: Target, refusal: OperatorCheck | None = None) -> list[Finding]:
    """Return a finding for each operator that ``target`` cannot run, and each input or output it cannot take.

    Operators that the target refuses, but that run correctly in this model, are left out (see ``tolerated``).
    ``refusal``: a function to use instead of ``target.refusal``.
    """
    refusal = refusal or target.refusal
    fine = {op for graph in model.graphs for op in tolerated(graph, target)}
    found = [
        Finding(target.name, graph.name, index, code_of(op), op.results[0].name if op.results else "", reason)
        for graph in model.graphs
        for index, op in enumerate(graph.ops)
        if op not in fine and (reason := refusal(op)) is not None
    ]
    return [*found, *_unread_inputs(model.main, target), *_overwritten_outputs(model.main, target)]


def _unread_inputs(graph: Graph, target: Target) -> Iterator[Finding]:
    """Yield a finding for each input that no operator reads and whose dtype ``target`` does not take.

    If an operator reads such an input, ``target`` refuses the operator, so the input needs no finding.
    """
    for index, value in enumerate(graph.inputs):
        known = target.input_dtypes
        if known is None or value.users or value.dtype.short in known:
            continue
        reason = f"{target.title} takes inputs of {', '.join(sorted(known))}, got {value.dtype.short}"
        remedy = "export the model without this input, which no operator reads"
        yield Finding(target.name, graph.name, index, INPUT, value.name, reason, remedy)


def _overwritten_outputs(graph: Graph, target: Target) -> Iterator[Finding]:
    """Yield a finding for each output whose memory may be overwritten before the run ends.

    A planner without ``holds_interface`` releases the memory of an output after the last operator that reads
    the output.  An operator that runs later may then overwrite the output.  A runtime may run the operators
    in any valid order.  So the output is safe only if no operator can run after its last reader: each
    operator must be a reader, or be needed by a reader.
    """
    planner = PLANNERS.get(target.name)
    if planner is None or planner.holds_interface:
        return
    for value in dict.fromkeys(graph.outputs):
        op = value.producer
        if op is None or not value.users or len(_before(value.users)) == len(graph):
            continue  # inputs, constants, and outputs without readers keep their memory
        reason = f"{target.title} releases the memory of this output after the last operator that reads it"
        remedy = f"export a copy of %{value.name} as the output instead"
        index, code = graph.ops.index(op), code_of(op)
        yield Finding(target.name, graph.name, index, code, value.name, reason, remedy, is_output=True)


def _before(ops: Iterable[Op]) -> set[Op]:
    """Return ``ops`` and all operators whose results they need, directly or through other operators."""
    found: set[Op] = set()
    todo = [*ops]
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += [v.producer for v in op.inputs if v is not None and v.producer is not None]
    return found


def code_of(op: Op) -> str:
    """Return the name of ``op`` in the schema, or its custom code."""
    return (isinstance(op, OpaqueOp) and op.custom_code) or op.code
