# SPDX-License-Identifier: Apache-2.0
"""Passes, and the legalization for XNNPACK, on the models of the passes' recipes, with dimensions of 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from circlekit.equivalence.reduction_steps import sizes, with_size
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.op import OpaqueOp
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.verifier import verify
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import find_pass, pass_names, select_passes
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Context
from circlekit.targets.target import find_target
from tests.passes.kit import make_input

PASSES = Path(__file__).parents[2] / "recipes" / "passes"
NEAR_MISSES = ("forward_batchnorm-broadcast_between", "substitute_padv2_to_pad-same_padding")
"""Near misses on which a pass or a legalization once failed; all other RECIPES are positives."""

RECIPES = sorted(path for path in PASSES.glob("*.ck") if "-" not in path.stem or path.stem in NEAR_MISSES)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_models_with_dimensions_of_0_are_rewritten_without_errors(path: Path) -> None:
    """No pass may fail; the result obeys the shape rules, and has the same shapes in a run."""
    for case in cases_of(path):
        rules, model = case.rules(), load_recipe(case.recipe or path)
        target = rules.format or model.format
        passes = select_passes([name.replace("-", "_") for name in rules.passes], format=target)
        if any(p.changes_interface or p.changes_values for p in map(find_pass, pass_names(rules.passes))):
            continue
        for before in variants(model):
            after = clone(before)
            run_passes(after, passes, Context(target, settings=rules.settings))
            compare(before, after)
            compare(before, legalize(before, "tflite", targets=[find_target("litert-xnnpack")]))


def variants(model: Model) -> Iterator[Model]:
    """Yield copies of ``model`` with dimensions of 0, as far as the shape rules permit them."""
    for index, value in enumerate(model.main.inputs):
        shape = value.shape or ()
        for axis in range(len(shape)):
            variant = clone(model)
            variant.main.inputs[index].shape = (*shape[:axis], 0, *shape[axis + 1 :])
            yield from inferred(variant)
    for size in sizes(model):
        for numbers in (False, True):
            with suppress(CirclekitError):
                yield from inferred(with_size(model, size, 0, numbers))


def inferred(model: Model) -> Iterator[Model]:
    """Infer all shapes of ``model`` again, and yield it if it is valid."""
    for op in model.ops():
        for value in op.results if not isinstance(op, OpaqueOp) else ():
            value.shape = None
    with suppress(CirclekitError):
        infer_shapes(model)
        if not verify(model):
            yield model


def compare(before: Model, after: Model) -> None:
    assert verify(after) == []
    infer_shapes(clone(after))
    inputs = [make_input(value, "normal") for value in before.main.inputs]
    try:
        expected = run(before, inputs)
    except CirclekitError:  # for example, a maximum of no elements
        return
    assert [x.shape for x in run(after, inputs)] == [x.shape for x in expected]
