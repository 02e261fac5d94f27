# SPDX-License-Identifier: Apache-2.0
"""RESHAPE to a shape that is computed from the size of the batch: LiteRT runs the model before and after."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.equivalence import litert
from circlekit.equivalence.litert import run_litert, tflite_of

MODEL = """
graph main(%x: f32[?,4,6]) -> %z {{
  %s = Shape(%x) {{out_type: i32}}
  %i = StridedSlice(%s, [{axis}], [{end}], [1]) {{shrink_axis_mask: 1}}
  %p = Pack({entries}) {{values_count: 3}}
  %z = Reshape(%x, %p) : f32[{dims}]
}}
"""

needs_litert = pytest.mark.skipif(not litert.is_available(), reason="LiteRT is not installed")


@needs_litert
@pytest.mark.parametrize(
    ("entries", "dims"), [("%i, -1, 3", "?,?,3"), ("2, %i, -1", "2,?,?"), ("4, 6, %i", "4,6,?")]
)
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_litert_gives_equal_results(entries: str, dims: str, batch: int) -> None:
    model = circlekit.parse(MODEL.format(axis=0, end=1, entries=entries, dims=dims))
    inputs = [np.arange(batch * 24, dtype=np.float32).reshape(batch, 4, 6)]
    (before,) = run_litert(tflite_of(model), inputs)
    circlekit.optimize(model, "O1", verify=True)
    assert [op.code for op in model.main] == ["RESHAPE"]
    (after,) = run_litert(tflite_of(model), inputs)
    assert after.shape == before.shape
    assert after.tolist() == before.tolist()


def test_another_axis_does_not_determine_the_rest() -> None:
    """The entry is the size of axis 1, so -1 stands for a multiple of the batch, which is unknown."""
    model = circlekit.parse(MODEL.format(axis=1, end=2, entries="%i, -1, 3", dims="?,?,3"))
    circlekit.optimize(model, ["fold_computed_shape"], verify=True)
    assert [op.code for op in model.main] == ["SHAPE", "STRIDED_SLICE", "PACK", "RESHAPE"]


@pytest.mark.parametrize(
    ("types", "folded"),
    [(("f32[?,4]", "f32[?,2]"), True), (("f32[?,4]", "f32[*]"), False), (("f32[*]", "f32[?,2]"), True)],
)
def test_an_input_as_shape_leaves_what_the_result_states(types: tuple[str, str], folded: bool) -> None:
    model = circlekit.parse(
        "graph main(%x: {}, %s: i32[2]) -> %z {{ %z = Reshape(%x, %s) : {} }}".format(*types)
    )
    circlekit.optimize(model, ["fold_computed_shape"])
    (op,) = model.main
    assert (op.inputs[1] is not None and op.inputs[1].is_const) == folded


EMPTY_ENTRIES = """
graph main(%x: f32[1], %s: i32[0]) -> %z {
  %c = const i32[0] []
  %p = Pack(%c, %s) {values_count: 2}
  %z = Reshape(%x, %p) : f32[?]
}
"""
SLICE_WITHOUT_ENTRIES = """
graph main(%x: f32[?]) -> %z {
  %s = Shape(%x) {out_type: i32}
  %b = const i32[0] []
  %i = StridedSlice(%s, %b, %b, %b) {shrink_axis_mask: 1}
  %p = Pack(%i) {values_count: 1}
  %z = Reshape(%x, %p) : f32[?]
}
"""


@pytest.mark.parametrize("text", [EMPTY_ENTRIES, SLICE_WITHOUT_ENTRIES])
def test_operands_without_elements_are_no_entries(text: str) -> None:
    model = circlekit.parse(text)
    circlekit.optimize(model, ["fold_computed_shape"])
    assert model.main.ops[-1].code == "RESHAPE"
