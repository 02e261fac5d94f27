# SPDX-License-Identifier: Apache-2.0
"""``infer`` and the kernel of every operator agree if one dimension of an operand changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Value, format_shape
from circlekit.recipes.load import load_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "ops").glob("*.ck"))

HAVE_STATED_SHAPES = {"call", "call_once", "if", "stablehlo_composite", "var_handle", "while"}
"""Recipes in which a second graph or a variable states shapes that do not follow those of the inputs."""

HAVE_STATES = {
    "bidirectional_sequence_lstm",
    "bidirectional_sequence_rnn",
    "lstm",
    "rnn",
    "unidirectional_sequence_lstm",
    "unidirectional_sequence_rnn",
}
"""Recipes in which a state has the batch size too; ``infer`` does not compare it, only ``resize`` does."""


def with_own_inputs(model: Model) -> Model:
    """Return a copy of ``model`` in which each use of an input after the first reads an input of its own."""
    copy = clone(model)
    graph = copy.main
    for value in graph.inputs:
        for op, index in [] if value.is_variable else value.uses[1:]:
            own = Value.of_type(value, graph.unique_name(value.name))
            graph.inputs = (*graph.inputs, own)
            op.set_input(index, own)
    return copy


def variants(model: Model) -> Iterator[tuple[Model, str]]:
    """Yield a copy of ``model`` with one dimension of one input changed, and the changed input as text.

    Inferred shapes are written into the copy.  Copies that ``infer`` refuses are left out.
    """
    for number, value in enumerate(model.main.inputs):
        for axis, dim in enumerate(value.shape or ()):
            changed = clone(model)
            x = changed.main.inputs[number]
            shape = list(value.shape or ())
            shape[axis] = 1 if dim is not None and dim > 2 else 3
            x.shape = tuple(shape)
            try:
                for op in changed.main:
                    for result, inferred in zip(op.results, op.inferred(), strict=True):
                        result.shape = inferred.shape
            except CirclekitError:
                continue
            yield changed, f"%{x.name}: {format_shape(x.shape)}"


def test_variants_differ_from_the_model() -> None:
    model = circlekit.parse("graph main(%x: f32[2,4], %y: f32[?]) -> %z { %z = Add(%x, %x) %w = Neg(%y) }")
    shapes = [[v.shape for v in changed.main.inputs] for changed, _ in variants(model)]
    assert shapes == [[(3, 4), (None,)], [(2, 1), (None,)], [(2, 4), (3,)]]
    apart = with_own_inputs(model)
    assert [v.name for v in apart.main.ops[0].inputs if v is not None] == ["x", "x_1"]
    # only one of the two operands changes
    assert all((2, 4) in [v.shape for v in changed.main.inputs] for changed, _ in variants(apart))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_kernels_have_inferred_shapes(path: Path) -> None:
    """What ``infer`` accepts has a result of the inferred shape; the interpreter compares them."""
    if path.stem in HAVE_STATED_SHAPES:
        return
    generator = np.random.default_rng(0)
    for model, changed in variants(with_own_inputs(load_recipe(path))):
        arrays = [
            np.asarray(generator.integers(0, 2, [d or 1 for d in x.shape or ()]), x.dtype.numpy)
            for x in model.main.inputs
        ]
        try:
            circlekit.run(model, arrays)
        except CirclekitError as error:
            failed = " failed on operands " in str(error) and path.stem not in HAVE_STATES
            if failed or "expected shape" in str(error):
                pytest.fail(f"{changed}: expected that infer raises ShapeError, got from the kernel: {error}")
