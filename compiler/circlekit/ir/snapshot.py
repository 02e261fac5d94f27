# SPDX-License-Identifier: Apache-2.0
"""Record the state of a model, to find what a pass changed and to undo it.

A snapshot copies no values, operators or graphs, unlike ``clone``: ``restore`` gives the same objects their
earlier contents.
"""

from __future__ import annotations

from typing import Any

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value

_ValueState = tuple[Any, ...]
"""The fields of a value in the order of ``_SLOTS``, then ``extra`` (None if that is empty)."""

_SLOTS = ("name", "dtype", "shape", "data", "quantization", "is_variable")


class Snapshot:
    """The state of ``model`` when the snapshot is made.

    Arrays of constants are shared with the model: passes replace them, but never write into them.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._epochs = [graph.epoch for graph in model.graphs]
        self._fields = _copied(vars(model))
        self._signatures = [(signature, _copied(vars(signature))) for signature in model.signatures]
        self._graphs = [(graph, dict(vars(graph))) for graph in model.graphs]
        self._ops = {op: _op_state(op) for op in model.ops()}
        self._values = {v: _value_state(v) for graph in model.graphs for v in graph.values()}

    def is_of(self, model: Model) -> bool:
        """Return whether this is a snapshot of ``model`` and no graph has changed since it was made."""
        return model is self._model and self._epochs == [graph.epoch for graph in model.graphs]

    def restore(self) -> None:
        """Undo every change of the model since the snapshot was made."""
        _assign(self._model, self._fields)
        for signature, fields in self._signatures:
            _assign(signature, fields)
        for graph, fields in self._graphs:
            _assign(graph, fields | {"_names": None})  # ``unique_name`` collects the names again
        for value, state in self._values.items():
            value.producer, value.result_index, value._uses = None, 0, {}
            for name, content in zip(_SLOTS, state, strict=False):
                setattr(value, name, content)
            value.extra = dict(state[-1] or {})
        for op, fields in self._ops.items():
            _assign(op, fields)
            for index, result in enumerate(op.results):
                result.producer, result.result_index = op, index
            for index, operand in enumerate(op.inputs):
                if operand is not None:
                    operand._uses[op, index] = None

    def changed(self) -> tuple[list[Op], list[Op]]:
        """Return two lists: the operators that are new or differ, and those that are gone or differ.

        An operator differs if its operands, results, attributes or version have changed, or if dtype, shape,
        data, quantization or ``extra`` of one of its operands or results has changed.
        """
        other = {v for v, state in self._values.items() if not _is_same(_value_state(v), state)}
        ops = list(self._model.ops())
        now = dict.fromkeys(op for op in ops if self._differs(op, other))
        present = set(ops)
        return list(now), [op for op in self._ops if op in now or op not in present]

    def _differs(self, op: Op, other: set[Value]) -> bool:
        """Return whether ``op`` is new or differs.  ``other``: the values that have changed."""
        fields = self._ops.get(op)
        if fields is None or any(fields[name] != getattr(op, name) for name in _COMPARED):
            return True
        return bool(other) and any(value in other for value in (*op.inputs, *op.results))


def _op_state(op: Op) -> dict[str, Any]:
    """Return the same as ``_copied(vars(op))``, in a third of the time."""
    state = dict(vars(op))
    state.update(
        inputs=op.inputs[:],
        results=op.results[:],
        attribute_values=op.attribute_values.copy(),
        extra=op.extra.copy(),
    )
    return state


_COMPARED = ("inputs", "results", "attribute_values", "version")


def _value_state(value: Value) -> _ValueState:
    extra = value.extra
    return (
        value.name, value.dtype, value.shape, value.data, value.quantization, value.is_variable,
        dict(extra) if extra else None,
    )  # fmt: skip


def _is_same(now: _ValueState, then: _ValueState) -> bool:
    """Return whether dtype, shape and ``extra`` are equal, and data and quantization are the same objects."""
    return now[3] is then[3] and now[4] is then[4] and now[1:3] == then[1:3] and now[6] == then[6]


def _copied(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of ``fields`` with copies of the dicts and lists that are its values."""
    return {name: x.copy() if type(x) is dict or type(x) is list else x for name, x in fields.items()}


def _assign(owner: object, fields: dict[str, Any]) -> None:
    vars(owner).clear()
    vars(owner).update(_copied(fields))
