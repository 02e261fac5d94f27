# SPDX-License-Identifier: Apache-2.0
"""Limits of a run: memory of results before they are computed, calls of graphs, depth of calls."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from circlekit.errors import LimitError, ShapeError
from circlekit.interp.evaluate import evaluate
from circlekit.interp.graph_runner import GraphRunner
from circlekit.interp.interpreter import Interpreter, run
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.ops.program.state import State

LIMIT = "64M"
BIG = 1 << 30


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


CASES: list[tuple[str, list[Array]]] = [
    ("(%d: i32[2]) -> %y {\n %y = Fill(%d, 1.0) : f32[?,?]", [ints(100000, 100000)]),
    ("(%d: i32[2]) -> %y {\n %y = Fill(%d, 1.0) : f32[2,2]", [ints(100000, 100000)]),
    ("(%b: i32[]) -> %y {\n %y = Range(0, %b, 1) : i32[?]", [np.array(2 * BIG - 1, np.int32)]),
    ("(%a: f32[1,2], %m: i32[2]) -> %y {\n %y = Tile(%a, %m) : f32[?,?]", [ones(1, 2), ints(50000, 50000)]),
    (
        "(%a: f32[99999,1], %b: f32[1,99999]) -> %y {\n %y = Add(%a, %b) : f32[?,?]",
        [ones(99999, 1), ones(1, 99999)],
    ),
    (
        "(%a: f32[99999,1], %b: f32[1,99999]) -> %y {\n %y = Add(%a, %b) : f32[1,1]",
        [ones(99999, 1), ones(1, 99999)],
    ),
    (
        "(%i: i32[1], %d: i32[]) -> %y {\n %y = OneHot(%i, %d, 1.0, 0.0) : f32[1,?]",
        [ints(1), np.array(BIG, np.int32)],
    ),
    (
        "(%x: f32[1,3,3,1], %p: i32[4,2]) -> %y {\n %y = Pad(%x, %p) : f32[?,?,?,?]",
        [ones(1, 3, 3, 1), ints(0, 0, 0, 50000, 0, 50000, 0, 0).reshape(4, 2)],
    ),
    (
        "(%x: f32[1,3,3,1], %s: i32[2]) -> %y {\n %y = ResizeBilinear(%x, %s) : f32[1,?,?,1]",
        [ones(1, 3, 3, 1), ints(50000, 50000)],
    ),
    (
        "(%x: f32[1,3,3,1], %s: i32[4]) -> %y {\n"
        " %y = TransposeConv(%s, [[[[1.0]]]], %x) {stride_h: 1, stride_w: 1} : f32[?,?,?,?]",
        [ones(1, 3, 3, 1), ints(1, 50000, 50000, 1)],
    ),
    ("(%x: f32[3], %s: i32[2]) -> %y {\n %y = BroadcastTo(%x, %s) : f32[?,?]", [ones(3), ints(BIG, 3)]),
    (
        "(%u: f32[1], %s: i32[1]) -> %y {\n %y = ScatterNd([[1]], %u, %s) : f32[?]",
        [ones(1), ints(BIG)],
    ),
    (
        "(%u: f32[1], %s: i32[1]) -> %y {\n %y = SparseToDense([[1]], %s, %u, 0.0) : f32[?]",
        [ones(1), ints(BIG)],
    ),
    ("(%x: f32[2], %s: i32[2]) -> %y {\n %y = SegmentSum(%x, %s) : f32[?]", [ones(2), ints(0, BIG)]),
    (
        "(%x: f32[2], %n: i32[]) -> %y {\n %y = UnsortedSegmentSum(%x, [0, 1], %n) : f32[?]",
        [ones(2), np.array(BIG, np.int32)],
    ),
]


@pytest.mark.parametrize(("text", "inputs"), CASES, ids=[c[0].split(" = ")[1].split("(")[0] for c in CASES])
def test_a_huge_result_is_refused_before_it_is_allocated(text: str, inputs: list[Array]) -> None:
    model = parse_model(f"graph main{text}\n}}\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with limited(LIMIT), pytest.raises(LimitError) as caught:
        run(model, inputs)
    message = str(caught.value)
    assert " would take " in message
    assert "the limit is 64.0 MiB (67108864 bytes)" in message
    assert "at text > main > op 0" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_the_message_names_the_tensor_and_its_size() -> None:
    model = parse_model("graph main(%d: i32[2]) -> %y {\n %y = Fill(%d, 1.0) : f32[?,?]\n}")
    with limited("1M"), pytest.raises(LimitError, match=r"%y: f32\[1024,257\] of FILL would take 1.0 MiB"):
        run(model, [ints(1024, 257)])
    with limited("1M"):  # 1024 * 256 * 4 bytes
        assert run(model, [ints(1024, 256)])[0].nbytes == 1 << 20


CHAIN = """
graph main(%x: f32[65536]) -> %z {
  %a = Neg(%x) : f32[65536]
  %b = Neg(%a) : f32[65536]
  %c = Neg(%b) : f32[65536]
  %z = OTHER   : f32[65536]
}
"""


def test_all_values_that_live_at_once_count_towards_the_limit() -> None:
    """In the chain two values of 256 KiB live at once; in the fan, where AddN reads %a, %b and %c, four."""
    chain = parse_model(CHAIN.replace("OTHER", "Neg(%c)"))
    fan = parse_model(CHAIN.replace("OTHER", "AddN(%a, %b, %c)"))
    with limited("600K"):
        run(chain, [ones(65536)])
        with pytest.raises(
            LimitError, match=r"%c: f32\[65536\] of NEG \(in addition to 524288 bytes held by this run\)"
        ):
            run(fan, [ones(65536)])
    with limited("1024K"):
        run(fan, [ones(65536)])


LOOP = """
graph main(%x: i32[1]) -> %y {
  %y = While(%x) {cond: @more, body: @step} : i32[1]
}
graph more(%a: i32[1]) -> %o {
  %o = Less(%a, [100]) : bool[1]
}
graph step(%a: i32[1]) -> %o {
  %o = Add(%a, [STEP]) : i32[1]
}
"""


def test_a_loop_without_end_is_stopped() -> None:
    """The finite loop runs its condition 101 times and its body 100 times."""
    finite, endless = (parse_model(LOOP.replace("STEP", step)) for step in "10")
    with limited(calls=201):
        assert run(finite, [ints(0)])[0] == 100
    with (
        limited(calls=200),
        pytest.raises(LimitError, match="graphs 201 times in one run, the limit is 200"),
    ):
        run(finite, [ints(0)])
    with limited(calls=500), pytest.raises(LimitError, match="graphs 501 times") as caught:
        run(endless, [ints(0)])
    assert "> main > op 0 While" in str(caught.value)


def test_calls_are_counted_before_the_first_run() -> None:
    """A new GraphRunner counts calls without ``run``: random models evaluate single operators in this way."""
    runner, graph = GraphRunner(State()), parse_model(LOOP.replace("STEP", "1")).graphs[2]
    with limited(calls=1):
        assert runner(graph, [ints(3)])[0] == 4
        with pytest.raises(LimitError, match="graphs 2 times in one run, the limit is 1"):
            runner(graph, [ints(3)])


def test_a_loop_that_computes_nothing_is_stopped() -> None:
    """Its operand is a constant, and its body returns a view of that constant."""
    text = """
    graph main(%x: i32[1]) -> %z {
      %y = While([7]) {cond: @more, body: @same} : i32[1]
      %z = Add(%x, %y) : i32[1]
    }
    graph more(%a: i32[1]) -> %o {
      %o = Less(%a, [100]) : bool[1]
    }
    graph same(%b: i32[1]) -> %p {
      %p = Reshape(%b, [1]) : i32[1]
    }
    """
    with limited(calls=999), pytest.raises(LimitError, match="graphs 1000 times"):
        run(parse_model(text), [ints(0)])


def test_each_run_counts_anew() -> None:
    model = parse_model(LOOP.replace("STEP", "1"))
    with limited(calls=201):
        for _ in range(3):
            run(model, [ints(0)])
    interpreter = Interpreter(model)
    with limited(calls=201):
        for _ in range(3):
            interpreter.run([ints(0)])


def test_a_graph_that_runs_itself_ends() -> None:
    model = parse_model("graph main(%x: i32[1]) -> %y {\n  %y = Call(%x) {subgraph: @main} : i32[1]\n}")
    with pytest.raises(LimitError, match="graph main is called at depth 64, which is the limit"):
        run(model, [ints(1)])


def tower(height: int, width: int) -> str:
    """Return ``height`` graphs, each of which runs the next one ``width`` times, and a main graph."""
    text = ["graph main(%x: i32[1]) -> %y {\n  %y = Call(%x) {subgraph: @g0} : i32[1]\n}"]
    for level in range(height):
        lines = [f"graph g{level}(%x0: i32[1]) -> %x{width} {{"]
        kind = f"Call(%x{{}}) {{{{subgraph: @g{level + 1}}}}}" if level + 1 < height else "Neg(%x{})"
        lines += [f"  %x{i + 1} = {kind.format(i)} : i32[1]" for i in range(width)]
        text += [*lines, "}"]
    return "\n".join(text)


def test_depth_and_number_of_calls_are_limited() -> None:
    assert run(parse_model(tower(60, 1)), [ints(5)])[0] == -5
    with pytest.raises(LimitError, match="at depth 64"):
        run(parse_model(tower(300, 1)), [ints(5)])
    with limited(calls=3000), pytest.raises(LimitError, match="graphs 3001 times"):
        run(parse_model(tower(60, 2)), [ints(5)])


def test_the_memory_limit_holds_for_a_single_operator() -> None:
    op = parse_model("graph main(%d: i32[2]) -> %y {\n %y = Fill(%d, 1.0) : f32[?,?]\n}").main.ops[0]
    with limited("1M"), pytest.raises(LimitError, match="would take"):
        evaluate(op, [ints(9999, 9999), ones()])


def test_huge_windows_strides_parts_and_ranks_are_refused() -> None:
    text = "graph main(%x: f32[1,4,4,1]) -> %y {{\n  %y = {}\n}}"
    for call in (
        "MaxPool2D(%x) {padding: SAME, filter_height: 2000000, filter_width: 1, stride_h: 1, stride_w: 1}",
        "MaxPool2D(%x) {padding: SAME, filter_height: 1, filter_width: 1, stride_h: 2000000000, stride_w: 1}",
        "Unpack(%x) {num: 2000000000, axis: 1}",
        "Split(1, %x) {num_splits: 2000000000}",
        f"BroadcastTo(%x, [{', '.join(['1'] * 29)}, 1, 4, 4, 1])",
    ):
        with pytest.raises(ShapeError):
            parse_model(text.format(call))
