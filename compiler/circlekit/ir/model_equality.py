# SPDX-License-Identifier: Apache-2.0
"""Compare two models structurally, to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.text.lines import required_version
from circlekit.ir.text.literal_printing import plain_items, same_attribute
from circlekit.ir.value import Value, format_shape, same_array

Pairs = dict[int, Value | Graph]


def difference(a: Model, b: Model) -> str | None:
    """Return the first difference as a sentence with its place; None if the models are equal.

    Everything is compared except ``source`` and entries of ``extra`` that only tell how a file stored the
    model (see ``plain_items``).  Graphs are compared by position, operator versions as they would be written,
    attributes with their defaults and floats in 32 bits, constants by their bits.
    """
    return next(_Comparison(a, b).differences(), None)


class _Comparison:
    """``places``: the index of each graph.  ``pairs``: what of ``b`` corresponds to each id of ``a``."""

    def __init__(self, a: Model, b: Model) -> None:
        self.a = a
        self.b = b
        self.places = [{id(g): i for i, g in enumerate(m.graphs)} for m in (a, b)]
        self.pairs: Pairs = {id(g): twin for g, twin in zip(a.graphs, b.graphs, strict=False)}
        self.details: list[tuple[str, Value, Value]] = []
        self.taken: set[int] = set()

    def differences(self) -> Iterator[str]:
        for name in ("format", "version", "description", "metadata"):
            left, right = getattr(self.a, name), getattr(self.b, name)
            if left != right:
                yield f"{name}: {left!r} and {right!r}"
        yield from _extras("extra", self.a.extra, self.b.extra, self.pairs)
        yield from _count("graphs", self.a.graphs, self.b.graphs)
        for left, right in zip(self.a.graphs, self.b.graphs, strict=True):
            yield from self._graphs(left, right)
        yield from self._details()
        yield from self._signatures()

    def _graphs(self, a: Graph, b: Graph) -> Iterator[str]:
        if a.name != b.name:
            yield f"graph {a.name}: its name is {b.name!r} in the other model"
        where = f"graph {a.name}"
        yield from self._values(f"{where} > inputs", a.inputs, b.inputs)
        yield from self._values(f"{where} > table", a.table, b.table)
        yield from _count(f"{where} > operators", a.ops, b.ops)
        for index, (left, right) in enumerate(zip(a, b, strict=True)):
            yield from self._ops(f"{where} > op {index} {_kind(left)}", left, right)
        yield from self._values(f"{where} > outputs", a.outputs, b.outputs)
        yield from _extras(f"{where} > extra", a.extra, b.extra, self.pairs)

    def _ops(self, where: str, a: Op, b: Op) -> Iterator[str]:
        if type(a) is not type(b) or a.code != b.code:
            yield f"{where}: it is a {_kind(b)} in the other model"
            return
        yield from self._attributes(where, a, b)
        left, right = (required_version(x) if x.version is None else x.version for x in (a, b))
        if left != right:
            yield f"{where} > version: {left} and {right}"
        yield from self._values(f"{where} > operands", a.inputs, b.inputs)
        yield from self._values(f"{where} > results", a.results, b.results)
        yield from _extras(f"{where} > extra", a.extra, b.extra, self.pairs)

    def _attributes(self, where: str, a: Op, b: Op) -> Iterator[str]:
        for spec in a.attributes:
            left = a.attribute_values.get(spec.name, spec.default)
            right = b.attribute_values.get(spec.name, spec.default)
            if isinstance(left, Graph) and isinstance(right, Graph):
                if self.places[0].get(id(left), -1) != self.places[1].get(id(right), -1):
                    yield f"{where} > {spec.name}: graphs {left.name} and {right.name} differ in position"
            elif not same_attribute(left, right):
                yield f"{where} > {spec.name}: {left!r} and {right!r}"
        if isinstance(a, OpaqueOp) and isinstance(b, OpaqueOp):
            if a.custom_code != b.custom_code:
                yield f"{where} > custom_code: {a.custom_code!r} and {b.custom_code!r}"
            if not same_data(a.option_tree, b.option_tree, self.pairs):
                yield f"{where} > options: {a.option_tree!r} and {b.option_tree!r}"

    def _values(self, where: str, a: Sequence[Value | None], b: Sequence[Value | None]) -> Iterator[str]:
        yield from _count(where, a, b)
        for index, (left, right) in enumerate(zip(a, b, strict=True)):
            if left is None or right is None:
                if left is not right:
                    yield f"{where} > {index}: {_name(left)} and {_name(right)}"
                continue
            known = self.pairs.get(id(left))
            if known is right:
                continue
            if known is not None or id(right) in self.taken:
                yield f"{where} > {index}: {_name(left)} and {_name(right)} are different values"
                continue
            self.pairs[id(left)] = right
            self.taken.add(id(right))
            yield from _contents(f"{where} > {index} %{left.name}", left, right, self.pairs)
            self.details.append((f"{where} > {index} %{left.name}", left, right))

    def _details(self) -> Iterator[str]:
        """Compare the details of quantizations, now that every value they may refer to has its pair."""
        for where, a, b in self.details:
            left, right = (None if v.quantization is None else v.quantization.details for v in (a, b))
            if not same_data(left, right, self.pairs):
                yield f"{where} > quantization > details: {left} and {right}"

    def _signatures(self) -> Iterator[str]:
        yield from _count("signatures", self.a.signatures, self.b.signatures)
        for a, b in zip(self.a.signatures, self.b.signatures, strict=True):
            where = f"signature {a.key}"
            if a.key != b.key:
                yield f"{where}: its key is {b.key!r} in the other model"
            if self.places[0].get(id(a.graph)) != self.places[1].get(id(b.graph)):
                yield f"{where}: graphs {a.graph.name} and {b.graph.name}"
            for side in ("inputs", "outputs"):
                left: Mapping[str, Value] = getattr(a, side)
                right: Mapping[str, Value] = getattr(b, side)
                if list(left) != list(right):
                    yield f"{where} > {side}: {list(left)} and {list(right)}"
                yield from self._values(f"{where} > {side}", list(left.values()), list(right.values()))


def _contents(where: str, a: Value, b: Value, pairs: Pairs) -> Iterator[str]:
    if a.name != b.name:
        yield f"{where} > name: {a.name!r} and {b.name!r}"
    if a.dtype is not b.dtype:
        yield f"{where} > dtype: {a.dtype.short} and {b.dtype.short}"
    if a.shape != b.shape:
        yield f"{where} > shape: {format_shape(a.shape)} and {format_shape(b.shape)}"
    if a.is_variable != b.is_variable:
        yield f"{where} > variable: {a.is_variable} and {b.is_variable}"
    yield from _quantizations(where, a, b)
    yield from _extras(f"{where} > extra", a.extra, b.extra, pairs)
    if (a.data is None) != (b.data is None):
        yield f"{where} > data: a constant in one model only"
    elif not same_array(a.data, b.data):
        yield f"{where} > data: {_unequal(a, b)}"


def _quantizations(where: str, a: Value, b: Value) -> Iterator[str]:
    left, right = a.quantization, b.quantization
    if left is right:
        return
    if left is None or right is None:
        yield f"{where} > quantization: {left} and {right}"
        return
    for name in ("scale", "zero_point", "min", "max"):
        if not same_array(getattr(left, name), getattr(right, name)):
            yield f"{where} > quantization > {name}: {getattr(left, name)} and {getattr(right, name)}"
    if left.quantized_dimension != right.quantized_dimension:
        axes = f"{left.quantized_dimension} and {right.quantized_dimension}"
        yield f"{where} > quantization > axis: {axes}"


def _unequal(a: Value, b: Value) -> str:
    left, right = a.array(), b.array()
    if left.shape != right.shape or left.dtype != right.dtype:
        return f"{left.dtype}{list(left.shape)} and {right.dtype}{list(right.shape)}"
    bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (left, right)]
    count = int(np.count_nonzero((bits[0] != bits[1]).reshape(left.size, -1).any(axis=1)))
    return f"{count} of {left.size} elements differ"


def same_data(a: Any, b: Any, pairs: Pairs | None = None) -> bool:
    """Whether plain data is equal: lists and tuples alike, arrays and floats by bits, values by ``pairs``."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return same_array(a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return list(a) == list(b) and all(same_data(x, b[key], pairs) for key, x in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_data(x, y, pairs) for x, y in zip(a, b, strict=True))
    if isinstance(a, Value | Graph) and isinstance(b, Value | Graph):
        return (pairs or {}).get(id(a)) is b
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    return type(a) is type(b) and bool(a == b)


def _extras(where: str, a: Mapping[str, Any], b: Mapping[str, Any], pairs: Pairs) -> Iterator[str]:
    if not a and not b:
        return
    left, right = plain_items(a), plain_items(b)
    for name in [*left, *(name for name in right if name not in left)]:
        if name not in left or name not in right:
            yield f"{where} > {name}: in one model only"
        elif not same_data(left[name], right[name], pairs):
            yield f"{where} > {name}: {left[name]!r} and {right[name]!r}"


def _count(where: str, a: Sequence[Any], b: Sequence[Any]) -> Iterator[str]:
    """Yield a difference in length; the caller must not go on then, because it walks pairs afterwards."""
    if len(a) != len(b):
        yield f"{where}: {len(a)} and {len(b)}"


def _kind(op: Op) -> str:
    return op.code if isinstance(op, OpaqueOp) else type(op).__name__


def _name(value: Value | None) -> str:
    return "none" if value is None else f"%{value.name}"
