# SPDX-License-Identifier: Apache-2.0
"""Dead code elimination: removed operators and near misses."""

from __future__ import annotations

import time

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import Relu
from circlekit.passes.fold.remove_dead import RemoveDead
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass


def test_unused_chain_is_removed() -> None:
    model = check_pass(
        """graph main(%x: f32[2,2], %unused: f32[1]) -> %y {
             %a = Mul(%x, [1.0, 2.0])
             %b = Relu(%a)
             %c, %d = Split(0, %b) {num_splits: 2}
             %y = Neg(%x)
           }""",
        "remove_dead",
        ["Neg"],
    )
    assert [v.name for v in model.main.inputs] == ["x", "unused"]
    assert [v.name for v in model.main.values()] == ["x", "unused", "y"]


def test_an_operator_with_one_used_result_stays() -> None:
    text = """graph main(%x: f32[2,2]) -> %c {
                %c, %d = Split(0, %x) {num_splits: 2}
              }"""
    check_pass(text, "remove_dead", ["Split"])


def test_unused_output_stays() -> None:
    text = "graph main(%x: f32[2]) -> %y, %z { %y = Neg(%x) %z = Abs(%x) }"
    check_pass(text, "remove_dead", ["Neg", "Abs"])


def test_operator_with_side_effects_stays() -> None:
    text = """graph main(%x: f32[2]) -> %y {
                %w = While(%x) {cond: @c, body: @b} : f32[2]
                %y = Neg(%x)
              }
              graph c(%p: f32[2]) -> %q { %q = const bool[] false }
              graph b(%r: f32[2]) -> %s { %dead = Exp(%r) %s = Neg(%r) }"""
    model = parse_model(text)
    context = Context(refusals=[])
    RemoveDead().run(model, context)
    assert [op.code for op in model.main] == ["WHILE", "NEG"]
    assert [op.code for op in model.graphs[2]] == ["NEG"]
    assert [r.sentence for r in context.refusals or ()] == [
        "%w: its results have no use, but WHILE may have side effects"
    ]


def test_operator_without_results_stays() -> None:
    model = parse_model(
        'graph main(%x: f32[2]) -> %y { %y = Neg(%x) Opaque(%x) {code: "CUSTOM", custom_code: "FlexAssert"} }'
    )
    context = Context(refusals=[])
    assert RemoveDead().run(model, context) == 0
    assert [r.sentence for r in context.refusals or ()] == [
        "it has no results, but CUSTOM may have side effects"
    ]


def test_operator_on_a_variable_stays() -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y { %d = Relu([1.0, 2.0]) %y = Neg(%x) }")
    state = model.main.ops[0].inputs[0]
    assert state is not None
    state.is_variable = True
    context = Context(refusals=[])
    assert RemoveDead().run(model, context) == 0
    sentences = [r.sentence for r in context.refusals or ()]
    assert sentences == [f"its results have no use, but RELU reads the variable %{state.name}"]


def test_unused_values_are_removed_from_the_table() -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    used = Value.constant("intermediate", np.zeros(1, np.float32))
    unused = Value.constant("unused", np.zeros(1, np.float32))
    state = Value.constant("state", np.zeros(1, np.float32))
    state.is_variable = True
    main = model.main
    main.ops[0].extra["intermediates"] = [used]
    main.table = [unused, *main.inputs, used, state, *main.outputs]
    assert RemoveDead().run(model, Context()) == 1
    assert [v.name for v in main.table] == ["x", "intermediate", "state", "y"]
    assert RemoveDead().run(model, Context()) == 0


def test_time_is_linear() -> None:
    x = Value("x", DType.FLOAT32, (2,))
    graph = Graph("main", [x])
    value = x
    for _ in range(20_000):
        value = graph.append(Relu(value)).output
    graph.outputs = [x]
    graph.table = list(graph.values())
    start = time.perf_counter()
    assert RemoveDead().run(Model([graph]), Context()) == 40_000  # 20,000 operators and their results
    assert time.perf_counter() - start < 5
    assert graph.table == [x]
