# SPDX-License-Identifier: Apache-2.0
"""The passes of each recipe on its model, with inputs of unknown shape and constants of higher rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.value import Array, Value
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import find_pass, pass_names, select_passes
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Context

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "passes").glob("*.ck"))

Shapes = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_results_keep_their_shapes_for_inputs_of_any_shape(path: Path) -> None:
    """An operator with a constant such as [[6.0]] raises the rank, so a pass may not simply remove it."""
    for case in cases_of(path):
        rules, model = case.rules(), load_recipe(case.recipe or path)
        target = rules.format or model.format
        passes = select_passes([name.replace("-", "_") for name in rules.passes], format=target)
        if any(p.changes_interface or p.changes_values for p in map(find_pass, pass_names(rules.passes))):
            continue
        for before in variants(model):
            after = clone(before)
            records = run_passes(after, passes, Context(target, settings=rules.settings))
            if any(record.changes for record in records):
                shapes = [value.shape or () for value in model.main.inputs]
                compare(before, after, tuple(tuple(2 if d is None else d for d in s) for s in shapes))


def variants(model: Model) -> Iterator[Model]:
    """Yield ``model`` with inputs of unknown dimensions or ranks, and constants of higher ranks."""
    for raised in range(3):
        for is_ranked in (False, True):
            variant = clone(model)
            for value in variant.main.inputs:
                value.shape = (None,) * len(value.shape or ()) if is_ranked else None
            for op in variant.main:
                for value in op.results:
                    value.shape = None
                for index, operand in enumerate(op.inputs if op.elementwise and raised else ()):
                    if operand is not None and operand.is_plain and operand.quantization is None:
                        array = operand.array().reshape((1,) * raised + operand.static_shape)
                        op.set_input(index, Value.constant(variant.main.unique_name(operand.name), array))
            with suppress(CirclekitError):  # the recipe needs its shapes
                infer_shapes(variant)
                yield variant


def compare(before: Model, after: Model, stated: Shapes) -> None:
    """Run both models on inputs of several shapes, as far as ``before`` takes them; compare the results."""
    rng = np.random.default_rng(1)
    for shapes in dict.fromkeys(witnesses(stated)):
        types = [value.dtype.numpy for value in before.main.inputs]
        inputs = [np.asarray(rng.normal(0, 3, s)).astype(t) for s, t in zip(shapes, types, strict=True)]
        try:
            expected = outputs(before, inputs)
        except CirclekitError:
            continue
        for old, new in zip(expected, outputs(after, inputs), strict=True):
            assert new.shape == old.shape, f"with inputs of {shapes}"
            np.testing.assert_allclose(new, old, rtol=1e-3, atol=1e-3, err_msg=f"with inputs of {shapes}")


def witnesses(shapes: Shapes) -> Iterator[Shapes]:
    """Yield ``shapes`` with other ranks and with dimensions of 1."""
    yield from (tuple(shape[cut:] for shape in shapes) for cut in range(4))
    yield tuple((1, *shape) for shape in shapes)
    yield tuple((1,) * len(shape) for shape in shapes)
    yield tuple((*shape[:-1], 1)[: len(shape)] for shape in shapes)
    yield tuple((1, *shape[1:])[: len(shape)] for shape in shapes)


def outputs(model: Model, inputs: list[Array]) -> list[Array]:
    return list(Interpreter(model).run(inputs))
