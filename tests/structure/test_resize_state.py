# SPDX-License-Identifier: Apache-2.0
"""State of resized models: what variables hold has the new shapes, and runs give LiteRT's values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.errors import ShapeError
from circlekit.ir.shape_inference import check_shapes

RECURRENT = (
    "svdf", "rnn", "unidirectional_sequence_rnn", "bidirectional_sequence_rnn",
    "lstm", "unidirectional_sequence_lstm", "bidirectional_sequence_lstm",
)  # fmt: skip


@pytest.mark.parametrize("name", RECURRENT)
def test_the_states_of_recurrent_layers_follow_the_batch(name: str) -> None:
    """Each sequence of the batch gives what it gives alone, in a first and in a second run."""
    model = circlekit.load(Path(__file__).parents[2] / f"recipes/ops/{name}.ck")
    (x,) = model.main.inputs
    resized = circlekit.resize(model, [[3, *x.static_shape[1:]]])
    rng = np.random.default_rng(3)
    runs = [rng.normal(size=(3, *x.static_shape[1:])).astype(np.float32) for _ in range(2)]
    whole = circlekit.Interpreter(resized)
    batch = [whole.run([array])[0] for array in runs]
    for row in range(3):
        alone = circlekit.Interpreter(model)
        for array, result in zip(runs, batch, strict=True):
            expected = alone.run([array[row : row + 1]])[0]
            np.testing.assert_allclose(result[row : row + 1], expected, rtol=1e-5, atol=1e-6)


def test_states_need_a_known_batch_of_whole_rows() -> None:
    text = """
        graph main(%x: f32[{0},2]) -> %y {{
          %hidden: f32[1,{1}] variable
          %y = Rnn(%x, [[1.0,2.0],[3.0,4.0]], [[1.0,2.0],[3.0,4.0]], [0.0,0.0], %hidden)
        }}"""
    one = circlekit.parse(text.format(1, 2))
    with pytest.raises(ShapeError, match="expected a known batch for the variable %hidden"):
        circlekit.resize(one, [[-1, 2]])
    flat = circlekit.parse(text.format(2, 4))  # the state of both sequences in one row
    assert {v.shape for v in circlekit.resize(flat, [[4, 2]]).main.values() if v.is_variable} == {(2, 4)}
    with pytest.raises(ShapeError, match=r"variable %hidden of shape \[1,4\] cannot hold a batch of 3"):
        circlekit.resize(flat, [[3, 2]])
    unknown = circlekit.parse(text.format(1, 2).replace("[1,2] variable", "[?,2] variable"))
    assert {v.shape for v in circlekit.resize(unknown, [[4, 2]]).main.values() if v.is_variable} == {
        (None, 2)
    }


def test_a_state_that_is_read_before_its_layer_keeps_its_shape_or_is_refused() -> None:
    text = """
        graph main(%x: f32[1,2]) -> %y, %z {{
          %hidden: f32[1,2] variable
          {0}
          %y = Rnn(%x, [[1.0,2.0],[3.0,4.0]], [[1.0,2.0],[3.0,4.0]], [0.0,0.0], %hidden)
          {1}
        }}"""
    read = "%z = Neg(%hidden)"
    assert circlekit.resize(circlekit.parse(text.format("", read)), [[3, 2]]).main.outputs[1].shape == (3, 2)
    with pytest.raises(ShapeError, match=r"variable %hidden would get shape .*<Neg %z: .*> reads it before"):
        circlekit.resize(circlekit.parse(text.format(read, "")), [[3, 2]])


def test_a_state_that_is_an_input_has_to_be_resized_with_the_batch() -> None:
    model = circlekit.parse("""
        graph main(%x: f32[1,2], %h: f32[1,2]) -> %y {
          %y = Rnn(%x, [[1.0,2.0],[3.0,4.0]], [[1.0,2.0],[3.0,4.0]], [0.0,0.0], %h)
        }""")
    assert circlekit.resize(model, {"x": [3, 2], "h": [3, 2]}).main.outputs[0].shape == (3, 2)
    with pytest.raises(ShapeError, match="%h: expected a state for the new batch, got the old shape"):
        circlekit.resize(model, {"x": [3, 2]})


COUNTER = """
graph main(%x: f32[1,4]) -> %y {
  %h = VarHandle() {shared_name: "v"}  : resource[1]
  CallOnce() {init: @init}
  %v = ReadVariable(%h)                : f32[1,4]
  %y = Add(%v, %x)                     : f32[1,4]
  AssignVariable(%h, %y)
}
graph init() {
  %h = VarHandle() {shared_name: "v"}  : resource[1]
  AssignVariable(%h, [[1.0,2.0,3.0,4.0]])
}
"""
"""A running total, read before it is assigned.  In the first run, it has the batch of the initial value."""


def test_a_variable_is_read_in_the_shape_of_what_is_assigned() -> None:
    resized = circlekit.resize(circlekit.parse(COUNTER), [[2, 4]])
    check_shapes(resized)
    assert [v.shape for v in resized.main.values() if v.name in "vy"] == [(None, 4), (2, 4)]
    runner = circlekit.Interpreter(resized)
    total = np.array([[1, 2, 3, 4]], np.float32)
    for x in np.random.default_rng(0).integers(-9, 9, (3, 2, 4)).astype(np.float32):
        total = total + x
        np.testing.assert_array_equal(runner.run([x])[0], total)


def test_a_variable_whose_former_shape_does_not_fit_gets_the_new_one() -> None:
    """With three rows in the variable, an addition of two or four rows would not broadcast."""
    model = circlekit.parse("""
        graph main(%x: f32[3,4]) -> %y, %size {
          %h = VarHandle() {shared_name: "v"}  : resource[1]
          %v = ReadVariable(%h)                : f32[3,4]
          %y = Add(%v, %x)                     : f32[3,4]
          %size = Shape(%v) {out_type: i32}    : i32[2]
          AssignVariable(%h, %y)
        }""")
    for shape, expected in (([2, 4], (2, 4)), ([4], (3, 4))):  # [4] has no rows: those of the variable stay
        resized = circlekit.resize(model, [shape])
        assert [v.shape for v in resized.main.values() if v.name in "vy"] == [expected] * 2


@pytest.mark.parametrize(
    ("assigned", "read", "expected"),
    [
        ("AssignVariable(%h, %x)", "%h", (2, 4)),
        ("AssignVariable(%h, [[0.0,0.0,0.0,0.0]])", "%h", (1, 4)),  # no value of another shape
        ("AssignVariable(%h, %x)  AssignVariable(%h, [0.0])", "%h", None),
        ("AssignVariable(%h, %x)", "%other", (1, 4)),
        ("AssignVariable(%h, %x)", "%same", (2, 4)),  # an absent container is an empty one
        ("AssignVariable(%h, %x)", "%any", (2, 4)),  # the handle may be that of any variable
    ],
)
def test_the_shape_of_a_variable_is_known_as_far_as_its_values_agree(
    assigned: str, read: str, expected: tuple[int, ...] | None
) -> None:
    model = circlekit.parse(f"""
        graph main(%x: f32[1,4], %any: resource[1]) -> %v {{
          %h = VarHandle() {{shared_name: "v"}}      : resource[1]
          %other = VarHandle() {{shared_name: "w"}}  : resource[1]
          %same = VarHandle() {{container: "", shared_name: "v"}} : resource[1]
          {assigned}
          %v = ReadVariable({read})                  : f32[1,4]
        }}""")
    assert circlekit.resize(model, {"x": [2, 4]}).main.outputs[0].shape == expected
