# SPDX-License-Identifier: Apache-2.0
"""Seeded inputs: equal on every run, valid for the model, and with the numbers where operators change."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.equivalence import litert
from circlekit.equivalence.seeded_inputs import (
    EDGES,
    INTEGER_EDGES,
    TEXTS,
    InputSet,
    InputUse,
    input_sets,
    make_input,
    make_inputs,
)
from circlekit.equivalence.unknown_sizes import Sizes
from circlekit.errors import LimitError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value

NORMAL, BOUNDARY, ZERO = InputSet("normal"), InputSet("boundary"), InputSet("zero")
LAST = ["zero", "positive", "negative"]
NUMBERS = [t for t in DType if t.numpy is not None]


def main_graph(text: str) -> Graph:
    return parse_model(text).main


@pytest.mark.parametrize("kind", ["normal", "boundary", "zero"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda t: t.short)
def test_dtype_and_shape_are_as_declared(dtype: DType, kind: str) -> None:
    array = make_input(Value("x", dtype, (2, None, 3)), InputSet(kind), Sizes(5))
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
    assert [s.label for s in sets] == ["normal", "boundary", *(f"boundary_{i}" for i in range(2, 7)), *LAST]
    met = np.concatenate([make_inputs(graph, s)[0] for s in sets if s.kind == "boundary"])
    assert set(met.tolist()) == {float(np.float32(edge)) for edge in EDGES}
    large = Graph("g", [Value("x", DType.FLOAT32, (3,)), Value("image", DType.FLOAT32, (64, 64))])
    assert [s.label for s in input_sets(large)] == ["normal", "boundary", "zero"]


def test_integers_that_are_only_data_have_signs_and_thresholds() -> None:
    graph = main_graph(
        "graph main(%x: i32[7], %n: u32[7]) -> %y, %z { %y = Minimum(%x, [200]) %z = Add(%n, %n) }"
    )
    sets = input_sets(graph)
    assert [s.label for s in sets] == [
        "normal", "boundary", "boundary_2", "boundary_3", "threshold", "threshold_2", *LAST,
    ]  # fmt: skip
    x, n = np.stack([np.stack(make_inputs(graph, s)) for s in sets if s.kind == "boundary"], 1).tolist()
    assert {number for row in x for number in row} == set(INTEGER_EDGES)
    assert {number for row in n for number in row} == {0, 1, 2, 3, 4, 6, 7, 8, 100}
    x = [number for s in sets if s.kind == "threshold" for number in make_inputs(graph, s)[0].tolist()]
    assert set(x) == {199, 200, 201, 202}
    assert set(make_inputs(graph, NORMAL)[0].tolist()) <= {0, 1, 2, 3}


def test_floats_are_below_at_and_above_thresholds() -> None:
    graph = main_graph("""
        graph main(%x: f32[6], %other: f32[20]) -> %y, %z {
          %y = Minimum(%x, [200.0])
          %z = Exp(%other)
        }
    """)
    sets = [s for s in input_sets(graph) if s.kind == "threshold"]
    assert [s.label for s in sets] == ["threshold", "threshold_2", "threshold_3"]
    x = np.concatenate([make_inputs(graph, s)[0] for s in sets])
    assert set(x.tolist()) == {174.0, 200.0, 226.0}
    assert set(make_inputs(graph, sets[0])[1].tolist()) <= set(np.array(EDGES, np.float32).tolist())


def test_thresholds_among_the_edges_need_no_further_sets() -> None:
    graph = main_graph("graph main(%x: f32[16]) -> %y { %y = Exp(%x) }")
    assert [s.label for s in input_sets(graph)] == ["normal", "boundary", *LAST]


def test_quantized_data_uses_its_whole_range() -> None:
    scale = Quantization.per_tensor(0.5, 3)
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
        make_input(Value("s", DType.RESOURCE, (1,)), NORMAL)
    with pytest.raises(UnsupportedError, match="cannot make inputs for %x"):
        make_input(Value("x", DType.FLOAT32, None), NORMAL)


def test_small_models_meet_all_texts() -> None:
    graph = Graph("g", [Value("s", DType.STRING, (2,)), Value("t", DType.STRING, ())])
    sets = input_sets(graph)
    assert len([s for s in sets if s.kind == "boundary"]) == len(TEXTS)
    made = {s.label: make_inputs(graph, s) for s in sets}
    assert [a.tolist() for a in made["zero"]] == [[b"", b""], b""]
    assert {a.dtype.kind + b.dtype.kind for a, b in made.values()} == {"OO"}
    assert {(a.shape, b.shape) for a, b in made.values()} == {((2,), ())}
    assert {b.item() for label, (_, b) in made.items() if "boundary" in label} == set(TEXTS)
    many = make_input(Value("s", DType.STRING, (None, 100)), NORMAL)
    assert set(many.reshape(-1).tolist()) == set(TEXTS)


GATHERS = """
graph main(%table: f32[7,5], %ids: i64[2,3], %free: i32[4]) -> %y, %z {
  %small = Cast(%ids) : i32[2,3]
  %flat = Reshape(%small, [6]) : i32[6]
  %y = Gather(%table, %flat) {axis: 1} : f32[7,6]
  %z = Add(%free, %free) : i32[4]
}
"""


@pytest.mark.skipif(not litert.is_available(), reason="LiteRT is not installed")
def test_litert_takes_all_inputs_of_a_keras_embedding() -> None:
    model = parse_model("""
        model tflite
        graph main(%ids: f32[1,6]) -> %y {
          %table = const f32[50,3] gaussian(0, 1)
          %rows = Cast(%ids) {in_data_type: f32, out_data_type: i32} : i32[1,6]
          %y = Gather(%table, %rows) : f32[1,6,3]
        }
    """)
    made = {s.label: make_inputs(model.main, s) for s in input_sets(model.main)}
    for inputs in made.values():  # LiteRT refuses negative indices, and indices beyond the table
        litert.run_model(model, inputs)
    (normal,), (boundary,) = made["normal"], made["boundary"]
    assert np.array_equal(normal, np.floor(normal))
    assert len(set(normal.flat)) > 3
    assert set(boundary.flat) == {0, 49}


def test_indices_stay_below_what_they_index() -> None:
    graph = main_graph(GATHERS)
    normal = make_inputs(graph, NORMAL)
    assert normal[1].min() >= 0
    assert normal[1].max() < 5
    boundary = [make_inputs(graph, s)[1] for s in input_sets(graph) if s.kind == "boundary"]
    assert set(np.stack(boundary).flat) == {0, 1, 2, 3, 4}
    assert set(make_inputs(graph, BOUNDARY)[2].tolist()) < set(INTEGER_EDGES)


@pytest.mark.parametrize(("dtype", "last"), [("f32", 4095), ("f16", 2048)])
def test_indices_in_floats_are_not_rounded_beyond_the_table(dtype: str, last: int) -> None:
    """The float16 number next to 4095 is 4096."""
    graph = main_graph(f"""
    graph main(%ids: {dtype}[64], %table: f32[4096,2]) -> %y {{
      %rows = Cast(%ids) : i32[64]
      %y = Gather(%table, %rows)
    }}""")
    (ids, _) = make_inputs(graph, BOUNDARY)
    assert set(ids.tolist()) == {0, last}
    assert 1000 < make_inputs(graph, NORMAL)[0].max() <= last


@pytest.mark.parametrize(("sizes", "count"), [((1000, 24), 1), ((1009, 15), 2), ((1010, 15), 1), ((8, 8), 2)])
def test_the_number_of_boundary_sets(sizes: tuple[int, int], count: int) -> None:
    """As many as the smallest float input needs for the 16 EDGES; one if there are more than 1024 elements.

    For example, inputs of 1009 and 15 elements have 1024 together, and 15 elements need 2 sets.
    """
    inputs = [Value(f"x{size}", DType.FLOAT32, (size, None)) for size in sizes]
    graph = Graph("g", [*inputs, Value("i", DType.INT32, (5000,))])
    assert len(input_sets(graph)) == count + (2 if sum(sizes) > 1024 else 4)
    assert {s.total for s in input_sets(graph) if s.kind == "boundary"} == {count}
    assert len(input_sets(Graph("g", []))) == 3
    # the dimension 0 counts as 1, so the input has 3 elements
    assert len(input_sets(Graph("g", [Value("none", DType.FLOAT32, (0, 3))]))) == 6 + 4


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
    scale = Quantization.per_tensor(0.5, zero_point)
    assert make_input(Value("x", dtype, (2,), None, scale), ZERO).tolist() == [stored] * 2


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda t: t.short)
def test_positive_and_negative_sets_have_one_sign(dtype: DType) -> None:
    positive, negative = (
        make_input(Value("x", dtype, (50,)), InputSet(kind), use=InputUse(is_free=True))
        for kind in ("positive", "negative")
    )
    assert positive.dtype == negative.dtype == dtype.numpy
    if positive.dtype.kind == "b":
        assert positive.all()
        assert not negative.any()
        return
    assert positive.real.min() >= 0
    assert positive.real.max() > 1
    if positive.dtype.kind == "c":
        assert positive.imag.min() >= 0 >= negative.imag.max()
    if positive.dtype.kind != "u":
        assert negative.real.max() <= 0
        assert negative.real.min() < 0
    if positive.dtype.kind in "fc":
        assert np.abs(negative).max() < 0.01


def test_quantized_integers_are_on_one_side_of_the_zero_point() -> None:
    scale = Quantization.per_tensor(0.5, 3)
    value = Value("x", DType.UINT8, (400,), None, scale)
    assert (make_input(value, InputSet("positive")).min(), make_input(value, InputSet("negative")).max()) == (
        3,
        3,
    )


@pytest.mark.parametrize("use", [InputUse(), InputUse(bound=4)])
def test_integers_that_are_not_free_have_no_sign(use: InputUse) -> None:
    array = make_input(Value("x", DType.INT32, (40,)), InputSet("negative"), use=use)
    assert (array.min(), array.max()) == (0, 3)


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
        (DType.INT32, 50, 17, [0, 16]),
        (DType.INT32, -50, 17, [0, 16]),
        (DType.INT32, 2, 17, [0, 2, 16]),
        (DType.INT32, 2, 4, [0, 1, 2, 3]),
        (DType.INT32, 2, 16, list(range(16))),
    ],
)
def test_edges_of_indices_fit_the_table_and_the_dtype(
    dtype: DType, zero_point: int, bound: int, edges: list[int]
) -> None:
    scale = Quantization.per_tensor(0.5, zero_point)
    value = Value("i", dtype, (40,), None, scale)
    for which in (NORMAL, BOUNDARY, ZERO):
        array = make_input(value, which, use=InputUse(bound)).astype(int)
        assert 0 <= array.min() <= array.max() <= edges[-1]
    assert np.unique(make_input(value, BOUNDARY, use=InputUse(bound))).tolist() == edges


@pytest.mark.parametrize(("rows", "count"), [(16, 2), (17, 1)])
def test_few_indices_are_all_met(rows: int, count: int) -> None:
    """16 indices need two sets of 8 elements; of more than 16, one set has the first and the last."""
    graph = main_graph(f"graph main(%i: i32[8]) -> %y {{\n%y = Gather({[0.0] * rows}, %i) {{axis: 0}}\n}}")
    sets = [s for s in input_sets(graph) if s.kind == "boundary"]
    assert len(sets) == count
    met = {int(n) for s in sets for n in make_inputs(graph, s)[0]}
    assert met == (set(range(16)) if count == 2 else {0, 16})


def test_indices_of_one_element_are_zero() -> None:
    assert not make_input(Value("i", DType.INT32, (20,)), NORMAL, use=InputUse(1)).any()


def test_integers_without_a_scale_are_not_quantized() -> None:
    form = Quantization(np.zeros(0, np.float32), np.zeros(0, np.int64))
    assert make_input(Value("i", DType.INT32, (100,), None, form), NORMAL).max() == 3


def test_unknown_dimensions_are_one_by_default() -> None:
    value = Value("x", DType.FLOAT32, (None, 3))
    assert make_input(value, NORMAL).shape == (1, 3)
    assert make_inputs(Graph("g", [value]), NORMAL)[0].shape == (1, 3)
