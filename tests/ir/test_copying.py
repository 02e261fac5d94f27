# SPDX-License-Identifier: Apache-2.0
"""``copy.copy``, ``copy.deepcopy`` and ``pickle`` of models and of their parts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.errors import ModelError
from circlekit.ir.graph import Graph, Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.ir.verifier import verify

TEXT = """
signature "s" @main (a: %x) -> (b: %y)
graph main(%x: f32[1,2], %i: i32[]) -> %y, %x {
  %s = Add(%x, %x) {act: RELU}
  %n, %2 = While(%i, %s) {cond: @less, body: @step}
  %y = Mul(%2, %s)
}
graph step(%i: i32[], %x: f32[1,2]) -> %i, %z {
  %z = Neg(%x)
}
graph less(%i: i32[], %x: f32[1,2]) -> %go {
  %go = Less(%i, 3)
}
"""


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


copies = pytest.mark.parametrize("copied", [copy.deepcopy, pickled])


@copies
def test_a_copied_model_is_equal_and_independent(copied: Callable[[Any], Any]) -> None:
    original = parse_model(TEXT)
    new: Model = copied(original)
    assert difference(new, original) is None
    assert verify(new) == []
    assert new.signatures[0].graph is new.main
    graph = new.main
    assert [graph.is_output(v) for v in (*graph.inputs, *graph.outputs)] == [True, False, True, True]
    assert [graph.is_input(v) for v in (*graph.inputs, *graph.outputs)] == [True, True, False, True]
    add, loop, mul = graph.ops
    assert (add.previous, add.next, mul.previous, mul.next, len(graph)) == (None, loop, loop, None, 3)
    assert loop.called_graphs() == [new.graphs[2], new.graphs[1]]
    assert graph.inputs[0].uses == ((add, 0), (add, 1))
    assert add.output.uses == ((loop, 1), (mul, 1))
    assert [(v.producer, v.result_index) for v in loop.results] == [(loop, 0), (loop, 1)]
    graph.replace_uses(add.output, graph.inputs[0])
    graph.remove(add)
    assert graph.unique_name("s") == "s"
    assert difference(original, parse_model(TEXT)) is None


@copies
def test_a_long_chain_of_operators_is_copied(copied: Callable[[Any], Any]) -> None:
    lines = [f"%y{i} = Neg(%{f'y{i - 1}' if i else 'x'})" for i in range(3000)]
    original = parse_model("graph main(%x: f32[1]) -> %y2999 {\n" + "\n".join(lines) + "\n}")
    assert difference(copied(original), original) is None


def test_an_operator_is_copied_on_the_same_operands() -> None:
    original = parse_model(TEXT)
    op = original.main.ops[0]
    new = copy.copy(op)
    assert (new.graph, new.inputs, new.attribute_items()) == (None, op.inputs, op.attribute_items())
    assert op.output.producer is op
    assert (new.output.name, new.output.type, new.output.producer) == ("", op.output.type, new)
    original.main.insert_after(op, new)
    assert verify(original) == []
    loop = original.main.ops[2]
    assert copy.copy(loop).called_graphs() == loop.called_graphs()


@copies
def test_a_deep_copy_of_an_operator_has_its_own_operands(copied: Callable[[Any], Any]) -> None:
    op = parse_model(TEXT).main.ops[0]
    new = copied(op)
    assert (new.graph, new.output.producer, new.output.name) == (None, new, "s")
    assert new.inputs[0] is new.inputs[1]
    assert new.inputs[0].uses == ((new, 0), (new, 1))
    assert op.inputs[0] is not None
    assert op.inputs[0].uses == ((op, 0), (op, 1))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copied_value_has_no_producer_and_no_uses(copied: Callable[[Any], Any]) -> None:
    value = parse_model(TEXT).main.ops[0].output
    new = copied(value)
    assert (new.name, new.type, new.producer, new.uses) == ("s", value.type, None, ())
    assert value.use_count == 2


def test_a_graph_has_no_shallow_copy() -> None:
    original = parse_model(TEXT)
    with pytest.raises(ModelError, match=r"graph main: an operator is in one graph only; use copy\.deepcopy"):
        copy.copy(original.main)
    with pytest.raises(ModelError, match="graph '': an operator is in one graph only"):
        copy.copy(Graph(""))
    shallow = copy.copy(original)
    assert shallow.main is original.main
