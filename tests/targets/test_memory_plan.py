# SPDX-License-Identifier: Apache-2.0
"""Planned arenas: against LiteRT's own, and the rules of each planner on small graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.litert import is_available
from circlekit.errors import UnsupportedError
from circlekit.passes.engine.legalize import legalize
from circlekit.targets import memory_plan
from circlekit.targets.memory_plan import MemoryPlan, _gap, arena_bytes, plan_memory
from circlekit.targets.planners import LITERT, PLANNERS, Planner, find_planner
from circlekit.testing import random_model
from tests.targets.litert_arena import litert_arena_bytes

NET = """
graph main(%x: f32[100]) -> %y {
  %a = Exp(%x)              : f32[100]
  %b = Abs(%a)              : f32[100]
  %c = Add(%b, %a)          : f32[100]
  %d = Mul(%c, [2.0])       : f32[100]
  %e = Reshape(%d, [50, 2]) : f32[50,2]
  %y = Neg(%e)              : f32[50,2]
}
"""


def plan_of(text: str, name: str) -> MemoryPlan:
    return plan_memory(circlekit.parse(text).main, find_planner(name))


def placed(plan: MemoryPlan) -> dict[str, tuple[int, int, int]]:
    """Return offset, first and last operator of each buffer, by the name of the buffer."""
    return {
        life.buffer.name: (offset, life.first, life.last)
        for life, offset in zip(plan.lifetimes, plan.offsets, strict=True)
    }


@pytest.mark.skipif(not is_available(), reason="LiteRT is not installed")
def test_sizes_equal_those_of_litert(model_path: Path) -> None:
    model = legalize(circlekit.load(model_path), "tflite")
    if model_path.stem == "lstm.f32":
        pytest.skip("LiteRT keeps the results of WHILE elsewhere")
    assert plan_memory(model.main, LITERT).size == litert_arena_bytes(model)


@pytest.mark.skipif(not is_available(), reason="LiteRT is not installed")
@pytest.mark.parametrize("code", sorted(code for code, count in LITERT.in_place.items() if count == 2))
@pytest.mark.parametrize("count", range(3, 8))
def test_sizes_of_small_buffers_equal_those_of_litert(code: str, count: int) -> None:
    """The result takes the buffer of an operand, but not a very small buffer."""
    dtype = "f32" if code == "DIV" else "i8"
    text = f"""
        graph main(%x: {dtype}[N] Q) -> %y {{
          %a = Relu(%x)    : {dtype}[N] Q
          %k = Relu(%x)    : {dtype}[N] Q
          %b = {code.title()}(%a, %k) : {dtype}[N] Q
          %y = Relu(%b)    : {dtype}[N] Q
        }}
        """
    quantization = "" if code == "DIV" else "quant(scale: 0.5)"
    model = circlekit.parse(text.replace("N", str(count)).replace("Q", quantization))
    assert plan_memory(model.main, LITERT).size == litert_arena_bytes(model)


def test_litert_shares_buffers_in_place_and_keeps_inputs() -> None:
    """Each buffer has 400 bytes; offsets are multiples of 64, so the buffers are 448 bytes apart."""
    plan = plan_of(NET, "litert")
    assert placed(plan) == {
        "%x": (0, 0, 6),
        "%a": (448, 0, 2),  # used twice: Add cannot write to it
        "%b = %c = %d = %e": (896, 1, 5),
        "%y": (448, 5, 6),
    }
    assert plan.size == 896 + 400
    assert plan.live_bytes == [800, 1200, 1200, 800, 800, 1200]
    assert (plan.peak_index, plan.peak_bytes) == (1, 1200)
    assert [life.buffer.name for life in plan.live_at_peak] == ["%x", "%a", "%b = %c = %d = %e"]


def test_litert_shares_no_buffer_of_an_input_a_constant_or_a_variable() -> None:
    plan = plan_of("""
graph main(%x: f32[100]) -> %y {
  %s: f32[100] variable
  %k = const f32[100] constant(1)
  %a = Reshape(%x, [50, 2])
  %b = Reshape(%s, [50, 2])
  %c = Reshape(%s, [50, 2])
  %d = Abs(%b)
  %e = Reshape(%d, [100])
  %f = Add(%k, %e)
  %g = Add(%a, %c)
  %h = Reshape(%g, [100])
  %y = Div(%f, %h)
}
""", "litert")  # fmt: skip
    assert {*placed(plan)} == {"%x", "%b", "%c", "%d = %e = %f", "%a = %g = %h", "%y"}


def test_tflm_releases_inputs_and_shares_nothing() -> None:
    plan = plan_of(NET, "tflm")
    assert {name: (first, last) for name, (_, first, last) in placed(plan).items()} == {
        "%x": (0, 0),
        "%a": (0, 2),
        "%b": (1, 2),
        "%c": (2, 3),
        "%d": (3, 4),
        "%e": (4, 5),
        "%y": (5, 6),
    }
    assert plan.size == 3 * 400  # 400 is a multiple of 16


def test_onert_does_not_hold_the_interface() -> None:
    plan = plan_of(NET, "onert")
    assert "%x" not in placed(plan)
    assert "%y" not in placed(plan)
    assert placed(plan)["%d = %e"] == (0, 3, 5)
    assert plan.size == 1200


def test_scratch_memory_of_a_convolution() -> None:
    text = """
graph main(%x: i8[1,8,8,4] quant(scale: 0.5)) -> %y {
  %w = const i8[2,3,3,4] quant(scale: 0.5) constant(1)
  %y = Conv2D(%x, %w, none) : i8[1,8,8,2] quant(scale: 0.5)
}
"""
    lifetimes = plan_of(text, "litert").lifetimes
    assert ("scratch of CONV_2D", 8 * 8 * 3 * 3 * 4) in [(life.buffer.name, life.size) for life in lifetimes]


def test_a_graph_without_operators() -> None:
    plan = plan_of("graph main(%x: f32[4]) -> %x {\n}", "litert")
    assert (plan.size, plan.live_bytes, plan.peak_index, plan.peak_bytes) == (16, [], -1, 0)


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("seed", range(4))
def test_buffers_that_are_needed_together_do_not_overlap(seed: int, name: str) -> None:
    model = random_model(seed)[0]
    planner = find_planner(name)
    for graph in model.graphs:
        plan = plan_memory(graph, planner)
        found = list(zip(plan.lifetimes, plan.offsets, strict=True))
        for index, (life, offset) in enumerate(found):
            assert offset % planner.alignment == 0
            assert offset + life.size <= plan.size
            for other, place in found[:index]:
                apart = offset + life.size <= place or place + other.size <= offset
                assert apart or life.last < other.first or other.last < life.first
        assert plan.size >= plan.peak_bytes
        assert sum(life.size for life in plan.live_at_peak) == plan.peak_bytes
    assert arena_bytes(model, planner) == sum(plan_memory(graph, planner).size for graph in model.graphs)


def test_an_unknown_target() -> None:
    with pytest.raises(UnsupportedError, match="no target is named litertt; did you mean litert"):
        find_planner("litertt")
    with pytest.raises(UnsupportedError, match="no target is named ''; there are litert, "):
        find_planner("")


def test_no_buffers_take_no_memory() -> None:
    assert memory_plan.place_buffers([], LITERT, 0).size == 0


@pytest.mark.parametrize(("planner", "offset"), [(LITERT, 192), (replace(LITERT, best_fit=False), 0)])
def test_the_smallest_gap_is_taken_if_the_planner_looks_for_it(planner: Planner, offset: int) -> None:
    """Buffers from 128 to 192 and from 256 to 320 leave gaps of 128 bytes (at 0) and 64 bytes (at 192)."""
    assert _gap(np.array([128, 256]), np.array([192, 320]), 64, planner) == offset
    assert _gap(np.array([128, 256]), np.array([192, 320]), 128, planner) == 0
    assert _gap(np.array([128, 256]), np.array([192, 320]), 129, planner) == 320


@pytest.mark.parametrize(
    ("lines", "outside"),
    [
        ("%y = Neg([1.0])", "y"),
        ("%y = Neg(%x)", ""),
        ("%y = Abs([1.0])", ""),
        ("%y = Shape(%x) {out_type: i32}", "y"),
        ("%a = Neg([1.0])  %y = Neg(%a)", "ay"),
        ("%a = Exp([1.0])  %y = Neg(%a)", "a"),  # the result of Exp does not count as constant
        ("%a = Neg([1.0])  %y = Exp(%a)", "a"),
        ("%a = Abs([1.0])  %y = Neg(%a)", ""),
    ],
)
def test_listed_operators_on_constants_are_computed_once(lines: str, outside: str) -> None:
    graph = circlekit.parse(f"graph main(%x: f32[?]) -> %y {{ {lines} }}").main
    planner = replace(LITERT, early=frozenset({"NEG", "SHAPE"}), computed_once=frozenset({"EXP"}))
    assert {value.name for value in planner.values_outside(graph.ops)} == {*outside}


@pytest.mark.skipif(not is_available(), reason="LiteRT is not installed")
@pytest.mark.parametrize(
    "lines",
    [
        "%a = Tile(%k, [2])  %b = Mul(%a, [2])  %c = Abs(%b)",
        "%a = Tile(%k, [2])  %b = Reshape(%a, [2, 500])  %c = Concatenation(%b, %b)",
        "%a = Tile(%k, [2])  %b = Cast(%a) : f32[1000]  %c = Abs(%b)",
        "%a = Cast(%k) : f32[500]  %c = Abs(%a)",
        "%a = Dequantize(%h) : f32[500]  %c = Abs(%a)",
        "%a = Tile(%h, [2])  %b = Dequantize(%a) : f32[1000]  %c = Abs(%b)",
        "%a = Dequantize(%h) : f32[500]  %b = Tile(%a, [2])  %c = Abs(%b)",
    ],
)
def test_litert_keeps_values_computed_once_outside_of_the_arena(lines: str) -> None:
    model = circlekit.parse(f"""graph main(%x: f32[1000]) -> %y, %c {{
      %k = const i32[500] constant(3)
      %h = const f16[500] constant(3)
      %y = Neg(%x)
      {lines}
    }}""")
    assert plan_memory(model.main, LITERT).size == litert_arena_bytes(model)


@pytest.mark.parametrize("name", PLANNERS)
def test_sizes_beyond_64_bits(name: str) -> None:
    shape = "[2147483600,2147483600,16]"
    plan = plan_of(f"graph main(%x: f32{shape}) -> %y {{ %a = Exp(%x) %b = Abs(%a) %y = Neg(%b) }}", name)
    assert plan.size >= plan.peak_bytes >= 2 * 4 * 16 * 2147483600**2
