# SPDX-License-Identifier: Apache-2.0
"""Draw operators whose shapes, parameters and attributes fit each other, or take them from recipes."""

from __future__ import annotations

import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import CirclekitError
from circlekit.interp import run
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array, Value
from circlekit.recipes.load import load_recipe
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_constants import is_parameter
from circlekit.testing.random_operators import random_operator
from tools.samples.types import QUANTIZABLE, is_index, per_tensor

RANKS = (4, 3, 2, 4, 1, 5, 4, 6, 3, 4, 8, 7, 0, 2, 1)
"""Ranks of the data of consecutive samples."""

RECIPE_EVERY, EMPTY_EVERY = 7, 23
"""One sample in RECIPE_EVERY comes from a recipe; one in EMPTY_EVERY may have dimensions of 0.  Neither
number has a common factor with the number of ``RANKS``, so samples of both kinds have every rank."""

ATTEMPTS = 2 * len(RANKS)
"""The largest number of models drawn in search of one that fits: first of the wanted rank, then of others."""

LARGEST_DIMENSION, MAX_ELEMENTS = 5, 600

FROM_RECIPES = frozenset({
    *("BITCAST", "BUCKETIZE", "CONV_3D", "CONV_3D_TRANSPOSE", "EMBEDDING_LOOKUP_SPARSE", "REVERSE_SEQUENCE"),
    *("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "SPARSE_TO_DENSE"),
    *("HASHTABLE_LOOKUP", "RANGE", "RFFT2D"),
})  # fmt: skip
"""Operators whose declarations do not say which shapes and elements fit."""

NOT_SAMPLED = frozenset({"DENSIFY", "SKIP_GRAM"})
"""Operators on sparse data and strings."""

RECIPES = Path(__file__).parents[2] / "recipes" / "ops"


@cache
def sampled_codes(format: str) -> list[str]:
    """Return the codes of the operators of ``format`` that have samples; stateful ones have none."""
    declared = {code for code, cls in REGISTRY.items() if cls.operands} - FROM_RECIPES
    known = {*declared, *_recipe_bases()} & REGISTRY.keys() - NOT_SAMPLED
    return [code for code in sorted(known) if REGISTRY[code].pure and format in REGISTRY[code].formats]


def base_of(code: str, number: int, seed: int) -> tuple[Op, dict[Value, Array]] | None:
    """Return (operator, {operand: elements}), or None if no operator fits; ``number``: the sample's.

    The dict has the index operands of a drawn operator; for one of a recipe, all integer operands.
    """
    from_recipe = _recipe_bases().get(code)
    if from_recipe is not None and (number % RECIPE_EVERY == RECIPE_EVERY - 1 or code in FROM_RECIPES):
        return from_recipe
    return _drawn(code, number, seed)


@cache
def _drawn(code: str, number: int, seed: int) -> tuple[Op, dict[Value, Array]] | None:
    """Return a random operator, if possible on data of the rank of sample ``number``; None if none fits."""
    cls = REGISTRY[code]
    data = [spec for spec in cls.operands if not is_parameter(spec)] or list(cls.operands)
    usual = f32 if f32 in (data[0].dtypes or (f32,)) else data[0].dtypes[0]
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, zlib.crc32(code.encode()), number, attempt])
        rank = RANKS[(number + attempt // 2) % len(RANKS)]
        shape = _shape(rng, rank, is_empty=number % EMPTY_EVERY == EMPTY_EVERY - 1)
        broadcast = tuple(1 if rng.random() < 0.4 else d for d in shape)
        form = per_tensor(0.5, 0) if usual in QUANTIZABLE else None
        values: list[Value] = []
        for size in (shape, shape, broadcast):
            dtypes = (usual if not s.dtypes or usual in s.dtypes else s.dtypes[0] for s in data)
            values += [Value(f"x{len(values)}", dtype, size, None, form) for dtype in dtypes]
        arrays = [rng.integers(0, 3, v.static_shape).astype(v.dtype.numpy or np.int8) for v in values]
        builder = ModelBuilder(Graph("main", values), arrays, rng)
        builder.allow_extremes = True
        with suppress(Rejected), np.errstate(all="ignore"):
            random_operator(builder, cls)
            builder.remove_rejected()
            op = builder.graph.ops[-1]
            if any(v is not None and len(v.static_shape) > max(RANKS) for v in op.inputs):
                continue
            return op, {v: builder.array(v) for v in _indices(op)}
    return None


def _shape(rng: np.random.Generator, rank: int, is_empty: bool) -> tuple[int, ...]:
    """Return a shape of small dimensions; if ``is_empty``, the first or the last one may be 0."""
    dims = [int(d) for d in rng.integers(1, LARGEST_DIMENSION + 1, rank)]
    if rank > 1 and rng.random() < 0.1:
        dims[-1] = int(rng.integers(30, 90))  # sums of many products
    while np.prod(dims) > MAX_ELEMENTS:
        dims[int(np.argmax(dims[:-1]))] = 1
    if rank and is_empty and rng.random() < 0.5:
        dims[0 if rng.integers(2) == 0 else -1] = 0
    return tuple(dims)


@cache
def _recipe_bases() -> dict[str, tuple[Op, dict[Value, Array]]]:
    """Return the first operator of each code in the recipes, with the elements of its integer operands."""
    found: dict[str, tuple[Op, dict[Value, Array]]] = {}
    for path in sorted(RECIPES.glob("*.ck")):
        model = load_recipe(path)
        graph = model.graphs[0]
        inputs = make_inputs(graph, InputSet("normal"))
        for op in [op for op in graph if op.code not in found]:
            # the operands become the outputs, so that a run returns them
            graph.outputs = tuple(v for v in op.inputs if v is not None and not v.is_variable)
            with suppress(CirclekitError):
                arrays = dict(zip(graph.outputs, run(model, inputs), strict=True))
                kept = _indices(op)
                found[op.code] = op, {v: a for v, a in arrays.items() if v in kept or a.dtype.kind == "i"}
    return found


def _indices(op: Op) -> list[Value]:
    """Return the operands that hold axes, sizes or indices."""
    declared = ((op.operand_spec(i), v) for i, v in enumerate(op.inputs) if v is not None)
    return [value for spec, value in declared if spec is not None and is_index(spec)]
