# SPDX-License-Identifier: Apache-2.0
"""Assert that two models are equal in everything that the IR represents."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from circlekit.io.origin import Origin
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value, same_array


def assert_same_model(a: Model, b: Model) -> None:
    """Assert that graphs, operators, values, attributes, constants, names, extra fields and order are equal.

    What only a file has (``Origin``) may differ between the models.
    """
    for field in ("format", "metadata", "description", "version"):
        assert getattr(a, field) == getattr(b, field), field
    extra = [_plain({k: v for k, v in m.extra.items() if k != "origin"}, {}) for m in (a, b)]
    assert same_tree(*extra)
    assert len(a.graphs) == len(b.graphs)
    graphs = {id(g): i for m in (a, b) for i, g in enumerate(m.graphs)}
    values = {id(v): (i, j) for m in (a, b) for i, g in enumerate(m.graphs) for j, v in enumerate(g.values())}
    names = {**graphs, **values}
    for one, two in zip(a.graphs, b.graphs, strict=True):
        _same_graph(one, two, names)
    assert _plain(a.signatures, names) == _plain(b.signatures, names)
    for first, second in zip(a.signatures, b.signatures, strict=True):  # equal dicts may differ in order
        assert (list(first.inputs), list(first.outputs)) == (list(second.inputs), list(second.outputs))


def _same_graph(a: Graph, b: Graph, names: dict[int, Any]) -> None:
    assert a.name == b.name
    for side in ("inputs", "outputs", "table"):
        assert _plain(getattr(a, side), names) == _plain(getattr(b, side), names), side
    assert same_tree(_plain(a.extra, names), _plain(b.extra, names))
    for one, two in zip(a.values(), b.values(), strict=True):
        _same_value(one, two, names)
    for left, right in zip(a, b, strict=True):
        _same_op(left, right, names)


def _same_value(a: Value, b: Value, names: dict[int, Any]) -> None:
    for field in ("name", "dtype", "shape", "is_variable"):
        assert getattr(a, field) == getattr(b, field), f"{a} {field}"
    one, two = a.quantization, b.quantization
    if one is not None and two is not None:
        one, two = (replace(q, details=_plain(q.details, names)) for q in (one, two))
    assert one == two, f"{a} quantization"
    assert same_array(a.data, b.data), a
    assert same_tree(a.extra, b.extra), a


def _same_op(a: Op, b: Op, names: dict[int, Any]) -> None:
    assert type(a) is type(b)
    assert (a.code, a.version) == (b.code, b.version)
    for field in ("inputs", "results", "attribute_values", "extra"):
        assert same_tree(_plain(getattr(a, field), names), _plain(getattr(b, field), names)), f"{a} {field}"
    if isinstance(a, OpaqueOp) and isinstance(b, OpaqueOp):
        assert a.custom_code == b.custom_code
        assert same_tree(_plain(a.option_tree, names), _plain(b.option_tree, names))


def _plain(item: Any, names: dict[int, Any]) -> Any:
    """Return ``item`` with indices in place of values and graphs, which compare by identity."""
    if id(item) in names:
        return names[id(item)]
    if isinstance(item, dict):
        return {key: _plain(value, names) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_plain(value, names) for value in item]
    if isinstance(item, Origin) or type(item).__name__ == "Signature":
        return _plain(vars(item), names)
    return item.name if isinstance(item, Enum) else item


def same_tree(a: Any, b: Any) -> bool:
    """Return whether two trees are equal, arrays bit for bit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and same_array(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_tree(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_tree, a, b))
    return bool(a == b)
