# SPDX-License-Identifier: Apache-2.0
"""Record the state of a model, to find what a pass changed and to undo it.

Unlike ``clone``, a snapshot copies no values, operators or graphs: ``restore`` gives the same objects their
earlier contents.  The state is one list for each field (``version`` of all operators, for example).  A record
for each operator and each value would be slower, because Python's garbage collector visits all containers
again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from circlekit.ir.graph import Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value

T = TypeVar("T")

# the fields that are recorded as they are; lists, uses and ``extra`` are treated separately
_OP_FIELDS = ("version", "attribute_values")
_OPAQUE_FIELDS = ("code", "custom_code", "option_tree")
_VALUE_FIELDS = ("name", "dtype", "shape", "data", "quantization", "is_variable")


class Snapshot:
    """The state of ``model`` when the snapshot is made.

    Arrays of constants, and dicts of attributes and options, are shared with the model: passes replace them,
    and never write into them.
    ``_graphs``: (graph, its operators, its fields) for each graph.
    ``_operands``, ``_results``: the operands and results of each operator.  ``_uses``: the uses of each
    value.  ``_extra``: a copy of each ``extra`` that is not empty, by operator or value.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._epochs = [graph.epoch for graph in model.graphs]
        self._fields = _copied(vars(model))
        self._signatures = [(signature, _copied(vars(signature))) for signature in model.signatures]
        # ``_names`` is not recorded: ``unique_name`` makes it again
        self._graphs = [(graph, graph.ops, _copied(vars(graph) | {"_names": None})) for graph in model.graphs]
        self._ops = [op for _, ops, _ in self._graphs for op in ops]
        self._op_state = _columns(self._ops, _OP_FIELDS)
        self._operands = _Lists([op.inputs for op in self._ops])
        self._results = _Lists([op.results for op in self._ops])
        self._values = list(dict.fromkeys(v for graph in model.graphs for v in graph.values()))
        self._uses = _Lists([value.uses for value in self._values])
        self._value_state = _columns(self._values, _VALUE_FIELDS)
        self._opaque = [op for op in self._ops if isinstance(op, OpaqueOp)]
        self._opaque_state = _columns(self._opaque, _OPAQUE_FIELDS)
        self._extra: dict[Op | Value, dict[str, Any]] = {x: x.extra.copy() for x in self._all() if x.extra}

    def _all(self) -> Iterator[Op | Value]:
        """Yield all operators and values."""
        yield from self._ops
        yield from self._values

    def is_of(self, model: Model) -> bool:
        """Return whether this is a snapshot of ``model``, and the epochs of its graphs are still the same.

        ``Graph.epoch`` says which changes count.
        """
        return model is self._model and self._epochs == [graph.epoch for graph in model.graphs]

    def restore(self) -> None:
        """Undo every change of the model since the snapshot was made."""
        _assign(self._model, self._fields)
        for signature, fields in self._signatures:
            _assign(signature, fields)
        for graph, ops, fields in self._graphs:
            _assign(graph, fields)
            for op, before, after in zip(ops, (None, *ops), (*ops[1:], None), strict=False):
                op.graph, op.previous, op.next = graph, before, after
        for value, uses in zip(self._values, self._uses, strict=True):
            value.producer, value._uses = None, dict.fromkeys(uses)  # the producer is set again below
        states: tuple[tuple[Sequence[object], dict[str, list[Any]]], ...] = (
            (self._values, self._value_state),
            (self._ops, self._op_state),
            (self._opaque, self._opaque_state),
        )
        for things, state in states:
            for name, column in state.items():
                for thing, content in zip(things, column, strict=True):
                    setattr(thing, name, content)
        for thing in self._all():
            thing.extra = self._extra.get(thing, {}).copy()
        for op, operands, results in zip(self._ops, self._operands, self._results, strict=True):
            op.inputs, op.results = operands, results
            for index, result in enumerate(results):
                result.producer, result.result_index = op, index

    def changed(self) -> tuple[list[Op], list[Op]]:
        """Return two lists: the operators that are new or differ, and those that are gone or differ.

        An operator that differs, and is still in the model, is in both lists.  It differs if one of these has
        changed:

        - its operands, results, attributes or version;
        - dtype, shape, data, quantization or ``extra`` of an operand or result (equal data in a new
          array, or an equal item of ``extra`` that is a new object, count as changed);
        - the code, custom code or options of an opaque operator.
        """
        changed_values = self._changed_values()
        state = self._op_state
        rows = zip(
            self._ops, self._operands, self._results, state["attribute_values"], state["version"], strict=True
        )
        options = zip(*_columns(self._opaque, _OPAQUE_FIELDS).values(), strict=True)
        old_options = zip(*self._opaque_state.values(), strict=True)
        changed_opaque = {op for op, a, b in zip(self._opaque, options, old_options, strict=True) if a != b}
        same = {
            op
            for op, *fields in rows
            if op not in changed_opaque
            and fields == [op.inputs, op.results, op.attribute_values, op.version]
            and changed_values.isdisjoint((*op.inputs, *op.results))
        }
        ops = list(self._model.ops())
        present = set(ops)
        gone = [op for op in self._ops if op not in same or op not in present]
        return [op for op in ops if op not in same], gone  # a new operator is not in ``same``, either

    def _changed_values(self) -> set[Value | None]:
        """Return the values whose dtype, shape, data, quantization or ``extra`` has changed."""
        state = self._value_state
        columns = (state[name] for name in ("dtype", "shape", "data", "quantization"))
        return {
            value
            for value, dtype, shape, data, quantization in zip(self._values, *columns, strict=True)
            if value.data is not data
            or value.quantization is not quantization
            or (value.dtype, value.shape) != (dtype, shape)
            or not _has_items_of(value.extra, self._extra.get(value, {}))
        }


def _has_items_of(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether two dicts have the same objects under the same keys.  Arrays in them have no ``==``."""
    return first.keys() == second.keys() and all(item is second[key] for key, item in first.items())


class _Lists(Generic[T]):
    """The contents of many lists, kept in one list; iteration yields a copy of each of the many lists."""

    def __init__(self, lists: Sequence[Sequence[T]]) -> None:
        self._lengths = [len(x) for x in lists]
        self._items = [item for x in lists for item in x]

    def __iter__(self) -> Iterator[list[T]]:
        items = iter(self._items)
        return (list(islice(items, length)) for length in self._lengths)


def _columns(things: Sequence[object], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return, for each field in ``names``, the list of its values in all ``things``."""
    return {name: [getattr(thing, name) for thing in things] for name in names}


def _copied(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of ``fields``, in which each dict or list is a copy, too."""
    return {name: x.copy() if type(x) is dict or type(x) is list else x for name, x in fields.items()}


def _assign(owner: object, fields: dict[str, Any]) -> None:
    """Give ``owner`` copies of ``fields`` in place of all its attributes."""
    vars(owner).clear()
    vars(owner).update(_copied(fields))
