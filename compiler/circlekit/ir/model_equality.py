# SPDX-License-Identifier: Apache-2.0
"""Compare two models completely, down to the bits of constants, and say where they differ first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from circlekit.errors import shown
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.location import kind_of
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.text.lines import required_version
from circlekit.ir.text.literal_printing import plain_items, same_attribute
from circlekit.ir.value import Array, Quantization, TensorType, Value, same_array


def difference(a: Model, b: Model, with_names: bool = True) -> str | None:
    """Return the first difference as a sentence with its place; None if the models are equal.

    Everything is compared except ``source`` and the entries of ``extra`` that ``plain_items`` leaves out: how
    a file stored the model, and an attached zip archive.  Graphs correspond by position.  If an operator
    version is not set, the required version is compared.  An attribute that is not set counts as the value
    that a file would have (``Op.attribute_items``).  Floats in attributes are compared as 32-bit floats.
    ``with_names``: whether to compare the names of values, and the order of the tensors in the files.
    """
    return next(_Comparison(a, b, with_names).models(a, b), None)


_NAMING = {Value: "name", Graph: "table"}
"""By class, the field that is not compared without names."""


class _Comparison:
    """A comparison of two models.

    Each method compares ``a`` of the first model with ``b`` of the second, and yields a sentence for each
    difference; ``where`` is the place of both.  The caller stops at the first sentence, so code after a
    ``yield`` may assume that there was no difference.  ``pairs``: for values and graphs of the first model,
    by id, their counterparts in the second.  ``taken``: the ids of the values of the second model that have a
    counterpart.  ``with_names``: see ``difference``.
    """

    def __init__(self, a: Model, b: Model, with_names: bool = True) -> None:
        self.with_names = with_names
        self.pairs: dict[int, Value | Graph] = {id(g): h for g, h in zip(a.graphs, b.graphs, strict=False)}
        self.taken: set[int] = set()

    def models(self, a: Model, b: Model) -> Iterator[str]:
        for name in ("format", "version", "description", "metadata"):
            yield from self.data(name, getattr(a, name), getattr(b, name))
        yield from self.data("extra", plain_items(a.extra), plain_items(b.extra))
        if len(a.graphs) != len(b.graphs):
            yield f"graphs: {len(a.graphs)} and {len(b.graphs)}"
        for graph, other in zip(a.graphs, b.graphs, strict=True):
            yield from self.fields(f"graph {shown(graph.name)}", graph, other)
        yield from self.data("signatures", a.signatures, b.signatures)

    def fields(self, where: str, a: Any, b: Any) -> Iterator[str]:
        """Compare two objects of one class by their fields."""
        others = _fields(b)
        left_out = _NAMING.get(type(a), "") if not self.with_names else ""
        for name, field in _fields(a).items():
            if name != left_out:
                yield from self.data(f"{where} > {name}", field, others[name])

    def data(self, where: str, a: Any, b: Any) -> Iterator[str]:
        """Compare objects of the IR or plain data.

        A list may equal a tuple.  Arrays are equal only if their bits are equal.  Floats are equal if their
        ``repr`` is: so 0.0 differs from -0.0, and nan equals nan.
        """
        if a is b:
            return
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            if len(a) != len(b):
                yield f"{where}: {len(a)} and {len(b)}"
            for index, (left, right) in enumerate(zip(a, b, strict=True)):  # "op 3", but "inputs > 3"
                yield from self.data(f"{where}{' ' if isinstance(left, Op) else ' > '}{index}", left, right)
        elif isinstance(a, Mapping) and isinstance(b, Mapping):
            for name in [*a, *(name for name in b if name not in a)]:
                if name not in a or name not in b:
                    yield f"{where} > {name}: in one model only"
                yield from self.data(f"{where} > {name}", a[name], b[name])
        elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            if not same_array(a, b):
                yield f"{where}: {_unequal(a, b)}"
        elif type(a) is not type(b) and not isinstance(a, Op):  # ``_ops`` has a sentence for operators
            yield f"{where}: {a!r} and {b!r}"
        elif isinstance(a, Value):
            yield from self._values(where, a, b)
        elif isinstance(a, Op):
            yield from self._ops(f"{where} {kind_of(a)}", a, b)
        elif isinstance(a, Graph):
            if self.pairs.get(id(a)) is not b:
                yield f"{where}: graphs {shown(a.name)} and {shown(b.name)} differ in position"
        elif isinstance(a, Signature | Quantization):
            yield from self.fields(where, a, b)
        elif isinstance(a, float):
            if repr(a) != repr(b):
                yield f"{where}: {a!r} and {b!r}"
        elif a != b:
            yield f"{where}: {a!r} and {b!r}"

    def _values(self, where: str, a: Value, b: Value) -> Iterator[str]:
        """Make two values counterparts, and compare their fields, when this method first gets the two values.

        Yield a sentence if one of them already has another counterpart.
        """
        counterpart = self.pairs.get(id(a))
        if counterpart is b:
            return
        if counterpart is not None or id(b) in self.taken:
            yield f"{where}: %{a.name} and %{b.name} are different values"
        self.pairs[id(a)] = b
        self.taken.add(id(b))
        yield from self.fields(f"{where} %{a.name}", a, b)

    def _ops(self, where: str, a: Op, b: Op) -> Iterator[str]:
        if type(a) is not type(b) or a.code != b.code:
            yield f"{where}: it is a {kind_of(b)} in the other model"
        others = b.attribute_items()
        for name, attribute in a.attribute_items().items():
            if isinstance(attribute, Graph):
                yield from self.data(f"{where} > {name}", attribute, others[name])
            elif not same_attribute(attribute, others[name]):
                yield f"{where} > {name}: {attribute!r} and {others[name]!r}"
        yield from self.fields(where, a, b)


def _fields(thing: Any) -> dict[str, Any]:
    """Return by name the fields of an IR object that are compared, except attributes of an operator.

    The names occur in the sentence about a difference, such as ``graph main > op 12 Add > operands > 0``.
    """
    if isinstance(thing, Signature):  # equal dicts may have another order
        return {**vars(thing), "order": [*thing.inputs, *thing.outputs]}
    if isinstance(thing, Quantization):
        return vars(thing)
    fields: dict[str, Any] = {"extra": plain_items(thing.extra)}
    if isinstance(thing, Graph):
        fields |= {"name": thing.name, "inputs": thing.inputs, "table": thing.table, "op": thing.ops}
        return fields | {"outputs": thing.outputs}
    if isinstance(thing, Value):  # "constant" stands before "data", so that no sentence shows an array
        fields |= {"name": thing.name, "type": TensorType(thing.dtype, thing.shape)}
        fields |= {"variable": thing.is_variable, "quantization": thing.quantization}
        return fields | {"constant": thing.is_const, "data": thing.data}
    fields |= {"version": required_version(thing) if thing.version is None else thing.version}
    fields |= {"operands": thing.inputs, "results": thing.results}
    if isinstance(thing, OpaqueOp):
        fields |= {"custom_code": thing.custom_code, "options": thing.option_tree}
    return fields


def _unequal(a: Array, b: Array) -> str:
    """Return how two arrays differ: dtypes and shapes, or the number and first pair of unequal elements."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b)]
    # the indices of the elements of which a byte differs
    unequal = np.flatnonzero((bits[0] != bits[1]).reshape(a.size, -1).any(axis=1))
    first = " and ".join(str(x.reshape(-1)[unequal[0]]) for x in (a, b))
    return f"{unequal.size} of {a.size} elements differ, first {first}"
