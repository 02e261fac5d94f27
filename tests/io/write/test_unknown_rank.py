# SPDX-License-Identifier: Apache-2.0
"""Tensors of unknown rank and scalars: a file has [] for both; its field has_rank tells them apart."""

from __future__ import annotations

import pytest

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.text import parse_model, print_model
from tests.io.models import File
from tests.io.oracles import CIRCLE


@pytest.mark.parametrize("format", ["circle", "tflite"])
def test_unknown_rank_is_not_a_scalar(format: str) -> None:
    text = "graph main(%x: f32[?,1,3]) -> %z { %y = Squeeze(%x)\n %z = Relu(%y) }"
    again = load_bytes(to_bytes(parse_model(text), format))
    assert [v.shape for op in again.main for v in op.results] == [None, None]
    assert again.main.inputs[0].shape == (None, 1, 3)


@pytest.mark.parametrize("format", ["circle", "tflite"])
@pytest.mark.parametrize(("dims", "shape"), [("*", None), ("", ())])
def test_unknown_ranks_and_scalars_stay_apart_if_no_tensor_has_a_dimension(
    format: str, dims: str, shape: tuple[()] | None
) -> None:
    """A file has [] for both.  HasRank marks known ranks, but if all are unknown, no tensor can have it."""
    data = to_bytes(
        parse_model(f"graph main(%x: f32[{dims}]) -> %y {{ %y = Relu(%x): f32[{dims}] }}"), format
    )
    again = load_bytes(data)
    assert [v.shape for v in again.main.values()] == [shape, shape]
    assert to_bytes(again) == data


def test_unknown_rank_of_the_only_tensor_that_was_marked() -> None:
    """Only %scalar has HasRank.  When its rank becomes unknown, tensors of known rank must get HasRank."""
    f = File(CIRCLE)
    f.tensor("scalar", [], hasRank=True)
    f.op("RELU", [0], [1])
    f.op("RELU", [1], [2])
    model = load_bytes(f.pack())
    x, y, scalar = model.main.table
    assert [x.shape, y.shape, scalar.shape] == [(1, 4), (1, 4), ()]
    assert to_bytes(load_bytes(to_bytes(model))) == to_bytes(model), "the fields HasRank stay as they are"
    scalar.shape = None
    data = to_bytes(model)
    assert [v.shape for v in load_bytes(data).main.table] == [(1, 4), (1, 4), None]
    tensors = CIRCLE.read(data)["Subgraphs"][0]["Tensors"]
    assert [tensor["HasRank"] for tensor in tensors] == [True, True, False]


def test_the_field_has_rank_survives_the_text_form() -> None:
    f = File(CIRCLE)
    f.tensor("unranked", [])
    f.main.tensors[1].hasRank = True
    f.op("RELU", [0], [1])
    f.op("RELU", [1], [2])
    model = load_bytes(f.pack())
    assert [v.shape for v in model.main.table] == [(1, 4), (1, 4), None]
    other = parse_model(print_model(model))
    for read in (model, other):
        tensors = CIRCLE.read(to_bytes(read))["Subgraphs"][0]["Tensors"]
        assert [tensor["HasRank"] for tensor in tensors] == [False, True, False]


@pytest.mark.parametrize(("has_rank", "shape"), [(False, None), (True, ())])
def test_tensorflow_marks_no_tensor_if_all_ranks_are_unknown(has_rank: bool, shape: tuple[()] | None) -> None:
    """So it writes ``lambda x: tf.nn.relu(x)`` for a ``tf.TensorSpec(None)``, with metadata of its own."""
    f = File(CIRCLE)
    f.main.tensors = []
    for name in ("x", "y"):
        f.tensor(name, [], hasRank=has_rank)
    f.main.inputs, f.main.outputs = [0], [1]
    f.op("RELU", [0], [1])
    f.model.metadata = [f.make("Metadata", name="CONVERSION_METADATA", buffer=f.buffer(b"2.21.0"))]
    model = load_bytes(f.pack())
    for read in (model, parse_model(print_model(model)), load_bytes(to_bytes(model, "tflite"))):
        assert [v.shape for v in load_bytes(to_bytes(read)).main.values()] == [shape, shape]
