# SPDX-License-Identifier: Apache-2.0
"""Recorded runs: they give what observed ones give, which compute every operator by itself."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import CirclekitError, ModelError
from circlekit.interp import Interpreter
from circlekit.interp.arena import Arena
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.ops.movement.slice import Slice

F32 = np.dtype(np.float32)

BRANCHES = """
graph main(%x: f32[2,3], %c: bool[]) -> %out {
  %early = Exp(%x)
  %mid = Neg(%early)
  %late = Abs(%mid)
  %chosen = If(%c, %late, %early) {then_graph: @twice, else_graph: @both}
  %out = Add(%chosen, %x)
}

graph twice(%a: f32[2,3], %b: f32[2,3]) -> %r {
  %r = Add(%a, %a)
}

graph both(%a: f32[2,3], %b: f32[2,3]) -> %r {
  %r = Mul(%a, %b)
}
"""

LOOP = """
graph main(%x: f32[3], %n: i32[]) -> %y, %z {
  %zero = const i32[] [0]
  %i, %y, %z, %m = While(%zero, %x, %x, %n) {cond: @more, body: @step}
}

graph more(%i: i32[], %a: f32[3], %b: f32[3], %n: i32[]) -> %go {
  %go = Less(%i, %n)
}

graph step(%i: i32[], %a: f32[3], %b: f32[3], %n: i32[]) -> %j, %b, %c, %n {
  %one = const i32[] [1]
  %j = Add(%i, %one)
  %c = Add(%a, %b)
}
"""


def both_ways(model: Model, inputs: list[Array]) -> list[Array]:
    """The outputs of recorded runs, which must be those of an observed one."""
    interpreter = Interpreter(model)
    wanted = interpreter.run(inputs, on_value=lambda name, array: None)
    for _ in range(3):
        for found, right in zip(interpreter.run(inputs), wanted, strict=True):
            assert found.dtype == right.dtype
            np.testing.assert_array_equal(found, right)
    return wanted


@pytest.mark.parametrize("condition", [True, False])
def test_branches(condition: bool) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
    (out,) = both_ways(parse_model(BRANCHES), [x, np.array(condition)])
    right = 2 * np.exp(x) + x if condition else np.exp(x) * np.exp(x) + x
    np.testing.assert_allclose(out, right, rtol=1e-6)


def test_one_recording_takes_either_branch() -> None:
    interpreter = Interpreter(parse_model(BRANCHES))
    x = np.ones((2, 3), np.float32)
    first, second, third = (interpreter.run([x, np.array(c)])[0] for c in (True, False, True))
    np.testing.assert_array_equal(first, third)
    np.testing.assert_allclose(second, np.exp(x) ** 2 + x, rtol=1e-6)


@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_a_loop_whose_turns_are_an_input(turns: int) -> None:
    x = np.array([1, 2, 3], np.float32)
    y, z = both_ways(parse_model(LOOP), [x, np.array(turns, np.int32)])
    fibonacci = [1, 1, 2, 3, 5, 8, 13, 21, 34]
    np.testing.assert_array_equal(y, x * fibonacci[turns])
    np.testing.assert_array_equal(z, x * fibonacci[turns + 1])


def test_an_element_that_a_kernel_gives_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """``array[()]`` of a scalar is the number that was there when the run was recorded."""
    monkeypatch.setattr(Slice, "bind", lambda op, tape, x, begin, size: x[()])
    none = "const i32[0] []"
    text = f"graph main(%x: f32[]) -> %out {{ %b = {none}\n %y = Slice(%x, %b, %b)\n %out = Neg(%y) }}"
    interpreter = Interpreter(parse_model(text))
    for number in (2.0, 3.0):
        assert interpreter.run([np.array(number, np.float32)])[0] == -number


def test_a_loop_whose_turns_are_known_is_written_out() -> None:
    text = LOOP.replace(", %n: i32[]) -> %y, %z {", ") -> %y, %z {\n  %n = const i32[] [5]")
    text = text.replace("graph main(%x: f32[3])", "graph main(%x: f32[3])", 1)
    model = parse_model(text)
    x = np.array([1, 2, 3], np.float32)
    y, _ = both_ways(model, [x])
    np.testing.assert_array_equal(y, 8 * x)
    interpreter = Interpreter(model)
    interpreter.run([x])
    names = {op.code for op in interpreter._recordings[0].track.owners}
    assert names == {"ADD"}, "the counter is a constant in every turn"


def test_outputs_of_a_run_are_not_those_of_the_next() -> None:
    interpreter = Interpreter(parse_model(BRANCHES))
    x = np.ones((2, 3), np.float32)
    first = interpreter.run([x, np.array(True)])[0]
    kept = first.copy()
    interpreter.run([5 * x, np.array(True)])
    np.testing.assert_array_equal(first, kept)


def test_other_shapes_are_run_and_recorded_when_they_come_again() -> None:
    model = parse_model(BRANCHES.replace("f32[2,3]", "f32[?,3]"))
    interpreter = Interpreter(model)
    for rows in (2, 4, 4, 4, 2, 2, 1):
        x = np.full((rows, 3), 0.5, np.float32)
        out = interpreter.run([x, np.array(True)])[0]
        np.testing.assert_allclose(out, 2 * np.exp(x) + x, rtol=1e-6)


def test_errors_of_a_recorded_run_name_the_operator() -> None:
    text = """
    graph main(%x: f32[2], %i: i32[1]) -> %out {
      %y = Exp(%x)
      %out = Gather(%y, %i)
    }
    """
    interpreter = Interpreter(parse_model(text))
    x = np.zeros(2, np.float32)
    interpreter.run([x, np.array([1], np.int32)])
    with pytest.raises(ModelError, match="index 5 is outside") as caught:
        interpreter.run([x, np.array([5], np.int32)])
    assert "op 1 Gather" in str(caught.value)


def test_an_operator_that_always_fails_fails_in_the_run() -> None:
    text = """
    graph main(%x: f32[2]) -> %out {
      %axis = const i32[1] [3]
      %out = Sum(%x, %axis) : f32[2]
    }
    """
    model = parse_model(text)
    for _ in range(2):
        with pytest.raises(CirclekitError, match="axis 3 is outside"):
            Interpreter(model).run([np.zeros(2, np.float32)])


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3e38])
def test_inputs_beyond_the_recorded_range_flow_as_observed_ones(special: float) -> None:
    text = """
    graph main(%x: f32[4]) -> %out, %z {
      %w = const f32[4,4] [1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 0, 3, 0, 0, 1]
      %y = Add(%x, %x)
      %r = Reshape(%y, [1, 4])
      %out = FullyConnected(%r, %w, none)
      %z = Mul(%x, %x)
    }
    """
    interpreter = Interpreter(parse_model(text))
    plain = np.array([1, 2, 3, 4], np.float32)
    usual = interpreter.run([plain])
    x = np.array([1, special, 3, 4], np.float32)
    for found, right in zip(
        interpreter.run([x]), interpreter.run([x], on_value=lambda name, array: None), strict=True
    ):
        np.testing.assert_array_equal(found, right)
        assert not np.isinf(found).any(), "LiteRT ends with the greatest finite number"
    for again, first in zip(interpreter.run([plain]), usual, strict=True):
        np.testing.assert_array_equal(again, first)


def test_two_interpreters_of_one_model_do_not_meet() -> None:
    model = parse_model(BRANCHES)
    one, two = Interpreter(model), Interpreter(model)
    x = np.ones((2, 3), np.float32)
    first = one.run([x, np.array(True)])[0]
    two.run([9 * x, np.array(False)])
    np.testing.assert_array_equal(one.run([x, np.array(True)])[0], first)


# -- memory ------------------------------------------------------------------------------------


def test_blocks_are_used_again_and_never_twice_at_a_time() -> None:
    rng = np.random.default_rng(11)
    arena = Arena()
    living: list[tuple[Array, int]] = []
    for number in range(400):
        if living and rng.random() < 0.48:
            array, fill = living.pop(int(rng.integers(len(living))))
            np.testing.assert_array_equal(array, fill)
            block = arena.block_of(array[1:])
            assert block is not None
            arena.release(block)
        else:
            array = arena.empty([int(rng.integers(2, 4000))], F32)
            array[...] = number
            living.append((array, number))
    for array, fill in living:
        np.testing.assert_array_equal(array, fill)
    assert sum(c.bytes.size for c in arena.chunks) < 400 * 4000 * 4 / 4
    for array, _ in living:
        block = arena.block_of(array)
        assert block is not None
        arena.release(block)
    assert [c.free for c in arena.chunks] == [[(0, c.bytes.size)] for c in arena.chunks]
    assert len(arena.pieces) == len(arena.chunks)


def test_a_chain_needs_two_places() -> None:
    lines = "\n".join(f"  %v{i + 1} = Neg(%v{i})" for i in range(50))
    model = parse_model(f"graph main(%v0: f32[1000]) -> %v50 {{\n{lines}\n}}")
    interpreter = Interpreter(model)
    interpreter.run([np.ones(1000, np.float32)])
    starts = {c.args[1].__array_interface__["data"][0] for c in interpreter._recordings[0].track.calls}  # type: ignore[attr-defined]  # partials
    assert len(starts) == 2


GATES = """
graph main(%x: f32[1,12], %h: f32[1,12]) -> %y {
  %a, %b, %c = Split([1], %x) {num_splits: 3}
  %p, %q, %r = Split([1], %h) {num_splits: 3}
  %s = Add(%a, %p)
  %z = Logistic(%s)
  %t = Add(OTHER, %q) {act: ACT}
  %u = Logistic(%t)
  %v = Mul(%z, %u)
  %y = Sub(%v, %r)
}
"""


@pytest.mark.parametrize(
    ("other", "act", "calls"),
    [("%b", "NONE", 7), ("%c", "NONE", 12), ("%b", "RELU", 13)],
    ids=["neighbours", "not neighbours", "another function"],
)
def test_gates_are_computed_together(other: str, act: str, calls: int) -> None:
    """An addition and four calls for both gates, if they are the same function of neighbours."""
    model = parse_model(GATES.replace("OTHER", other).replace("ACT", act))
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=(1, 12)).astype(np.float32) for _ in range(2)]
    both_ways(model, inputs)
    interpreter = Interpreter(model)
    interpreter.run(inputs)
    recording = interpreter._recording(0, inputs)
    assert recording is not None
    assert len(recording.track.calls) == calls


def test_large_neighbours_are_computed_one_by_one() -> None:
    """Their results would live longer than they must."""
    model = parse_model(GATES.replace("OTHER", "%b").replace("ACT", "NONE").replace("12", "6000"))
    inputs = [np.ones((1, 6000), np.float32)] * 2
    both_ways(model, inputs)
    interpreter = Interpreter(model)
    interpreter.run(inputs)
    recording = interpreter._recording(0, inputs)
    assert recording is not None
    assert len(recording.track.calls) == 12
