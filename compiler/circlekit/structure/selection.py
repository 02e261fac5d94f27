# SPDX-License-Identifier: Apache-2.0
"""Cut a submodel out of a model: chosen operators, or the operators that compute values from other values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from circlekit.errors import ModelError, did_you_mean, names_in
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.structure.submodel import find_values, submodel

RANGE = re.compile(r"(\d{1,18})(?:\s*-\s*(\d{1,18}))?")
"""A number of at most 18 digits, or a range such as ``1-3``."""


def select(model: Model, ids: Iterable[int] = (), names: str | Iterable[str] = ()) -> Model:
    """Return a model of chosen operators of the main graph.

    ``ids``: indices of operators in the main graph.  ``names``: names of results of operators, or one name.
    The inputs of the new model are the values that the chosen operators read but do not produce, except
    constants, and variables that are not inputs of the graph.  Its outputs are the results that are outputs
    of ``model`` or that operators outside of the choice read; if there are none, the results without users.
    Raise ModelError for an unknown index or name, or if no operator is chosen, and the errors of
    ``submodel``.
    """
    ops = model.main.ops
    chosen = {ops[number] for number in _checked_ids(ids, len(ops))}
    by_name = {v.name: op for op in ops for v in op.results}
    for name in names_in("a result", names):
        if name not in by_name:
            raise ModelError(f"no operator has a result named {name!r}{did_you_mean(name, by_name, 3)}")
        chosen.add(by_name[name])
    if not chosen:
        raise ModelError("No operator selected")
    return submodel(model, [op for op in ops if op in chosen])


def _checked_ids(ids: object, count: int) -> Iterator[int]:
    """Yield ``ids``; raise ModelError for an element that is not the index of one of ``count`` operators."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise ModelError(f"expected a list of operator numbers, got {ids!r}")
    for number in ids:
        if not isinstance(number, int | np.integer) or not 0 <= number < count:
            if not count:
                raise ModelError(f"the main graph has no operators, got the operator number {number!r}")
            raise ModelError(f"expected operator numbers from 0 to {count - 1}, got {number!r}")
        yield int(number)


def parse_ids(text: str) -> Iterator[int]:
    """Return an iterator of the numbers in a text such as ``1-3,5``: 1, 2, 3, 5.

    Raise ModelError for other text; the call raises it, not the iterator.
    """
    ranges = []
    for word in text.split(","):
        match = RANGE.fullmatch(word.strip())
        if match is None:
            raise ModelError(f"expected numbers and ranges such as 1-3,5, got {text!r}")
        first = int(match[1])
        last = int(match[2] or first)
        if last < first:
            raise ModelError(f"expected a range from a lower to a higher number, got {word.strip()!r}")
        ranges.append(range(first, last + 1))
    return chain.from_iterable(ranges)  # no list: a range may go far beyond the operators of a model


def extract(model: Model, inputs: str | Iterable[str] = (), outputs: str | Iterable[str] = ()) -> Model:
    """Return a model of the operators of the main graph that compute ``outputs`` from ``inputs``.

    ``inputs``, ``outputs``: names of inputs of the graph or of results of operators, or one name.  If the
    outputs also depend on other inputs of the graph, these become inputs after the named ones.  If no output
    is named, the outputs are those of the graph.
    Raise ModelError for an unknown name, and for an input that is not needed to compute ``outputs`` if the
    other named inputs are given.  Also raise the errors of ``submodel``.
    """
    graph = model.main
    starts = list(dict.fromkeys(find_values(graph, names_in("a value", inputs))))
    ends = find_values(graph, names_in("a value", outputs)) or list(graph.outputs)
    ops = _ops_between(starts, ends)
    used = {v for op in ops for v in op.inputs if v is not None} | set(ends)  # an end may be a start
    for value in starts:
        if value not in used:
            names = ", ".join(f"%{v.name}" for v in ends)
            raise ModelError(f"%{value.name}: expected a value that is needed to compute {names}")
    others = [v for v in graph.inputs if v in used and v not in starts]
    return submodel(model, [op for op in graph if op in ops], ends, inputs=[*starts, *others])


def _ops_between(starts: Sequence[Value], ends: Sequence[Value]) -> set[Op]:
    """Return the operators that compute ``ends``; the search goes back no further than ``starts``."""
    stop = set(starts)
    found: set[Op] = set()
    waiting = [v for v in ends if v not in stop]
    while waiting:
        op = waiting.pop().producer
        if op is not None and op not in found:
            found.add(op)
            waiting += [v for v in op.inputs if v is not None and v not in stop]
    return found
