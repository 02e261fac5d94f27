# SPDX-License-Identifier: Apache-2.0
"""Shape inference over models: what becomes known, what stays, what contradicts, and where."""

from __future__ import annotations

import pytest

from circlekit.errors import ShapeError
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import (
    callees_first,
    check_shapes,
    fits,
    infer_shapes,
    misfit,
    release_dims,
    settle_ranks,
)
from circlekit.ir.text import parse_model
from circlekit.ir.value import Shape
from tests.ir.recipes import graph_text


def shapes(model: Model) -> list[Shape | None]:
    return [v.shape for op in model.main for v in op.results]


def test_unknown_shapes_become_known() -> None:
    model = parse_model(
        graph_text("%1 = Relu(%x) : f32[*]", "%2 = Transpose(%1, [1,0]) : f32[?,?]", "%y = Relu(%2)")
    )
    assert infer_shapes(model) == 3
    assert shapes(model) == [(1, 4), (4, 1), (4, 1)]
    assert infer_shapes(model) == 0


def test_unknown_dimensions_go_through() -> None:
    model = parse_model(
        graph_text("%1 = Relu(%x) : f32[*]", "%y = Transpose(%1, [1,0]) : f32[*]", inputs="%x: f32[?,4]")
    )
    infer_shapes(model)
    assert shapes(model) == [(None, 4), (4, None)]


def test_what_is_known_stays() -> None:
    model = parse_model(graph_text("%y = Relu(%x) : f32[3,?]", inputs="%x: f32[?,4]"))
    assert infer_shapes(model) == 1
    assert shapes(model) == [(3, 4)]
    model = parse_model(graph_text("%y = Relu(%x) : f32[3,4]", inputs="%x: f32[*]"))
    assert infer_shapes(model) == 0
    assert shapes(model) == [(3, 4)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("%y = Relu(%x) : f32[1,5]", "%y has shape [1,5], its operator infers [1,4]"),
        ("%y = Relu(%x) : f32[4]", "%y has shape [4], its operator infers [1,4]"),
        ("%y = Relu(%x) : f32[]", "%y has shape [], its operator infers [1,4]"),
        ("%y = Relu(%x) : i8[1,4]", "%y is i8, its operator infers f32"),
        ("%y = Add(%x, [1.0, 2.0]) : f32[1,4]", "broadcast"),
    ],
)
def test_contradictions_have_a_place(statement: str, message: str) -> None:
    model = parse_model(graph_text("%0 = Relu(%x)", statement), "net.ck")
    with pytest.raises(ShapeError) as caught:
        infer_shapes(model)
    text = str(caught.value)
    assert message in text
    kind = "Add" if "Add" in statement else "Relu"
    assert f"  at net.ck > main > op 1 {kind}\n" in text
    assert "\n  >  1  %y = " in text


def test_scales_fit_what_is_inferred() -> None:
    """Scales that fit neither the inferred nor the stated shape are left to the verifier."""
    line = "%y = Relu(%x) : f32[{},4] quant(scale: [0.5, 0.25])"
    with pytest.raises(ShapeError, match="%y does not fit its operator: its quantization has 2 scales"):
        infer_shapes(parse_model(graph_text(line.format("?"), inputs="%x: f32[3,4]")))
    assert infer_shapes(parse_model(graph_text(line.format("3"), inputs="%x: f32[3,4]"))) == 0
    assert infer_shapes(parse_model(graph_text(line.format("?"), inputs="%x: f32[2,4]"))) == 1


def test_operators_without_a_rule_are_passed_over() -> None:
    model = parse_model(graph_text('%1 = Opaque(%x) {code: "CUSTOM"} : f32[?,2]', "%y = Relu(%1) : f32[*]"))
    assert infer_shapes(model) == 1
    assert shapes(model) == [(None, 2), (None, 2)]


def test_callees_come_first() -> None:
    text = (
        graph_text("%y = While(%x) {cond: @c, body: @b}", inputs="%x: f32[]")
        + "graph b(%x: f32[]) -> %z {\n%z = While(%x) {cond: @c, body: @d}\n}\n"
        + "graph c(%x: f32[]) -> %t {\n%t = Less(%x, 1.0)\n}\n"
        + "graph d(%x: f32[]) -> %u {\n%u = Relu(%x) : f32[*]\n}\n"
    )
    model = parse_model(text)
    order = [g.name for g in callees_first(model)]
    assert sorted(order) == ["b", "c", "d", "main"]
    assert order.index("d") < order.index("b") < order.index("main")
    assert order.index("c") < order.index("b")
    assert infer_shapes(model) == 3
    assert shapes(model) == [()]


# -- the shape [], which may stand for an unknown rank -----------------------------------------


def test_an_unknown_rank_of_an_old_file_conflicts_with_nothing() -> None:
    """[] in a file may stand for an unknown rank, so it contradicts no shape rule."""
    model = parse_model("graph main(%x: f32[1,4,4,2]) -> %y {\n%a = Relu(%x)\n%y = MaxPool2D(%a)\n}")
    model.main.ops[0].output.shape = ()
    check_shapes(model)
    model.main.ops[0].output.shape = (3,)
    with pytest.raises(ShapeError):
        check_shapes(model)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("FullyConnected(%x, 2.0) : f32[2,4]", "weights"),  # a constant is a scalar
        ("Neg(%x) : i32[2]", "%y is i32, its operator infers f32"),
        ("Add(%x, [1.0, 2.0]) : f32[5]", None),
    ],
)
def test_a_contradiction_that_an_unknown_rank_removes_is_no_misfit(call: str, sentence: str | None) -> None:
    (op,) = parse_model(graph_text(f"%y = {call}", inputs="%x: f32[]")).main
    assert (misfit(op) is None) if sentence is None else sentence in (misfit(op) or "")
    assert op.inputs[0] is not None
    assert op.inputs[0].shape == ()


def test_a_rank_is_settled_by_the_operator_that_makes_or_refuses_it() -> None:
    """[] becomes the inferred shape of a result.

    It becomes an unknown rank if an operator refuses a scalar, or makes no such result of it.
    """
    model = parse_model("graph main(%x: f32[1,4,4,2]) -> %y {\n%a = Relu(%x)\n%y = MaxPool2D(%a)\n}")
    for op in model.main:
        op.output.shape = ()
    settle_ranks(model)
    assert [op.output.shape for op in model.main] == [(1, 4, 4, 2), (1, 4, 4, 2)]
    model = parse_model("graph main(%x: f32[]) -> %y {\n%y = MaxPool2D(%x): f32[1,4,4,2]\n}")
    settle_ranks(model)
    assert model.main.inputs[0].shape is None
    model = parse_model("graph main(%x: f32[]) -> %y {\n%y = Relu(%x): f32[4]\n}")
    settle_ranks(model)
    assert [v.shape for v in model.main.values()] == [None, (4,)]
    model = parse_model("graph main(%x: f32[]) -> %y {\n%y = Relu(%x)\n}")
    settle_ranks(model)
    assert [v.shape for v in model.main.values()] == [(), ()]


def test_a_rank_that_is_settled_late_reaches_earlier_operators() -> None:
    """The Neg reads %x before the MaxPool2D shows that %x has an unknown rank."""
    model = parse_model(
        "graph main(%x: f32[]) -> %y, %z {\n%y = Neg(%x)\n%z = MaxPool2D(%x): f32[1,4,4,2]\n}"
    )
    settle_ranks(model)
    assert [v.shape for v in model.main.values()] == [None, None, (1, 4, 4, 2)]


def test_an_operator_that_fits_no_rank_is_refused() -> None:
    model = parse_model("graph main(%x: f32[], %z: f32[3]) -> %y {\n%y = MaxPool2D(%z): f32[]\n}")
    with pytest.raises(ShapeError, match="op 0 MaxPool2D"):
        settle_ranks(model)
    model = parse_model(
        "graph main(%x: f32[2], %s: f32[]) -> %y {\n%z = Neg(%x): f32[3]\n%y = Mul(%z, %s)\n}"
    )
    with pytest.raises(ShapeError, match=r"%z has shape \[3\], its operator infers \[2\]"):
        settle_ranks(model)
    assert model.main.inputs[1].shape == ()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("Relu(%x) : f32[1,4]", None),
        ("Relu(%x) : f32[1,5]", "%y has shape [1,5], its operator infers [1,4]"),
        ('Opaque(%x) {code: "CUSTOM", custom_code: "any"} : f32[9]', None),  # it has no shape rule
        ("Transpose(%x, %x) : f32[4,1]", "perm %x is f32, expected i32 or i64"),
    ],
)
def test_an_operator_fits_if_it_breaks_neither_its_shape_rule_nor_its_declaration(
    call: str, sentence: str | None
) -> None:
    (op,) = parse_model(graph_text(f"%y = {call}")).main
    assert misfit(op) == sentence
    assert fits(op) == (sentence is None)


def test_dimensions_that_follow_an_unknown_one_are_released() -> None:
    model = parse_model(
        graph_text(
            "%1 = Transpose(%x, [1,0]) : f32[4,20]",
            "%2 = Relu(%1) : f32[4,20]",
            "%y = Concatenation(%2, %2) {axis: 1} : f32[4,0]",
            inputs="%x: f32[?,4]",
        )
    )
    assert len(release_dims(model)) == 3
    assert shapes(model) == [(4, None), (4, None), (4, None)]
    assert release_dims(model) == []


@pytest.mark.parametrize(
    ("inputs", "statement"),
    [
        ("%x: f32[5,4]", "%y = Relu(%x) : f32[5,4]"),
        ("%x: f32[?,4], %s: i32[2]", "%y = Reshape(%x, %s) : f32[2,10]"),  # depends on the elements of %s
        ("%x: f32[?,4]", "%y = Add(%x, [[1.0], [2.0], [3.0]]) : f32[3,4]"),  # does not depend on the size
        ("%x: f32[5,4]", "%1 = Relu(%x) : f32[?,4]\n%y = Relu(%1) : f32[5,4]"),  # no input is unknown
        ("%x: f32[?,4]", "%1 = Relu(%x) : f32[?,?]\n%y = Relu(%1) : f32[?,4]"),  # ... in this dimension
    ],
)
def test_dimensions_that_may_be_right_stay(inputs: str, statement: str) -> None:
    model = parse_model(graph_text(statement, inputs=inputs))
    before = shapes(model)
    assert release_dims(model) == []
    assert shapes(model) == before
