# SPDX-License-Identifier: Apache-2.0
"""Values, operators and graphs: uses, order, names, and what changes do to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.clone import clone, inline
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op as BaseOp
from circlekit.ir.op import OpaqueOp, attribute, operand
from circlekit.ir.text import parse_model
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.shape import Squeeze
from tests.ir.recipes import graph_text


def net() -> Graph:
    lines = ("%a = Neg(%x)", "%b = Add(%a, %a)", "%c = Abs(%b)", "%y = Add(%c, %a)")
    return parse_model(graph_text(*lines)).main


def named(graph: Graph) -> dict[str, Value]:
    return {value.name: value for value in graph.values()}


def order(graph: Graph) -> list[str]:
    assert len(graph) == len(list(graph)) == len(graph.ops)
    assert [op.previous for op in graph] == [None, *list(graph)[:-1]]
    return [op.output.name for op in graph]


# -- values ------------------------------------------------------------------------------------


def test_uses_and_users() -> None:
    graph = net()
    a, b = named(graph)["a"], named(graph)["b"]
    first, second, _, last = graph.ops
    assert a.producer is first
    assert a.uses == ((second, 0), (second, 1), (last, 1))
    assert a.users == [second, last]
    assert a.use_count == 3
    assert a.other_user([second]) is last
    assert a.other_user([second, last]) is None
    assert b.users == [graph.ops[2]]


def test_a_constant_keeps_its_array() -> None:
    array = np.ones((2, 3), np.int8)
    value = Value.constant("c", array)
    assert value.data is array
    assert (value.dtype, value.shape, value.rank, value.numel) == (DType.INT8, (2, 3), 2, 6)
    assert repr(value) == "%c: const i8[2,3]"


@pytest.mark.parametrize(
    ("data", "found"), [([1, 2], "list"), (np.array(["a"]), "<U1"), (np.zeros(2, ">f4"), ">f4")]
)
def test_only_numbers_and_bools_can_be_a_constant(data: Any, found: str) -> None:
    with pytest.raises(ModelError, match=f"%c: expected an array of numbers or bools, got {found}"):
        Value.constant("c", data)


# -- operators ---------------------------------------------------------------------------------


def test_an_operator_that_does_not_fit_uses_nothing() -> None:
    x, w = Value("x", f32, (2, 4)), Value.constant("w", np.zeros((3, 5), np.float32))
    with pytest.raises(ShapeError):
        FullyConnected(x, w)
    assert not x.uses
    assert not w.uses


def test_fields() -> None:
    x, w = Value("x", f32, (2, 4)), Value.constant("w", np.zeros((3, 4), np.float32))
    op = FullyConnected(x, w)
    assert (op.input, op.weights, op.bias, op.act) == (x, w, None, Activation.NONE)
    bias = Value.constant("b", np.zeros(3, np.float32))
    op.bias = bias
    assert op.inputs == [x, w, bias]
    assert list(op.operand_items()) == [("input", x), ("weights", w), ("bias", bias)]
    op.inputs[0] = None
    with pytest.raises(ModelError, match="FullyConnected has no operand input"):
        _ = op.input
    assert FullyConnected.operands[2] is vars(FullyConnected)["bias"]
    assert [(s.index, s.optional, s.variadic) for s in FullyConnected.operands] == [
        (0, False, False),
        (1, False, False),
        (2, True, False),
    ]


@pytest.mark.parametrize("make", [list, np.array])
def test_a_list_or_array_as_attribute_becomes_a_tuple(make: Callable[[list[int]], Any]) -> None:
    x = Value("x", f32, (1, 2, 1))
    op = Squeeze(x, squeeze_dims=make([0, 2]))
    assert op.squeeze_dims == (0, 2)
    op.squeeze_dims = make([2])
    assert op.attribute_items() == {"squeeze_dims": (2,)}


MISTAKES: dict[str, tuple[Any, str]] = {
    "constructor": (lambda x: Add(x, x, atc=1), "Add has no attribute atc; did you mean act?"),
    "no near name": (lambda x: Add(x, x, zzz=1), "Add has no attribute zzz; it has act, pot_scale_int16"),
    "operand": (
        lambda x: Add(x, np.zeros(3)),  # type: ignore[arg-type]
        "operand 1 of Add: expected a Value, got ndarray; Value.constant(name, array) wraps an array",
    ),
    "value": (lambda x: Add(x, x, act="RELU"), "Add: act is 'RELU', expected a member of Activation"),
    "assigned value": (
        lambda x: setattr(Add(x, x), "pot_scale_int16", 1),
        "Add: pot_scale_int16 is 1, expected true or false",
    ),
    "assignment": (lambda x: setattr(Add(x, x), "lsh", x), "Add has no attribute lsh; did you mean lhs?"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    make, sentence = MISTAKES[mistake]
    with pytest.raises(ModelError) as error:
        make(Value("x", f32, (3,)))
    assert error.value.message == sentence


def test_a_trait_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="Bad: no trait is named comutative"):

        class Bad(BaseOp, comutative=True):
            pass


def test_a_subclass_keeps_the_positions_of_its_base() -> None:
    class Base(BaseOp):
        first = operand(f32)
        second = operand(f32)
        size: int = attribute(1)

    class Derived(Base, results=("low", "high"), commutative=True):
        first = operand(i32)
        third = operand(f32)

    assert [(o.name, o.index, o.dtypes) for o in Derived.operands] == [
        ("first", 0, (i32,)), ("second", 1, (f32,)), ("third", 2, (f32,)),
    ]  # fmt: skip
    assert [a.name for a in Derived.attributes] == ["size"]
    assert Derived.result_names == ("low", "high")
    assert Derived.commutative
    assert not Base.commutative


def test_setting_a_later_operand_leaves_those_before_it_absent() -> None:
    x = Value("x", f32, (1,))
    op = OpaqueOp(code="CUSTOM", results=[])
    op.set_input(2, x)
    assert op.inputs == [None, None, x]
    assert x.uses == ((op, 2),)
    with pytest.raises(ModelError, match="expected an operand index of at least 0, got -1"):
        op.set_input(-1, None)
    op.set_input(2, None)
    assert x.use_count == 0
    op.version = 1
    op.set_input(2, None)
    assert op.version == 1  # nothing has changed
    op.set_input(3, None)
    assert (op.inputs, op.version) == ([None] * 4, None)
    with pytest.raises(ModelError, match="CUSTOM has no result"):
        _ = op.output


def test_a_change_drops_the_version_and_advances_the_epoch() -> None:
    graph = net()
    op = graph.ops[1]
    op.version, epoch = 3, graph.epoch

    def state() -> tuple[int | None, int]:
        return op.version, graph.epoch - epoch

    op.set_input(0, op.inputs[0])
    assert state() == (3, 0), "the same operand is no change"
    op.set_input(0, graph.inputs[0])
    assert state() == (None, 1)
    op.version = 3
    op.add_result(Value("more", f32, ()))
    assert state() == (None, 2)


def test_a_result_is_taken_over() -> None:
    graph = net()
    first, second = graph.ops[:2]
    a, b = first.output, second.output
    assert second.take_result(0, a) is b
    assert (a.producer, b.producer) == (second, None)
    assert first.output is not a
    assert (first.output.name, first.output.producer, first.output.result_index) == ("", first, 0)
    assert second.take_result(0, a) is a


# -- graphs ------------------------------------------------------------------------------------


def test_insert_and_remove() -> None:
    graph = net()
    x = graph.inputs[0]
    first, last = graph.ops[0], graph.ops[-1]
    before = graph.insert_before(first, Add(x, x))
    after = graph.insert_after(last, Add(x, x))
    start = graph.insert_after(None, Add(x, x))
    middle = graph.insert_after(first, Add(x, x))
    assert graph.ops == (start, before, first, middle, *graph.ops[4:-1], after)
    assert order(graph) == ["Add_2", "Add", "a", "Add_3", "b", "c", "y", "Add_1"]
    with pytest.raises(ModelError, match="is in a graph already"):
        graph.append(after)
    for op in (start, middle, after, before):
        epoch = graph.epoch
        graph.remove(op)
        assert op.graph is None
        assert op.inputs == []
        assert graph.epoch > epoch
    assert order(graph) == ["a", "b", "c", "y"]
    assert all(user in graph.ops for user in x.users)


def test_operators_of_no_or_another_graph_are_refused() -> None:
    """Without this check, a second removal of an operator would empty the list of operators."""
    graph, other = net(), net()
    added = graph.append(Add(graph.inputs[0], graph.inputs[0]))
    graph.remove(added)
    for op in (added, other.ops[0], graph.inputs[0]):
        new = Add(graph.inputs[0], graph.inputs[0])
        for change in (
            lambda op, new: graph.remove(op),
            lambda op, new: graph.unlink(op),
            lambda op, new: graph.insert_before(op, new),
            lambda op, new: graph.insert_after(op, new),
        ):
            with pytest.raises(ModelError, match="is not in graph main"):
                change(op, new)
    assert order(graph) == order(other) == ["a", "b", "c", "y"]


@pytest.mark.parametrize(("index", "value"), [(0, "a"), (3, "y")])
def test_an_operator_whose_result_is_used_cannot_be_removed(index: int, value: str) -> None:
    graph = net()
    with pytest.raises(ModelError, match=f"cannot be removed: its result %{value} is still used"):
        graph.remove(graph.ops[index])
    assert order(graph) == ["a", "b", "c", "y"]


def test_replace_inside_a_graph() -> None:
    graph = net()
    values = named(graph)
    graph.replace(values["a"], values["x"])
    assert [v.name for v in graph.ops[1].inputs if v is not None] == ["x", "x"]
    assert values["a"].use_count == 0


def test_replace_an_output_keeps_its_name() -> None:
    graph = net()
    values = named(graph)
    graph.replace(values["y"], values["c"])
    assert graph.outputs == (values["y"],)
    assert values["y"].producer is graph.ops[2]
    assert graph.ops[3].inputs[0] is values["y"]


def test_only_some_values_can_replace_an_output() -> None:
    graph = net()
    values = named(graph)
    variable = Value("v", f32, (1, 4))
    variable.is_variable = True
    variable.producer = graph.ops[0]
    assert graph.can_stand_for(values["y"], values["c"])
    assert graph.can_stand_for(values["a"], values["x"])
    for other in (values["x"], values["y"], variable, Value("n", f32, (1, 4))):
        assert not graph.can_stand_for(values["y"], other)
        with pytest.raises(ModelError, match="cannot take the place of output %y"):
            graph.replace(values["y"], other)
    graph.outputs = graph.inputs  # an input must not become the result of an operator
    assert not graph.can_stand_for(values["x"], values["a"])


def test_inputs_and_outputs_may_be_iterators() -> None:
    old = net()
    (x,), (y,) = old.inputs, old.outputs
    for graph in (Graph("g", iter([x]), iter([y])), Graph("g")):  # type: ignore[arg-type]  # no Sequence
        if not graph.inputs:
            graph.inputs, graph.outputs = iter([x]), iter([y])  # type: ignore[assignment]  # the same
        assert (graph.inputs, graph.outputs) == ((x,), (y,))
        assert graph.is_input(x)
        assert graph.is_output(y)


def test_mistakes_of_a_graph() -> None:
    graph = net()
    x: Any = graph.inputs[0]
    with pytest.raises(ModelError, match=r"expected a list of outputs, got the value %x: f32\[1,4\]"):
        graph.outputs = x
    with pytest.raises(ModelError, match="expected a list of inputs, got the value %x"):
        Graph("g", x)
    names: Any = ["y"]
    with pytest.raises(ModelError, match="expected a list of outputs, got a list with a str"):
        graph.outputs = names
    with pytest.raises(ModelError, match="operand 0 of Neg: expected a Value, got list"):
        graph.ops[0].set_input(0, names)
    assert graph.ops[0].inputs == [x]
    assert graph.ops[0] in graph.inputs[0].users
    single: Any = graph
    with pytest.raises(ModelError, match="expected a list of graphs, got <Graph main"):
        Model(single)
    with pytest.raises(ModelError, match="graph main: expected an operator, got %x"):
        graph.append(x)
    assert order(graph) == ["a", "b", "c", "y"]


def test_names_are_never_given_twice() -> None:
    graph = net()
    assert [graph.unique_name(n) for n in ("a", "a", "new", "new", "a_1", "a")] == [
        "a_1", "a_2", "new", "new_1", "a_1_1", "a_3",
    ]  # fmt: skip
    squeeze = Squeeze(Value.constant("constant", np.zeros(2, np.float32)))
    squeeze.output.name = "result"
    graph.append(squeeze)
    assert [graph.unique_name(n) for n in ("constant", "result")] == ["constant_1", "result_1"]


def test_reprs_and_kinds() -> None:
    graph = net()
    assert repr(graph) == "<Graph main(%x: f32[1,4]) -> (%y: f32[1,4]): 4 operators>"
    assert repr(Graph("g")) == "<Graph g() -> (): 0 operators>"
    assert {kind.__name__ for kind in graph.kinds} == {"Neg", "Add", "Abs"}
    graph.append(FullyConnected(graph.inputs[0], Value.constant("w", np.zeros((2, 4), np.float32))))
    assert FullyConnected in graph.kinds
    assert repr(Model([])) == "<Model (circle): no graph>"
    with pytest.raises(ModelError, match="the model has no graph"):
        _ = Model([]).main


# -- copies ------------------------------------------------------------------------------------


def test_a_clone_can_be_changed_alone() -> None:
    model = parse_model(graph_text("%w = const f32[4] [1, 2, 3, 4]", "%y = Add(%x, %w)"))
    copy = clone(model)
    assert copy.main.ops[0].inputs[1] is not model.main.ops[0].inputs[1]
    copy.main.ops[0].set_input(1, copy.main.inputs[0])
    copy.main.outputs[0].name = "z"
    assert [v.name for v in model.main.ops[0].inputs if v is not None] == ["x", "w"]
    assert model.main.outputs[0].name == "y"


def test_inline_copies_a_graph_before_an_operator() -> None:
    model = parse_model(
        graph_text("%b = Neg(%x)", "%y = Abs(%b)")
        + "graph callee(%p: f32[1,4]) -> %b { %a = Exp(%p) %b = Sin(%a) }"
    )
    caller, callee = model.graphs
    (result,) = inline(callee, caller.ops[1], [caller.ops[0].output])
    assert [type(op).__name__ for op in caller] == ["Neg", "Exp", "Sin", "Abs"]
    assert order(caller) == ["b", "a", "b_1", "y"]
    assert caller.ops[1].inputs[0] is caller.ops[0].output
    assert caller.ops[0].output.users == [caller.ops[3], caller.ops[1]]
    assert result is caller.ops[2].output
    assert result.producer is caller.ops[2]
    assert [op.output.name for op in callee] == ["a", "b"]


def permuted(line: str) -> dict[str, object] | None:
    """Return what an operator on ``%x`` must change when the last of four axes becomes the second."""
    op = parse_model(graph_text(line, inputs="%x: f32[1,2,3,4]")).main.ops[0]
    changes = op.permuted((0, 3, 1, 2))
    return changes and {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in changes.items()}


def test_parameters_of_permuted_data() -> None:
    pad = permuted("%y = Pad(%x, [[0, 1], [2, 3], [4, 5], [6, 7]])")
    assert pad == {"paddings": [[0, 1], [6, 7], [2, 3], [4, 5]]}
    assert permuted("%y = Mean(%x, [1, -1]) {keep_dims: true}") == {"axis": [2, 1]}
    assert permuted("%y = Concatenation(%x, %x) {axis: 2}") == {"axis": 3}
    assert permuted("%y = Relu(%x)") == {}
    assert permuted("%y = Reshape(%x, [24])") is None


def test_a_new_model_has_the_version_in_the_identifier_of_tflite_files() -> None:
    assert f"TFL{Model([]).version}" == "TFL3"


def test_names_that_enter_a_graph_later_are_not_given_away() -> None:
    graph = parse_model("graph main(%x: f32[2]) -> %y { %y = Add(%x, %x) }").main
    assert graph.unique_name("a") == "a"
    graph.ops[0].set_input(1, Value.constant("k", np.zeros(2, np.float32)))
    graph.inputs = (*graph.inputs, Value("z", f32, (2,)))
    graph.ops[0].take_result(0, Value("t", f32, (2,)))
    graph.ops[0].add_result(Value("r", f32, (2,)))
    graph.outputs = (Value.constant("o", np.zeros(2, np.float32)),)
    assert [graph.unique_name(name) for name in "kztro"] == ["k_1", "z_1", "t_1", "r_1", "o_1"]
