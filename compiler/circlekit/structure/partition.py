# SPDX-License-Identifier: Apache-2.0
"""Divide a model into parts; all operators of a part run on the same backend.

A backend, such as cpu or npu, runs operators.  Source of the rule that forms the parts by default: ONE's
circle-partitioner (luci/partition).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from heapq import heappop, heappush

from circlekit.errors import UnsupportedError
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.graph import Graph, Model, called_graphs
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ir.verifier import check_order
from circlekit.structure.part_table import PartTable
from circlekit.structure.submodel import HANDLES, results_for_outside, submodel


@dataclass
class Part:
    """A part of a model: the name of the ``backend`` that runs it, and a ``model`` with its operators."""

    backend: str
    model: Model


@dataclass
class Partition:
    """The ``parts`` of a model, ordered so that each part reads only from earlier parts.

    An output of a part and the inputs of later parts that read it have the same name.
    ``inputs``, ``outputs``: the names that the inputs and outputs of the divided model have in the parts, in
    the order of the model.  A new name replaces an empty name, and a name that an earlier value has.
    """

    inputs: list[str]
    outputs: list[str]
    parts: list[Part]


def partition(model: Model, table: PartTable, fewest: bool = False) -> Partition:
    """Divide ``model`` into parts; ``table`` gives the backend of each operator.  ``model`` stays as it is.

    Only the main graph is divided.  A part also has the graphs that its operators call.
    By default, ONE's rule forms the parts.  An operator joins the parts from which it reads, and they become
    one part, if

    - they have the backend of the operator,
    - the operator reads no input of the graph, or its backend is the default backend, and
    - no other part would have to run between the operators of the new part.

    Every other operator begins a new part.
    ``fewest``: form few parts instead.  A part then has all operators of a backend that can run next,
    connected or not.  For two backends, no division has fewer parts; for more backends, the choice is greedy,
    and another division may have fewer.

    Raise FormatError if the table is wrong, ModelError if an operator reads what a later one produces.
    Raise UnsupportedError if several parts would use the same variable, or would produce or read handles
    (resources, variants), which may refer to the same state.  Also raise it if an input or output of a part
    would be a handle.
    """
    table.check()
    check_order(model)
    groups = _fewest_groups(model.main, table) if fewest else _connected_groups(model.main, table)
    groups = _with_constant_outputs(model.main, table, groups)
    _check_state(groups)
    names = _unique_names(model.main, groups)
    kernels = select_kernels(model)  # every part must round as the whole model does
    parts = []
    for group in groups:
        outputs = [*results_for_outside(group.ops), *group.constants] if group.ops else group.constants
        parts.append(Part(group.backend, submodel(model, group.ops, outputs, names, kernels=kernels)))
        parts[-1].model.main.name = f"{model.main.name}_{group.backend}".lstrip("_")
    return Partition([names[v] for v in model.main.inputs], [names[v] for v in model.main.outputs], parts)


@dataclass
class _Group:
    """The operators of one part.  ``constants``: constants that are outputs of the graph and of this part."""

    backend: str
    ops: list[Op] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)


def _connected_groups(graph: Graph, table: PartTable) -> list[_Group]:
    """Return the groups by ONE's rule (see ``partition``), each after the groups from which it reads."""
    home: dict[Op, _Group] = {}  # the group of each operator
    for op in graph:
        backend = table.backend_of(op)
        sources = {id(home[p]): home[p] for p in _producers(op)}
        reads_input = any(v is not None and graph.is_input(v) for v in op.inputs)
        if (
            any(group.backend != backend for group in sources.values())
            or (reads_input and backend != table.default)
            or _would_form_cycle(sources, home)
        ):
            sources = {}
        group, *others = sorted(sources.values(), key=lambda g: -len(g.ops)) or [_Group(backend)]
        added = [*(member for other in others for member in other.ops), op]
        group.ops += added
        home.update(dict.fromkeys(added, group))
    return _sorted_groups(graph, home)


def _would_form_cycle(groups: Mapping[int, _Group], home: Mapping[Op, _Group]) -> bool:
    """Return whether ``groups``, joined, would read a value that another group computes from their results.

    ``groups``: {id of the group: the group}.  ``home``: the group of each operator.
    """
    if len(groups) < 2:
        return False
    seen = dict(groups)
    waiting = list(groups.values())
    for group in waiting:  # the loop appends to ``waiting``
        for source in (home[p] for op in group.ops for p in _producers(op)):
            if id(source) in groups and id(group) not in groups:
                return True
            if id(source) not in seen:
                seen[id(source)] = source
                waiting.append(source)
    return False


def _sorted_groups(graph: Graph, home: Mapping[Op, _Group]) -> list[_Group]:
    """Return the groups in ``home``, each after those from which it reads.

    Of the groups that can come next, the one whose first operator stands first in ``graph`` comes next.
    """
    position = {op: number for number, op in enumerate(graph)}
    for group in {id(group): group for group in home.values()}.values():
        group.ops.sort(key=position.__getitem__)
    # for each operator, the position of the first operator of its group; this number stands for the group
    first = {op: position[group.ops[0]] for op, group in home.items()}
    groups = {first[op]: group for op, group in home.items()}
    reads = {n: {first[p] for op in group.ops for p in _producers(op)} - {n} for n, group in groups.items()}
    sorter = TopologicalSorter(reads)
    sorter.prepare()
    ready: list[int] = []
    order: list[_Group] = []
    while sorter.is_active():
        for number in sorter.get_ready():
            heappush(ready, number)
        number = heappop(ready)
        sorter.done(number)
        order.append(groups[number])
    return order


def _fewest_groups(graph: Graph, table: PartTable) -> list[_Group]:
    """Return few groups, each after the groups from which it reads.

    A greedy division is made for each backend that can come first; the one with the fewest groups is
    returned.  For two backends no division has fewer groups: the backends alternate, and each group has all
    operators of its backend that can run at that point.
    """
    backends = {op: table.backend_of(op) for op in graph}
    firsts = sorted({backend for op, backend in backends.items() if not any(_producers(op))})
    return min((_greedy_groups(graph, backends, first) for first in firsts), key=len, default=[])


def _greedy_groups(graph: Graph, backends: Mapping[Op, str], first: str) -> list[_Group]:
    """Return groups; each has all operators of one backend that can run after the groups before it.

    Each time, the backend with the most such operators is chosen.  ``backends``: the backend of each
    operator.  ``first``: the backend of the first group.
    """
    position = {op: number for number, op in enumerate(graph)}
    missing = {op: len(set(_producers(op))) for op in graph}  # the number of producers that are in no group
    ready: dict[str, list[Op]] = {}
    for op, count in missing.items():
        if not count:
            ready.setdefault(backends[op], []).append(op)
    groups: list[_Group] = []
    while ready:
        choices = sorted(ready) if groups else [first]
        candidates = [_Group(b, _runnable(b, ready[b], backends, missing)) for b in choices]
        chosen = max(candidates, key=lambda group: len(group.ops))
        chosen.ops.sort(key=position.__getitem__)
        groups.append(chosen)
        del ready[chosen.backend]
        for op in chosen.ops:
            for user in _users(op):
                missing[user] -= 1
                # a user with the backend of the group is in the group already
                if not missing[user] and backends[user] != chosen.backend:
                    ready.setdefault(backends[user], []).append(user)
    return groups


def _runnable(
    backend: str, ready: Sequence[Op], backends: Mapping[Op, str], missing: Mapping[Op, int]
) -> list[Op]:
    """Return ``ready`` and all operators of ``backend`` that can run after these without other operators.

    ``missing``: for each operator, how many of its producers have not run yet.
    """
    found = list(ready)
    seen: Counter[Op] = Counter()  # for each operator, how many of its producers are in ``found``
    for op in found:  # the loop appends to ``found``
        for user in _users(op):
            seen[user] += 1
            if seen[user] == missing[user] and backends[user] == backend:
                found.append(user)
    return found


def _users(op: Op) -> list[Op]:
    """Return the operators that use a result of ``op``, each once."""
    return list(dict.fromkeys(user for value in op.results for user in value.users))


def _producers(op: Op) -> Iterable[Op]:
    """Return the producer of each computed operand of ``op``."""
    return (v.producer for v in op.inputs if v is not None and v.producer is not None)


def _with_constant_outputs(graph: Graph, table: PartTable, groups: list[_Group]) -> list[_Group]:
    """Add the constants that are outputs of ``graph`` to the first group; return the groups.

    If there is no group, make one for them.
    """
    constants = list(dict.fromkeys(v for v in graph.outputs if v.is_const))
    if constants and not groups:
        groups = [_Group(table.default)]
    if constants:
        groups[0].constants = constants
    return groups


def _check_state(groups: Sequence[_Group]) -> None:
    """Raise UnsupportedError if several groups produce handles: references to state, with a dtype in HANDLES.

    The operators of the graphs that a group calls, directly or not, count as operators of the group.
    """
    found: dict[int, Value] = {}
    for index, group in enumerate(groups):
        ops = [*group.ops, *(op for graph in called_graphs(group.ops) for op in graph)]
        handle = next((v for op in ops for v in op.results if v.dtype in HANDLES), None)
        if handle is not None:
            found[index] = handle
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise UnsupportedError(
            f"%{first.name} and %{second.name} refer to state that operators of several parts may share;"
            " all operators with resources have to be in one part: assign one backend to them, and use"
            " `fewest` if they are not connected"
        )


def _unique_names(graph: Graph, groups: Sequence[_Group]) -> dict[Value, str]:
    """Return a name for each value between parts, and for each input and output of the graph.

    It is the value's own name, unless that is empty or an earlier one of these values has the same name.
    """
    between = [v for group in groups for v in results_for_outside(group.ops)]
    values = dict.fromkeys([*graph.inputs, *graph.outputs, *between])
    taken = {v.name for v in graph.values()}
    used: set[str] = set()
    names: dict[Value, str] = {}
    for value in values:
        name, number = value.name, 0
        while not name or name in used or (number and name in taken):  # a new name is that of no other value
            number += 1
            name = f"{value.name or 'value'}_{number}"
        used.add(name)
        names[value] = name
    return names
