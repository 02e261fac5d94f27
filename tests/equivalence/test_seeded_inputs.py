# SPDX-License-Identifier: Apache-2.0
"""Seeded inputs: equal on every run, valid for the model, and with the numbers where operators change."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.equivalence.seeded_inputs import (
    EDGES,
    InputSet,
    index_bounds,
    input_sets,
    make_input,
    make_inputs,
)
from circlekit.errors import LimitError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value

NORMAL, BOUNDARY, ZERO = InputSet("normal"), InputSet("boundary"), InputSet("zero")
NUMBERS = [t for t in DType if t.numpy is not None]


def main_graph(text: str) -> Graph:
    return parse_model(text).main


@pytest.mark.parametrize("kind", ["normal", "boundary", "zero"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda t: t.short)
def test_dtype_and_shape_are_as_declared(dtype: DType, kind: str) -> None:
    array = make_input(Value("x", dtype, (2, None, 3)), InputSet(kind), unknown=5)
    assert (array.dtype, array.shape) == (dtype.numpy, (2, 5, 3))


def test_the_values_are_equal_on_every_run() -> None:
    x, q = Value("x", DType.FLOAT32, (4,)), Value("q", DType.INT8, (4,))
    assert make_input(x, NORMAL).tolist() == [
        -0.7685699462890625, 0.2019195556640625, 0.2359466552734375, -0.1487274169921875,
    ]  # fmt: skip
    assert make_input(x, BOUNDARY).tolist() == [-1, 1, -0.0, 0]
    assert make_input(q, NORMAL).tolist() == [-45, 3, 1, -107]


def test_an_input_depends_on_its_name_and_not_on_other_inputs() -> None:
    a, b = (Value(name, DType.FLOAT32, (8,)) for name in "ab")
    alone = make_inputs(Graph("g", [b]), NORMAL)[0]
    both = make_inputs(Graph("g", [a, b]), NORMAL)
    assert np.array_equal(alone, both[1])
    assert not np.array_equal(both[0], both[1])


def test_boundary_has_negative_zero_and_the_bends_of_activations() -> None:
    array = make_input(Value("x", DType.FLOAT32, (1000,)), BOUNDARY)
    assert {0.0, 1.0, -1.0, 6.0, -3.0, 100.0} <= set(array.tolist())
    assert np.any(np.signbit(array) & (array == 0))


def test_small_inputs_meet_every_edge_in_several_sets() -> None:
    graph = Graph("g", [Value("x", DType.FLOAT32, (3,)), Value("image", DType.FLOAT32, (8, 8))])
    sets = input_sets(graph)
    assert [s.label for s in sets] == ["normal", "boundary", *(f"boundary_{i}" for i in range(2, 7)), "zero"]
    met = np.concatenate([make_inputs(graph, s)[0] for s in sets if s.kind == "boundary"])
    assert set(met.tolist()) == {float(np.float32(edge)) for edge in EDGES}
    large = Graph("g", [Value("x", DType.FLOAT32, (3,)), Value("image", DType.FLOAT32, (64, 64))])
    assert [s.label for s in input_sets(large)] == ["normal", "boundary", "zero"]


def test_quantized_data_uses_its_whole_range() -> None:
    scale = Quantization(np.array([0.5], np.float32), np.array([3], np.int64))
    value = Value("x", DType.INT16, (4000,), None, scale)
    assert np.unique(make_input(value, BOUNDARY)).tolist() == [-32768, 3, 32767]
    assert make_input(value, NORMAL).min() < -30000
    assert np.all(make_input(value, ZERO) == 3)
    value = Value("x", DType.UINT64, (4000,), None, scale)
    assert np.unique(make_input(value, BOUNDARY)).tolist() == [0, 3, 2**64 - 1]


def test_other_integers_stay_small() -> None:
    array = make_input(Value("x", DType.INT32, (1000,)), NORMAL)
    assert (array.min(), array.max()) == (0, 3)


def test_what_no_array_can_hold_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot make inputs for %s"):
        make_input(Value("s", DType.STRING, (1,)), NORMAL)
    with pytest.raises(UnsupportedError, match="cannot make inputs for %x"):
        make_input(Value("x", DType.FLOAT32, None), NORMAL)


GATHERS = """
graph main(%table: f32[7,5], %ids: i64[2,3], %free: i32[4]) -> %y, %z {
  %small = Cast(%ids) : i32[2,3]
  %flat = Reshape(%small, [6]) : i32[6]
  %y = Gather(%table, %flat) {axis: 1} : f32[7,6]
  %z = Add(%free, %free) : i32[4]
}
"""


def test_indices_stay_below_what_they_index() -> None:
    graph = main_graph(GATHERS)
    _, ids, free = graph.inputs
    assert index_bounds(graph) == {id(ids): 5}
    normal = make_inputs(graph, NORMAL)
    assert normal[1].min() >= 0
    assert normal[1].max() < 5
    assert id(free) not in index_bounds(graph)


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


@pytest.mark.parametrize(("sizes", "count"), [((1000, 24), 1), ((1009, 15), 2), ((1010, 15), 1), ((8, 8), 2)])
def test_the_number_of_boundary_sets(sizes: tuple[int, int], count: int) -> None:
    """As many as the smallest float input needs for the 16 EDGES; one if there are more than 1024 elements.

    For example, inputs of 1009 and 15 elements have 1024 together, and 15 elements need 2 sets.
    """
    inputs = [Value(f"x{size}", DType.FLOAT32, (size, None)) for size in sizes]
    graph = Graph("g", [*inputs, Value("i", DType.INT32, (5000,))])
    assert len(input_sets(graph)) == count + 2
    assert {s.total for s in input_sets(graph) if s.kind == "boundary"} == {count}
    assert len(input_sets(Graph("g", []))) == 3
    # the dimension 0 counts as 1, so the input has 3 elements
    assert len(input_sets(Graph("g", [Value("none", DType.FLOAT32, (0, 3))]))) == 6 + 2


def test_complex_numbers_have_two_independent_parts() -> None:
    array = make_input(Value("c", DType.COMPLEX64, (100,)), NORMAL)
    assert not np.array_equal(array.real, array.imag)
    assert abs(array.imag.mean()) < 0.3
    assert 0.8 < array.imag.std() < 1.2


@pytest.mark.parametrize(
    ("zero_point", "dtype", "stored"),
    [(300, DType.UINT8, 255), (-300, DType.INT8, -128), (300, DType.FLOAT32, 0)],
)
def test_a_zero_point_beyond_its_dtype_is_clipped(zero_point: int, dtype: DType, stored: int) -> None:
    """A float input is not quantized, so its zero is 0."""
    scale = Quantization(np.array([0.5], np.float32), np.array([zero_point], np.int64))
    assert make_input(Value("x", dtype, (2,), None, scale), ZERO).tolist() == [stored] * 2


def test_bools_are_true_and_false() -> None:
    assert 0.3 < make_input(Value("c", DType.BOOL, (200,)), NORMAL).mean() < 0.7


def test_an_input_beyond_the_memory_limit_is_refused() -> None:
    with limited("3M"), pytest.raises(LimitError, match="input %x"):
        make_input(Value("x", DType.FLOAT32, (1 << 20,)), NORMAL)
    with limited("5M"):
        assert make_input(Value("x", DType.FLOAT32, (1 << 20,)), ZERO).size == 1 << 20


@pytest.mark.parametrize(
    ("dtype", "zero_point", "bound", "edges"),
    [
        (DType.INT8, 0, 1000, [0, 127]),
        (DType.UINT8, 0, 1000, [0, 255]),
        (DType.INT32, 50, 4, [0, 3]),
        (DType.INT32, -50, 4, [0, 3]),
        (DType.INT32, 2, 4, [0, 2, 3]),
    ],
)
def test_edges_of_indices_fit_the_table_and_the_dtype(
    dtype: DType, zero_point: int, bound: int, edges: list[int]
) -> None:
    scale = Quantization(np.array([0.5], np.float32), np.array([zero_point], np.int64))
    value = Value("i", dtype, (40,), None, scale)
    for which in (NORMAL, BOUNDARY, ZERO):
        array = make_input(value, which, bound=bound).astype(int)
        assert 0 <= array.min() <= array.max() <= edges[-1]
    assert np.unique(make_input(value, BOUNDARY, bound=bound)).tolist() == edges


def test_indices_of_one_element_are_zero() -> None:
    assert not make_input(Value("i", DType.INT32, (20,)), NORMAL, bound=1).any()


def test_integers_without_a_scale_are_not_quantized() -> None:
    form = Quantization(np.zeros(0, np.float32), np.zeros(0, np.int64))
    assert make_input(Value("i", DType.INT32, (100,), None, form), NORMAL).max() == 3


def test_indices_are_not_followed_through_floats() -> None:
    graph = main_graph("""
        graph main(%t: f32[3], %i: i32[2]) -> %y {
          %f = Cast(%i) : f32[2]
          %j = Cast(%f) : i32[2]
          %y = Gather(%t, %j) : f32[2]
        }
    """)
    assert index_bounds(graph) == {}


def test_unknown_dimensions_are_one_by_default() -> None:
    value = Value("x", DType.FLOAT32, (None, 3))
    assert make_input(value, NORMAL).shape == (1, 3)
    assert make_inputs(Graph("g", [value]), NORMAL)[0].shape == (1, 3)
