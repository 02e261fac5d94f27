# SPDX-License-Identifier: Apache-2.0
"""Integer inputs by their use: bounded indices, data of any value, or neither."""

from __future__ import annotations

import pytest

import circlekit.ops  # noqa: F401  # declares the operators of the texts
from circlekit.equivalence.integer_uses import free_integers, index_bounds
from circlekit.ir.graph import Graph
from circlekit.ir.text import parse_model


def main_graph(text: str) -> Graph:
    return parse_model(text).main


def test_indices_are_followed_through_integer_operators() -> None:
    graph = main_graph("""
        graph main(%table: f32[7,5], %ids: i64[2,3], %free: i32[4]) -> %y, %z {
          %small = Cast(%ids) : i32[2,3]
          %flat = Reshape(%small, [6]) : i32[6]
          %y = Gather(%table, %flat) {axis: 1} : f32[7,6]
          %z = Add(%free, %free) : i32[4]
        }
    """)
    _, ids, free = graph.inputs
    assert index_bounds(graph) == {id(ids): 5}
    assert free_integers(graph) == {id(free)}


def test_floats_that_only_a_cast_reads_are_indices() -> None:
    graph = main_graph("""
        graph main(%ids: f32[1,4], %scaled: f32[1,4], %image: f32[7,2], %flag: bool[1]) -> %y, %z, %s, %b {
          %table = const f32[100,3] gaussian(0, 1)
          %flat = Reshape(%ids, [4]) : f32[4]
          %rows = Cast(%flat) : i32[4]
          %y = Gather(%table, %rows) : f32[4,3]
          %half = Mul(%scaled, [0.5]) : f32[1,4]
          %places = Cast(%half) : i32[1,4]
          %z = Gather(%table, %places) : f32[1,4,3]
          %shape = Shape(%image) : i32[2]
          %s = Gather(%table, %shape) : f32[2,3]
          %bit = Cast(%flag) : i32[1]
          %b = Gather(%table, %bit) : f32[1,3]
        }
    """)
    assert index_bounds(graph) == {id(graph.inputs[0]): 100}


def test_the_smallest_of_several_tables_counts() -> None:
    graph = main_graph("""
        graph main(%a: f32[9,2], %b: f32[2,4], %ids: i32[3]) -> %y, %z {
          %y = Gather(%a, %ids) {axis: 0} : f32[3,2]
          %z = Gather(%b, %ids) {axis: -1} : f32[2,3]
        }
    """)
    assert index_bounds(graph) == {id(graph.inputs[2]): 4}


def test_indices_are_followed_into_called_graphs() -> None:
    graph = main_graph("""
        graph main(%table: f32[6,2], %i: i32[1]) -> %out, %j {
          %out, %j = While(%table, %i) {cond: @cond, body: @body} : f32[6,2], i32[1]
        }
        graph cond(%table: f32[6,2], %i: i32[1]) -> %c {
          %c = Less(%i, [3]) : bool[1]
        }
        graph body(%table: f32[6,2], %i: i32[1]) -> %next, %k {
          %row = Gather(%table, %i) {axis: 0} : f32[1,2]
          %next = Add(%table, %row) : f32[6,2]
          %k = Add(%i, [1]) : i32[1]
        }
    """)
    assert index_bounds(graph) == {id(graph.inputs[1]): 6}


def test_the_condition_of_a_branch_precedes_its_arguments() -> None:
    graph = main_graph("""
        graph main(%c: bool[1], %i: i32[2], %t: f32[5,2]) -> %y {
          %y = If(%c, %i, %t) {then_graph: @take, else_graph: @other} : f32[2,2]
        }
        graph take(%j: i32[2], %u: f32[5,2]) -> %v { %v = Gather(%u, %j) : f32[2,2] }
        graph other(%k: i32[2], %w: f32[5,2]) -> %z { %z = Gather(%w, %k) {axis: 1} : f32[2,2] }
    """)
    assert index_bounds(graph) == {id(graph.inputs[1]): 2}


@pytest.mark.parametrize(
    ("call", "bound"),
    [
        ("GatherNd(%t, %i)", 3),
        ("GatherNd(%t, %free)", 3),
        ("EmbeddingLookup(%i, %t)", 7),
        ("Gather(%t, %i)", 7),
        ("Gather(%t, %i) {axis: -1}", 4),
        ("Gather(%any, %i)", None),
        ("Gather(%t, %i) {axis: 5}", 4),  # axis 5 is invalid for rank 3; it counts as 5 % 3 = 2
        ("Gather(%t, [0]) : f32[1,3,4] %n = Neg(%i)", None),
    ],
)
def test_indices_are_bounded_by_the_axis_that_they_index(call: str, bound: int | None) -> None:
    text = "graph main(%t: f32[7,3,4], %any: f32[*], %i: i32[1,2], %free: i32[*]) -> %y { %y = CALL }"
    result = "" if " : " in call else " : f32[*]"
    graph = main_graph(text.replace("CALL", call + result))
    index = graph.inputs[3 if "%free" in call else 2]
    assert index_bounds(graph) == ({} if bound is None else {id(index): bound})


def test_an_absent_table_has_no_size() -> None:
    graph = main_graph("graph main(%t: f32[7], %i: i32[2]) -> %y { %y = Gather(%t, %i) }")
    graph.ops[0].set_input(0, None)
    assert index_bounds(graph) == {}


def test_an_operator_of_a_damaged_file_may_lack_the_operand_of_the_table() -> None:
    graph = main_graph("graph main(%t: f32[7,2], %i: i32[2]) -> %y { %y = EmbeddingLookup(%i, %t) }")
    graph.ops[0].inputs.pop()
    assert index_bounds(graph) == {}


@pytest.mark.parametrize("size", ["7", "?"])
def test_elements_of_a_table_are_not_computed_from_the_indices(size: str) -> None:
    graph = main_graph(
        """
        graph main(%table: i32[SIZE], %rows: f32[3,2], %i: i32[4]) -> %y {
          %j = Gather(%table, %i) : i32[4]
          %y = Gather(%rows, %j) : f32[4,2]
        }
    """.replace("SIZE", size)
    )
    table, _, index = graph.inputs
    assert index_bounds(graph) == {id(table): 3} | ({} if size == "?" else {id(index): 7})


def test_indices_are_not_followed_through_floats() -> None:
    graph = main_graph("""
        graph main(%t: f32[3], %i: i32[2]) -> %y {
          %f = Cast(%i) : f32[2]
          %j = Cast(%f) : i32[2]
          %y = Gather(%t, %j) : f32[2]
        }
    """)
    assert index_bounds(graph) == {}


@pytest.mark.parametrize(
    "call",
    [
        "Abs(%x)",
        "Maximum(%x, [0])",
        "FloorDiv(%x, [3])",
        "FloorMod(%x, [3])",
        "RightShift(%x, [3])",
        "Cast(%x) : f32[2]",
        "Sum(%x, [0]) : i32[]",
        "Reshape(%x, [1, 2])",
        "Gather(%x, [1])",
        "Split(0, %x) {num_splits: 1}",
        "Concatenation([1], %x)",
        "Pack(%x, %x) : i32[2,2]",
        "Select([true, false], [1, 2], %x)",
        "Less(%x, [5])",
        "Reshape(%x, [2]) %z = Neg(%y)",
    ],
)
def test_integers_that_are_data_may_have_any_value(call: str) -> None:
    graph = main_graph(f"graph main(%x: i32[2], %f: f32[2]) -> %y {{ %y = {call} }}")
    assert free_integers(graph) == {id(graph.inputs[0])}


@pytest.mark.parametrize(
    "call",
    [
        "FloorDiv([3, 4], %x)",
        "FloorMod([3, 4], %x)",
        "Div([3, 4], %x)",
        "Pow([3, 4], %x)",
        "RightShift([3, 4], %x)",
        "Reshape(%f, %x) : f32[?,?]",
        "BroadcastTo(%f, %x) : f32[?,?]",
        "Fill(%x, 1.0) : f32[?,?]",
        "Gather(%t, %x) : f32[2,4]",
        "ReverseV2(%t, %x) : f32[3,4]",
        "Sum(%t, %x) : f32[?]",
        "Slice(%t, %x, [1, 1]) : f32[1,1]",
        "OneHot(%x, 4, 1.0, 0.0) : f32[2,4]",
        "Abs(%x) %z = Reshape(%f, %y) : f32[?,?]",
    ],
)
def test_integers_that_may_be_parameters_have_no_free_values(call: str) -> None:
    graph = main_graph(f"graph main(%x: i32[2], %f: f32[2], %t: f32[3,4]) -> %y {{ %y = {call} }}")
    assert not free_integers(graph)


@pytest.mark.parametrize(("op", "is_free"), [("Abs(%k)", True), ("Reshape(%a, %k) : f32[?]", False)])
def test_uses_in_branches_count(op: str, is_free: bool) -> None:
    graph = main_graph(f"""
        graph main(%c: bool[], %x: i32[1], %f: f32[1]) -> %y {{
          %y = If(%c, %x, %f) {{then_graph: @then, else_graph: @else}} : f32[?]
        }}
        graph then(%k: i32[1], %a: f32[1]) -> %a {{ %m = {op} }}
        graph else(%l: i32[1], %b: f32[1]) -> %b {{ %n = Neg(%l) }}
    """)
    assert (id(graph.inputs[1]) in free_integers(graph)) is is_free


def test_integers_of_a_loop_may_decide_how_often_it_runs() -> None:
    graph = main_graph("""
        graph main(%i: i32[1]) -> %j { %j = While(%i) {cond: @cond, body: @body} : i32[1] }
        graph cond(%i: i32[1]) -> %c { %c = Less(%i, [3]) : bool[1] }
        graph body(%i: i32[1]) -> %k { %k = Add(%i, [1]) : i32[1] }
    """)
    assert not free_integers(graph)
