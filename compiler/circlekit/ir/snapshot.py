# SPDX-License-Identifier: Apache-2.0
"""The state of a model, to find what a pass changed and to undo it.

Unlike ``clone`` it copies no object: after ``restore``, values, operators and graphs are the same as before.
"""

from __future__ import annotations

from typing import Any

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value

_Type = tuple[Any, ...]
"""The fields of a value in the order of ``_SLOTS``, then ``extra``, None if that is empty."""

_SLOTS = ("name", "dtype", "shape", "data", "quantization", "is_variable")


class Snapshot:
    """The state of ``model`` now.  Arrays are shared: passes replace them, and never write into them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._epochs = [graph.epoch for graph in model.graphs]
        self._fields = _copied(vars(model))
        self._signatures = [(signature, _copied(vars(signature))) for signature in model.signatures]
        self._graphs = [(graph, dict(vars(graph))) for graph in model.graphs]
        self._ops = {op: _op_state(op) for op in model.ops()}
        self._types: dict[Value, _Type] = {v: _type(v) for graph in model.graphs for v in graph.values()}

    def is_of(self, model: Model) -> bool:
        """Return whether ``model`` is this one, and no graph has changed since."""
        return model is self._model and self._epochs == [graph.epoch for graph in model.graphs]

    def restore(self) -> None:
        """Undo every change that was made since."""
        _assign(self._model, self._fields)
        for signature, fields in self._signatures:
            _assign(signature, fields)
        for graph, fields in self._graphs:
            _assign(graph, fields | {"_names": None})  # collected again when needed
        for value, state in self._types.items():
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
        """Return the operators of now that are new or differ, and the earlier ones that are gone or differ.

        An operator differs if its operands, results, attributes or version do, or the type, the data or the
        quantization of an operand or result.
        """
        other = {value for value, state in self._types.items() if not _is_same(_type(value), state)}
        ops = list(self._model.ops())
        now = dict.fromkeys(op for op in ops if self._differs(op, other))
        present = set(ops)
        return list(now), [op for op in self._ops if op in now or op not in present]

    def _differs(self, op: Op, other: set[Value]) -> bool:
        fields = self._ops.get(op)
        if fields is None or any(fields[name] != getattr(op, name) for name in _COMPARED):
            return True
        return bool(other) and any(value in other for value in (*op.inputs, *op.results))


def _op_state(op: Op) -> dict[str, Any]:
    """Return the fields of ``op`` as ``_copied`` does, in a third of the time."""
    state = dict(vars(op))
    state.update(
        inputs=op.inputs[:],
        results=op.results[:],
        attribute_values=op.attribute_values.copy(),
        extra=op.extra.copy(),
    )
    return state


_COMPARED = ("inputs", "results", "attribute_values", "version")


def _type(value: Value) -> _Type:
    extra = value.extra
    return (
        value.name, value.dtype, value.shape, value.data, value.quantization, value.is_variable,
        dict(extra) if extra else None,
    )  # fmt: skip


def _is_same(now: _Type, then: _Type) -> bool:
    """Return whether dtype, shape and extra are equal, and data and quantization the same objects."""
    return now[3] is then[3] and now[4] is then[4] and now[1:3] == then[1:3] and now[6] == then[6]


def _copied(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a copy in which dicts and lists are copied too."""
    return {name: x.copy() if type(x) is dict or type(x) is list else x for name, x in fields.items()}


def _assign(owner: object, fields: dict[str, Any]) -> None:
    vars(owner).clear()
    vars(owner).update(_copied(fields))
