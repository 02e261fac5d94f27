# SPDX-License-Identifier: Apache-2.0
"""Operators that are like no others: boxes, spectra, windows, sparse data, hashes, texts."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import DType, f32, i32, i64
from circlekit.ir.enums import LSHProjectionType, ReduceWindowFunction
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_storage import encode_strings
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.families.windows import calm
from tools.kit.kinds import BOOL, F32, I8, I16, I32, I64, U8, Case, Kind


@family("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", kinds=(F32,))
def suppression(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    count = draw.integer(1, 30)

    def boxes() -> Array:
        corner = draw.rng.uniform(0, 3, (count, 2))
        return np.concatenate([corner, corner + draw.rng.uniform(0.2, 1.5, (count, 2))], 1).astype(np.float32)

    def scores() -> Array:
        return draw.rng.permutation(np.linspace(0.01, 0.99, count)).astype(np.float32)

    operands = [
        draw.tensor(F32, (count, 4), const=0, make=boxes),
        draw.tensor(F32, (count,), const=0, make=scores),
    ]
    operands.append(draw.parameter(draw.integer(0, 20)))
    operands.append(draw.parameter(draw.choice((0.0, 0.3, 0.5, 1.0)), f32))
    operands.append(draw.parameter(draw.choice((0.0, 0.2, 0.6)), f32))
    if draw.code == "NON_MAX_SUPPRESSION_V5":
        operands.append(draw.parameter(draw.choice((0.0, 0.1, 0.5)), f32))
    return draw.case(cls, operands, "f32")


@family("RFFT2D", kinds=(F32,))
def spectrum(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    length = [1 << draw.integer(1, 4), 1 << draw.integer(1, 4)]
    shape = (*draw.shape(0, 2, 3), *(max(n + draw.integer(-2, 2), 1) for n in length))
    x = draw.tensor(F32, shape, const=0, make=lambda: calm(draw, shape))
    return draw.case(cls, [x, draw.parameter(length)], "f32", results=[DType.COMPLEX64])


@family("REDUCE_WINDOW", kinds=(F32, I8, I16, I32, I64, U8, BOOL))
def window(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 4, 6)
    sizes = [draw.integer(1, min(d, 3)) for d in shape]
    dilations = [
        draw.integer(1, 2) if (size - 1) * 2 < d else 1 for size, d in zip(sizes, shape, strict=True)
    ]
    strides = draw.integers(1, 2, len(shape))
    functions = ("ALL", "ANY") if kind is BOOL else ("ADD", "MUL", "MINIMUM", "MAXIMUM")
    x = draw.tensor(kind, shape, make=(lambda: calm(draw, shape)) if kind is F32 else None)
    start = draw.constant(draw.integer(0, 1), kind.dtype)
    operands = [x, start, *(draw.parameter(p, i64, 1) for p in (sizes, strides, dilations))]
    function = ReduceWindowFunction[draw.choice(functions)]
    return draw.case(cls, operands, kind.label, reduce_function=function)


@family("EMBEDDING_LOOKUP_SPARSE", kinds=(F32,))
def sparse_embedding(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    rows, width, entries = draw.integer(1, 6), draw.integer(1, 5), draw.integer(1, 7)
    batch, length = draw.integer(1, 4), draw.integer(1, 4)
    places = sorted((draw.integer(0, batch - 1), draw.integer(0, length - 1)) for _ in range(entries))
    ids = draw.rng.integers(0, rows, entries)
    operands = [draw.parameter(p) for p in (ids, places, [batch, length])]
    weights = draw.tensor(F32, (entries,), make=lambda: draw.rng.uniform(0.1, 2, entries).astype(np.float32))
    return draw.case(
        cls,
        [*operands, weights, draw.tensor(F32, (rows, width), make=lambda: calm(draw, (rows, width)))],
        "f32",
    )


@family("HASHTABLE_LOOKUP", kinds=(F32, I32, I8, U8))
def lookup(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    rows = draw.integer(1, 6)
    keys = sorted(draw.rng.choice(20, rows, replace=False).tolist())
    asked = draw.rng.integers(0, 20, draw.integer(1, 6))
    asked[0] = keys[0]
    values = draw.tensor(kind, (rows, *draw.shape(0, 2, 4)), const=0.6)
    return draw.case(cls, [draw.parameter(asked, i32, 0.4), draw.parameter(keys), values], kind.label)


@family("LSH_PROJECTION", kinds=(F32, I32, I64, U8))
def projection(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 3, 5)
    hashes = draw.constant(draw.rng.normal(0, 3, (draw.integer(1, 4), draw.integer(1, 8))).astype(np.float32))
    weights = draw.tensor(F32, shape[:1], make=lambda: draw.rng.uniform(0.1, 1, shape[0]).astype(np.float32))
    way = draw.choice((LSHProjectionType.SPARSE, LSHProjectionType.DENSE))
    operands = [hashes, draw.tensor(kind, shape, const=0), weights if draw.chance(0.5) else None]
    return draw.case(cls, operands, kind.label, results=[i32], type=way)


@family("SKIP_GRAM", kinds=(Kind(DType.STRING),))
def skip_gram(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    words = b" ".join(bytes([97 + n]) * draw.integer(1, 3) for n in draw.integers(0, 25, draw.integer(1, 7)))
    text = Value("", DType.STRING, (1,), encode_strings([words]))
    given = {"ngram_size": draw.integer(1, 3), "max_skip_size": draw.integer(0, 2)}
    return draw.case(cls, [text], "str", results=[DType.STRING], **given)  # type: ignore[arg-type]


@family("DENSIFY", kinds=(F32, I8))
def densify(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    """Dense rows, compressed columns."""
    rows, columns = draw.integers(1, 6, 2)
    mask = draw.rng.random((rows, columns)) < 0.4
    if not mask.any():
        mask[0, 0] = True
    stored = draw.array(kind.dtype, (int(mask.sum()),))
    value = Value("", kind.dtype, (rows, columns), stored.view(np.uint8))
    segments = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    compressed = {
        "format": "SPARSE_CSR",
        "array_segments": {"": "Int32Vector", "values": segments},
        "array_indices": {"": "Int32Vector", "values": np.nonzero(mask)[1].astype(np.int32)},
    }
    levels = [{"format": "DENSE", "dense_size": rows}, compressed]
    value.extra["sparsity"] = {"traversal_order": np.array([0, 1], np.int32), "dim_metadata": levels}
    return draw.case(cls, [value], kind.label)
