# SPDX-License-Identifier: Apache-2.0
"""The passes of each recipe on its model, with unknown shapes or dimensions, and constants of higher rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.value import Array, Shape, Value
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import find_pass, pass_names, select_passes
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe
from circlekit.recipes.rules.rule import RuleBlock

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "passes").glob("*.ck"))

Shapes = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_results_keep_their_shapes_for_inputs_of_any_shape(path: Path) -> None:
    """An operator with a constant such as [[6.0]] raises the rank, so a pass may not simply remove it.

    If no results could be compared, a recipe that the passes rewrite is skipped, with the reason; a near miss
    passes.
    """
    cases = [(case.rules(), load_recipe(case.recipe or path)) for case in cases_of(path)]
    reasons = [reason for rules, model in cases if (reason := compare_variants(rules, model))]
    if len(reasons) == len(cases) and any(rewrite(model, rules) for rules, model in cases):
        pytest.skip("; ".join(dict.fromkeys(reasons)))


def compare_variants(rules: RuleBlock, model: Model) -> str:
    """Compare results of variants of ``model`` before and after the passes.

    Return "" if any results were compared, else the reason why not.  Fail if variants are rewritten, but take
    none of the inputs: their rewrites would never be tested.
    """
    if any(p.changes_interface or p.changes_values for p in map(find_pass, pass_names(rules.passes))):
        return "a pass changes the interface or values on purpose"
    shapes = tuple(tuple(2 if d is None else d for d in value.shape or ()) for value in model.main.inputs)
    reason, compared, is_rewritten = "shape inference refuses the model unless shapes are known", 0, False
    for before in variants(model):
        reason = "no pass rewrites the model unless all shapes are known"
        after = clone(before)
        if rewrite(after, rules):
            is_rewritten = True
            compared += compare(before, after, shapes)
    assert compared or not is_rewritten, "expected inputs that the rewritten model takes"
    return "" if compared else reason


def rewrite(model: Model, rules: RuleBlock) -> bool:
    """Run the passes of ``rules`` on ``model``; return whether they changed it."""
    context = rules.context(model.format)
    records = run_passes(model, select_passes(rules.names, format=context.format), context)
    return any(record.changes for record in records)


def variants(model: Model) -> Iterator[Model]:
    """Yield ``model`` with inputs of unknown dimensions or ranks, and constants of higher ranks."""
    for raised, unknown in product(range(3), unknown_parts(model)):
        variant = clone(model)
        for value in variant.main.inputs:
            value.shape = unknown(value.shape or ())
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


def unknown_parts(model: Model) -> Iterator[Callable[[Shape], Shape | None]]:
    """Yield functions that make a shape unknown: its rank, all dimensions, or the dimension of one axis."""
    yield lambda shape: None
    yield lambda shape: (None,) * len(shape)
    for axis in range(max((len(value.shape or ()) for value in model.main.inputs), default=0)):
        yield partial(without_dimension, axis)


def without_dimension(axis: int, shape: Shape) -> Shape:
    return tuple(None if index == axis else dim for index, dim in enumerate(shape))


def compare(before: Model, after: Model, stated: Shapes) -> int:
    """Compare the results of both models for inputs of several shapes.

    Return the number of inputs that ``before`` takes; it refuses the others.
    """
    compared = 0
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
        compared += 1
    return compared


def witnesses(shapes: Shapes) -> Iterator[Shapes]:
    """Yield ``shapes`` with other ranks, with dimensions of 1, and with other dimensions along one axis."""
    yield from (tuple(shape[cut:] for shape in shapes) for cut in range(4))
    yield tuple((1, *shape) for shape in shapes)
    yield tuple((1,) * len(shape) for shape in shapes)
    yield tuple((*shape[:-1], 1)[: len(shape)] for shape in shapes)
    yield tuple((1, *shape[1:])[: len(shape)] for shape in shapes)
    for axis, change in product(range(max(map(len, shapes), default=0)), (lambda _: 1, lambda d: d + 1)):
        yield tuple(
            tuple(change(dim) if index == axis else dim for index, dim in enumerate(shape))
            for shape in shapes
        )


def outputs(model: Model, inputs: list[Array]) -> list[Array]:
    return list(Interpreter(model).run(inputs))
