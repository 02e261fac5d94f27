# SPDX-License-Identifier: Apache-2.0
"""A snapshot says what changed since it was made, and restores the same objects with the same text."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.op import OpaqueOp
from circlekit.ir.snapshot import Snapshot
from circlekit.ir.value import Value
from circlekit.ir.verifier import check

TEXT = """
signature "serve" @main (image: %x) -> (result: %y)
graph main(%x: f32[2,3]) -> %y {
  %w = const f32[3] [1.0, 2.0, 3.0]
  %a = Mul(%x, %w)
  %b = Neg(%a)
  %y = Add(%a, %b)
}
"""


@pytest.fixture
def model() -> Model:
    return circlekit.parse(TEXT)


def test_everything_is_undone(model: Model) -> None:
    neg = model.main.ops[1]
    for operand in (None, *neg.inputs):
        neg.set_input(0, operand)  # the oldest use of %a becomes its newest
    model.main.extra["unused"] = []
    copy, ops, values = clone(model), model.main.ops, list(model.main.values())
    uses = {value: value.uses for value in values}
    snapshot = Snapshot(model)
    assert snapshot.is_of(model)
    a, _, y = model.main.ops
    a.inputs[1].data = np.zeros(3, np.float32)  # type: ignore[union-attr]  # it is present
    a.output.extra["name"] = 1
    y.act = circlekit.parse("graph g(%x: f32[1]) -> %y {\n %y = Add(%x, %x) {act: RELU}\n}").main.ops[0].act  # type: ignore[attr-defined]
    model.main.replace_uses(ops[1].output, a.output)
    model.main.remove(ops[1])
    model.main.inputs = (Value("new", a.output.dtype, (2, 3)), *model.main.inputs)
    model.main.table.append(a.output)
    model.main.extra["unused"] = [a.output]
    model.signatures[0].inputs.clear()
    model.metadata.append(("key", b""))
    assert not snapshot.is_of(model)
    snapshot.restore()
    assert snapshot.is_of(model)
    assert difference(model, copy) is None
    assert model.main.ops == ops
    assert list(model.main.values()) == values
    assert {value: value.uses for value in values} == uses
    assert model.signatures[0].inputs == {"image": model.main.inputs[0]}
    check(model)


def test_optimization_is_undone(model: Model) -> None:
    copy, snapshot = clone(model), Snapshot(model)
    assert circlekit.optimize(model).changes
    snapshot.restore()
    assert difference(model, copy) is None
    assert circlekit.optimize(model, verify=True).changes


def test_changed_operators_are_listed_as_they_are_now_and_as_they_were(model: Model) -> None:
    mul, neg, add = model.main.ops
    snapshot = Snapshot(model)
    assert snapshot.changed() == ([], [])
    mul.inputs[1].data = np.ones(3, np.float32)  # type: ignore[union-attr]  # it is present
    assert snapshot.changed() == ([mul], [mul])  # an operand has other data
    add.set_input(1, mul.output)
    assert snapshot.changed() == ([mul, add], [mul, add])
    model.main.remove(neg)
    assert snapshot.changed() == ([mul, add], [mul, neg, add])


def test_other_arrays_in_extra_are_a_change(model: Model) -> None:
    value = model.main.inputs[0]
    value.extra["sparsity"] = {"traversal_order": np.arange(3)}
    snapshot = Snapshot(model)
    assert snapshot.changed() == ([], [])
    value.extra = {"sparsity": {"traversal_order": np.arange(3)}}
    readers = list(value.users)
    assert snapshot.changed() == (readers, readers)


def test_a_new_name_does_not_count_as_a_change(model: Model) -> None:
    snapshot = Snapshot(model)
    model.main.ops[0].output.name = "other"
    assert snapshot.changed() == ([], [])
    snapshot.restore()
    assert model.main.ops[0].output.name == "a"


def test_code_and_options_of_an_opaque_operator_are_undone() -> None:
    call = 'Opaque(%x) {code: "CUSTOM", custom_code: "c", options: {a: 1}} : f32[1]'
    model = circlekit.parse(f"graph g(%x: f32[1]) -> %y {{\n%y = {call}\n}}")
    copy, snapshot, (op,) = clone(model), Snapshot(model), model.main.ops
    assert isinstance(op, OpaqueOp)
    assert snapshot.changed() == ([], [])
    op.custom_code, op.option_tree = "d", {"a": 2}
    assert snapshot.changed() == ([op], [op])
    snapshot.restore()
    assert difference(model, copy) is None
