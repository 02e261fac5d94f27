# SPDX-License-Identifier: Apache-2.0
"""Shape rules with unknown dimensions, ranks and parameters, for the operator of every recipe.

The oracle is the shape rule itself on known operands; other tests compare these shapes with LiteRT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.text import parse_model
from circlekit.ir.value import Shape, Value

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "ops").glob("*.ck"))

recipes = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


def model_of(path: Path) -> Model:
    return parse_model(path.read_text(encoding="utf-8"), str(path))


def operands(path: Path) -> Iterator[tuple[Op, Value]]:
    """Yield the operators of a recipe with each of their operands; the caller restores shape and data."""
    for op in model_of(path).ops():
        for _, value in op.operand_items():
            yield op, value


def result_shapes(op: Op) -> list[Shape | None] | None:
    """Return the shapes of the results by the rule; None if it rejects the operands."""
    try:
        return [kind.shape for kind in op.inferred()]
    except CirclekitError:
        return None


def accepted(op: Op, value: Value, shapes: Iterable[Shape]) -> list[list[Shape | None]]:
    """Return the shapes of the results for each of ``shapes`` that the rule accepts for ``value``."""
    old, found = value.shape, []
    for value.shape in shapes:
        results = result_shapes(op)
        if results is not None:
            found.append(results)
    value.shape = old
    return found


def common(shapes: Sequence[Shape | None]) -> Shape | None:
    """Return what is the same in all ``shapes``: None stands for the rest."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    return tuple(d[0] if len({*d}) == 1 else None for d in zip(*known, strict=True))


def is_vaguer(shape: Shape | None, exact: Shape | None) -> bool:
    """Return whether all that is known of ``shape`` is true of ``exact``."""
    if shape is None or exact is None:
        return shape is None
    return len(shape) == len(exact) and all(a in (None, b) for a, b in zip(shape, exact, strict=True))


@recipes
def test_an_unknown_dimension_leaves_what_all_its_values_have_in_common(path: Path) -> None:
    for op, value in operands(path):
        shape = value.shape
        if value.is_const or shape is None:
            continue
        for axis, dim in enumerate(shape):
            sizes = dict.fromkeys(
                (dim, 0, 1, 2, 3, 4, 6, 8, 12, *((dim + 1, 2 * dim, 3 * dim) if dim else ()))
            )
            wanted = accepted(op, value, ((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes))
            (found,) = accepted(op, value, [(*shape[:axis], None, *shape[axis + 1 :])])
            # if only one size is accepted, another operand determines it, but not every rule looks there
            if len(wanted) > 1:
                assert found == [common(shapes) for shapes in zip(*wanted, strict=True)], (op, value, axis)
            assert all(map(is_vaguer, found, wanted[0])), (op, value, axis)


@recipes
def test_an_unknown_rank_contradicts_no_rank(path: Path) -> None:
    for op, value in operands(path):
        shape = value.shape
        if value.is_const or shape is None:
            continue
        exact = accepted(op, value, [shape[axis:] for axis in range(len(shape) + 1)])
        value.shape = None
        found = result_shapes(op)
        assert found is not None, (op, value)
        assert all(all(map(is_vaguer, found, results)) for results in exact), (op, value)
        value.shape = shape


@recipes
def test_unknown_parameters_contradict_no_parameters(path: Path) -> None:
    """Parameters are operands such as axes and paddings.  Their elements, length or rank become unknown."""
    for op, value in operands(path):
        data, shape = value.data, value.shape
        if data is None or shape is None or not value.is_plain or not value.dtype.is_integer:
            continue
        exact = [result_shapes(op)]
        for index, number in np.ndindex(data.size, 8):
            changed = data.copy()
            changed.reshape(-1)[index] = number - 2
            value.data = changed
            exact.append(result_shapes(op))
        value.data = None
        for value.shape in (shape, (None,) * len(shape), None):
            found = result_shapes(op)
            assert found is not None, (op, value)
            known = [results for results in exact if results is not None]
            assert all(all(map(is_vaguer, found, results)) for results in known), (op, value)
        value.data, value.shape = data, shape
