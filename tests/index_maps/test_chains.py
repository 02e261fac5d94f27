# SPDX-License-Identifier: Apache-2.0
"""Chains of data movements: the values from which a result can be computed; the operators that then die."""

from __future__ import annotations

import math

import numpy as np
import pytest

import circlekit
from circlekit.index_maps import chains
from circlekit.index_maps.chains import origins, present_cost, removable
from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.steps import RUN_BYTES, MovementCost
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array


def graph_of(body: str, inputs: str = "%x: f32[2,3,4]", results: str = "%y") -> Graph:
    return circlekit.parse(f"graph main({inputs}) -> {results} {{\n{body}\n}}").main


X: Array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

CHAIN = """
%a = Transpose(%x, [2, 0, 1])
%b = Reshape(%a, [4, 6])
%y = Transpose(%b, [1, 0])
"""


def test_the_nearest_origins_come_first() -> None:
    graph = graph_of(CHAIN)
    found = list(origins(graph.outputs[0]))
    assert [[v.name for v in origin.sources] for origin in found] == [["b"], ["a"], ["x"]]
    assert [[op.output.name for op in origin.ops] for origin in found] == [["y"], ["y", "b"], ["y", "b", "a"]]
    expected = X.transpose(2, 0, 1).reshape(4, 6).T
    assert np.array_equal(found[-1].map.apply(X), expected.reshape(-1))


def test_movements_may_be_looked_up() -> None:
    graph = graph_of(CHAIN)
    movements = {op: movement for op in graph.ops if (movement := movement_of(op)) is not None}
    assert list(origins(graph.outputs[0], movements.get)) == list(origins(graph.outputs[0]))
    del movements[graph.ops[1]]
    assert [origin.sources[0].name for origin in origins(graph.outputs[0], movements.get)] == ["b"]


def test_what_is_no_movement_has_no_origin() -> None:
    assert list(origins(graph_of("%y = Neg(%x)").outputs[0])) == []
    assert list(origins(graph_of(CHAIN).inputs[0])) == []
    unknown = graph_of("%y = Transpose(%x, [1, 0])", "%x: f32[?,?]")
    assert list(origins(unknown.outputs[0])) == []


def test_the_length_of_chains_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_OPS", 2)
    assert len(list(origins(graph_of(CHAIN).outputs[0]))) == 2


def test_origins_of_a_join() -> None:
    """A result that reads one operand of the join comes from that operand.

    Any other result comes from all operands of the join, and from nothing before them.
    """
    join = "%n = Neg(%x)\n%a = Transpose(%n, [0, 1, 2])\n%c = Concatenation(%a, %x) {axis: 0}\n"
    part = graph_of(f"{join}%y = Slice(%c, [3, 0, 0], [1, 3, 4])")
    last = list(origins(part.outputs[0]))[-1]
    assert [v.name for v in last.sources] == ["x"]
    assert np.array_equal(last.map.apply(X), X[1].reshape(-1))
    whole = list(origins(graph_of(f"{join}%y = Reshape(%c, [48])").outputs[0]))
    assert [[v.name for v in origin.sources] for origin in whole] == [["c"], ["a", "x"]]


@pytest.mark.parametrize(
    ("joined", "expected"),
    [
        ("%p, %q, %r", [["x"]]),
        ("%r, %q, %p", [["x"]]),
        ("%p, %r, %q", [["p", "r", "q"]]),  # not evenly spaced
        ("%p, %q, %n", [["p", "q", "n"]]),  # of another origin
    ],
)
def test_parts_that_are_joined_again_come_from_the_whole(joined: str, expected: list[list[str]]) -> None:
    split = "%p, %q, %r = Split(1, %x) {num_splits: 3}\n%n = Neg(%r)\n"
    graph = graph_of(f"{split}%y = Concatenation({joined}) {{axis: 1}}")
    (found,) = origins(graph.outputs[0])
    assert [[v.name for v in found.sources]] == expected
    if expected == [["x"]]:
        order = ["pqr".index(name) for name in joined.replace("%", "").split(", ")]
        assert np.array_equal(found.map.apply(X), X[:, order].reshape(-1))
        assert [op.code for op in found.ops] == ["CONCATENATION", "SPLIT"]


@pytest.mark.parametrize(
    ("results", "more", "dead"),
    [
        ("%y", "", ["y", "b", "a"]),
        ("%y, %b", "", ["y"]),
        ("%y, %z", "%z = Neg(%a)", ["y", "b"]),
        ("%y, %z", "%z = Neg(%y)", ["y", "b", "a"]),  # users of the result read it as before
    ],
)
def test_operators_stay_if_an_output_or_another_operator_needs_them(
    results: str, more: str, dead: list[str]
) -> None:
    graph = graph_of(CHAIN + more, results=results)
    result = graph.outputs[0]
    ops = list(origins(result))[-1].ops
    assert [op.output.name for op in removable(graph, result, ops)] == dead


def test_cost_of_operators() -> None:
    """A join costs its bytes, and its runs: 2 * 3 for each operand of a join along the last axis."""
    body = "%a = Transpose(%x, [2, 0, 1])\n%b = Reshape(%a, [4, 6])\n%y = Concatenation(%x, %x) {axis: 2}"
    transpose, reshape, join = graph_of(body, results="%y, %b").ops
    assert present_cost(transpose) == MovementCost(96, 1)
    assert present_cost(reshape) == MovementCost(0, 1)
    assert present_cost(join) == MovementCost(2 * 96 + 2 * 6 * RUN_BYTES, 1)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_a_join_copies_a_run_of_each_operand_for_each_index_before_its_axis(shape: tuple[int, ...]) -> None:
    for axis in range(-len(shape), len(shape)):
        (join,) = graph_of(f"%y = Concatenation(%x, %x) {{axis: {axis}}}", f"%x: f32{list(shape)}").ops
        runs = 2 * math.prod(shape[: axis % len(shape)])
        assert present_cost(join) == MovementCost(2 * 4 * math.prod(shape) + runs * RUN_BYTES, 1)


def test_a_join_of_different_sizes_has_a_map_along_the_outermost_axis_only() -> None:
    parts = "%a = Slice(%x, [0, 0, 0], [1, 3, 4])\n%b = Slice(%x, [0, 0, 0], [2, 1, 4])\n"
    outer = movement_of(graph_of(parts + "%y = Concatenation(%x, %a) {axis: 0}", results="%y, %b").ops[2])
    inner = movement_of(graph_of(parts + "%y = Concatenation(%x, %b) {axis: 1}", results="%y, %a").ops[2])
    assert outer is not None
    assert outer.maps[0] is not None
    assert outer.maps[0].is_identity
    assert inner is not None
    assert inner.maps == (None,)


def test_elements_that_change_are_not_moved() -> None:
    """A result of another scale stands for other numbers."""
    other = "%y = Reshape(%x, [6]) : i8[6] quant(scale: 0.5, zero_point: 0)"
    assert movement_of(graph_of(other, "%x: i8[6] quant(scale: 0.25, zero_point: 0)").ops[0]) is None
    assert movement_of(graph_of(other, "%x: i8[6] quant(scale: 0.5, zero_point: 0)").ops[0]) is not None


TWO = " {values_count: 2}"


@pytest.mark.parametrize(
    "body",
    [
        "%a = Pack(%x, %x) {values_count: 2, axis: 0} %y = Concatenation(%a, %a) {axis: 1}",
        "%a = Concatenation(%x, %x) {axis: 0} %b = Concatenation(%x, %x) {axis: 0} %y = Pack(%a, %b)" + TWO,
        "SPLIT %c = Pack(%b, %a) {values_count: 2} %y = Transpose(%c, [3,0,2,1])",
        "SPLIT %c = Concatenation(%a, %b, %a) {axis: 2} %y = Reshape(%c, [36])",
        "SPLIT %c = Concatenation(%a, %x, %b) {axis: 2} %y = Reshape(%c, [48])",
        "%a = ReverseV2(%x, [2]) %c = Concatenation(%a, %x) {axis: 0} %y = Slice(%c, [1,0,1], [2,2,2])",
        "%a = ReverseV2(%x, [2]) %c = Concatenation(%a, %x) {axis: 0} %y = Slice(%c, [2,0,1], [2,2,2])",
        "%a, %b, %d = Unpack(%x) {num: 3, axis: 1} %y = Concatenation(%d, %b, %a) {axis: 1}",
    ],
)
def test_each_origin_gives_the_result(body: str) -> None:
    """The oracle is the interpreter, which computes every source as an output of the graph."""
    body = body.replace("SPLIT", "%a, %b = Split(2, %x) {num_splits: 2}")
    result = graph_of(body).outputs[0]
    found = list(origins(result))
    assert found
    for origin in found:
        names = list(dict.fromkeys(f"%{v.name}" for v in (*origin.sources, result) if v.name != "x"))
        text = f"graph main(%x: f32[2,3,4]) -> {', '.join(names)} {{ {body} }}"
        arrays = dict(zip(names, circlekit.run(circlekit.parse(text), [X]), strict=True)) | {"%x": X}
        source = np.concatenate([np.asarray(arrays[f"%{v.name}"]).reshape(-1) for v in origin.sources])
        np.testing.assert_array_equal(origin.map.apply(source), np.asarray(arrays["%y"]).reshape(-1))
