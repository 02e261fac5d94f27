# SPDX-License-Identifier: Apache-2.0
"""Copies of operators and of parts of models.  Copies of whole models: see ``test_model_equality``."""

from __future__ import annotations

from circlekit.ir.clone import copy_op, copy_submodel, inline
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.op import OpaqueOp
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import Value
from circlekit.ir.verifier import verify
from tests.ir.recipes import graph_text

TEXT = (
    graph_text(
        "%w = const f32[2,4] zeros",
        "%1 = FullyConnected(%x, %w, none) {act: RELU, version: 3}",
        "%n, %2 = While(0, %1) {cond: @less, body: @step}",
        "%y = Relu(%2)",
    )
    + "graph step(%i: i32[], %x: f32[1,2]) -> %i, %z {\n%z = Call(%x) {subgraph: @inner}\n}\n"
    + "graph other(%x: f32[1]) -> %x {\n}\n"
    + "graph less(%i: i32[], %x: f32[1,2]) -> %go {\n%go = Less(%i, 3)\n}\n"
    + "graph inner(%x: f32[1,2]) -> %y {\n%y = Neg(%x)\n}\n"
)


def model() -> Model:
    found = parse_model(TEXT)
    found.metadata.append(("m", b""))
    found.extra["a"], found.source = 1, "net.ck"
    return found


def test_a_copied_operator_uses_the_same_operands() -> None:
    original = model()
    op = original.main.ops[0]
    copied = copy_op(op)
    assert copied.inputs == op.inputs
    assert (copied.graph, copied.version, copied.attribute_items()) == (None, 3, op.attribute_items())
    assert op.inputs[0] is not None
    assert op.inputs[0].uses == ((op, 0), (copied, 0))
    (result,) = copied.results
    assert (result.name, result.type, result.producer) == ("", op.output.type, copied)
    original.main.insert_after(op, copied)
    copied.set_input(0, original.main.inputs[0])
    assert verify(original) == []


def test_a_copied_operator_may_get_other_operands_and_results() -> None:
    original = parse_model(
        "graph main(%x: f32[2]) -> %y {"
        '%y = Opaque(%x, none, %x) {code: "CUSTOM", custom_code: "Mine"} : f32[2]}'
    )
    op, a, b, y = original.main.ops[0], *(Value(name, f32, (2,)) for name in "aby")
    copied = copy_op(op, [a, None, b], [y])
    assert isinstance(copied, OpaqueOp)
    assert (copied.code, copied.custom_code) == ("CUSTOM", "Mine")
    assert (copied.inputs, copied.results) == ([a, None, b], [y])
    assert (a.uses, b.uses, y.producer, y.name) == (((copied, 0),), ((copied, 2),), copied, "y")
    assert original.main.inputs[0].uses == ((op, 0), (op, 2))


def test_a_submodel_has_the_graphs_that_its_operators_call() -> None:
    original = model()
    ops = original.main.ops
    part = copy_submodel(original, ops[1:], [ops[0].output], [ops[2].output])
    assert verify(part) == []
    names = [graph.name for graph in part.graphs[1:]]
    assert sorted(names) == ["inner", "less", "step"]
    assert names.index("step") < names.index("inner"), "a caller stands before its callees"
    assert [op.code for op in part.main] == ["WHILE", "RELU"]
    assert [v.name for v in (*part.main.inputs, *part.main.outputs)] == ["1", "y"]
    assert (part.signatures, part.metadata, part.extra, part.source) == ([], [], {}, None)
    assert not {*original.graphs} & {*part.graphs}
    whole = copy_submodel(original, ops, original.main.inputs, original.main.outputs)
    assert "FullyConnected(%x, %w, none) {act: RELU, version: 3}" in print_model(whole)
    assert verify(whole) == []
    assert verify(original) == []


def test_copied_operators_keep_uninterpreted_fields_of_their_values() -> None:
    """Without its sparsity, the data of a sparse constant would not fit the shape."""
    original = parse_model(
        graph_text("%y = Relu(%x)")
        + "graph sparse(%x: f32[1,2]) -> %y {\n"
        + '%w = const f32[1,2] extra(sparsity: {traversal_order: array(i32, [0, 1])}) raw("AACAPw==")\n'
        + "%y = Add(%x, %w) : f32[1,2] extra(shape_signature: array(i32, [-1, 2]))\n}\n"
    )
    main, sparse = original.graphs
    assert [v.name for v in inline(sparse, main.ops[0], main.inputs)] == ["y_1"]
    assert verify(original) == []
    inlined = main.ops[0]  # inserted before the Relu
    for copied in (inlined, copy_op(sparse.ops[0])):
        operand = copied.inputs[1]
        assert operand is not None
        assert (list(operand.extra), list(copied.output.extra)) == (["sparsity"], ["shape_signature"])
