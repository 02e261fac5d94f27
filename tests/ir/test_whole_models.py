# SPDX-License-Identifier: Apache-2.0
"""All recipes, and real models: valid, printed and parsed, copied, and their shapes inferred."""

from __future__ import annotations

from pathlib import Path

import tflite

from circlekit.errors import CirclekitError
from circlekit.io.read.load import load
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.text import parse_model
from circlekit.ir.verifier import check
from tests.ir.recipes import RECIPES, reparsed, same_clone

DATA_DEPENDENT = {"RANGE", "UNIQUE", "WHERE", "SKIP_GRAM", "RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"}
"""Operators whose results have a shape that depends on the data."""


def test_recipes() -> None:
    """One test for all: each recipe takes milliseconds."""
    assert len(RECIPES) > 300
    faults = [f"{path.name}: {fault}" for path in RECIPES if (fault := fault_of(path)) is not None]
    assert not faults, "\n".join(faults)


def fault_of(path: Path) -> str | None:
    """Return, as text, the first check in which the model of a recipe fails; None if it passes all."""
    try:
        model = parse_model(path.read_text(), path.name)
        check(model)
        reparsed(model)
        same_clone(model)
        everything_is_inferred(model)
    except (AssertionError, CirclekitError) as error:
        return str(error)
    return None


def everything_is_inferred(model: Model) -> None:
    """With static inputs, only shapes that depend on data stay unknown."""
    infer_shapes(model)
    if all(v.is_static for graph in model.graphs for v in graph.inputs):
        unknown = [v for graph in model.graphs for v in graph.values() if not v.is_static]
        assert {v.producer.code if v.producer is not None else "" for v in unknown} <= DATA_DEPENDENT


def test_real_models(model_path: Path) -> None:
    model = load(model_path)
    check(model)
    reparsed(model)
    same_clone(model)


def test_real_models_agree_with_their_shapes(model_path: Path) -> None:
    """The converters' shapes are the oracle: if those of results are removed, inference finds them again."""
    model = load(model_path)
    assert infer_shapes(model) == 0
    blank = clone(model)
    for op in blank.ops():
        for value in op.results:
            value.shape = None
    infer_shapes(blank)
    if (
        "lstm" in model_path.name
    ):  # the inferred shape of a loop keeps only dimensions that no iteration changes
        assert "[10,1,16] and f32[?,1,16]" in (difference(model, blank) or "")
    else:
        assert difference(model, blank) is None


def test_a_new_model_has_the_version_that_tflite_reads() -> None:
    """The version is LiteRT's TFLITE_SCHEMA_VERSION, 3."""
    text = "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"
    model = Model(parse_model(text).graphs, format="tflite")
    assert tflite.Model.GetRootAsModel(to_bytes(model), 0).Version() == 3
