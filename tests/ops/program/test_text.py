# SPDX-License-Identifier: Apache-2.0
"""Strings and hashes against LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import LimitError, ModelError, ShapeError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.enums import LSHProjectionType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import encode_strings
from circlekit.ops.program.text import LshProjection, SkipGram
from tests.ops.litert import check, const, graph_of, kernel_results, run_litert, var

TEXTS = [b"The quick brown fox jumps", b" spaces  before\tand   between ", b"one", b"", b"a b c d e f g"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("size", "skips"), [(-1, 0), (0, 0), (1, 0), (2, 0), (2, 1), (3, 2), (3, 0), (9, 9)])
@pytest.mark.parametrize("smaller", [False, True])
def test_skip_grams_are_those_of_litert(text: bytes, size: int, skips: int, smaller: bool) -> None:
    value = Value("text", DType.STRING, (1,), encode_strings([text]))
    op = SkipGram(value, ngram_size=size, max_skip_size=skips, include_all_ngrams=smaller)
    graph = Graph("main", ())
    graph.append(op)
    op.output.name = "grams"
    graph.outputs = op.results
    (got,) = Interpreter(Model([graph])).run([])
    (wanted,) = run_litert(graph, [])
    assert got.tolist() == wanted.tolist()


def test_skip_gram_wants_one_text() -> None:
    value = Value("text", DType.STRING, (2,), encode_strings([b"a", b"b"]))
    graph = Graph("main", ())
    graph.append(SkipGram(value, ngram_size=1))
    with pytest.raises(ModelError, match="SKIP_GRAM: expected one string, got 2"):
        Interpreter(Model([graph])).run([])


@pytest.mark.parametrize("kind", [LSHProjectionType.SPARSE, LSHProjectionType.DENSE])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 7, 8, 13, 15, 16, 31, 40, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_lsh_projection(kind: LSHProjectionType, width: int, weighted: bool) -> None:
    rng = np.random.default_rng(width)
    seeds = rng.uniform(-1, 1, (4, 5)).astype(np.float32)
    x = rng.integers(-(1 << 31), 1 << 31, (6, width)).astype(np.int32)
    weights = rng.normal(0, 1, 6).astype(np.float32)
    op = LshProjection(const(seeds), var(x), var(weights) if weighted else None, type=kind)
    if not weighted:
        op.inputs.pop()  # LiteRT takes 2 or 3 operands, and no absent one
    check(op, x, *([weights] if weighted else []))


@pytest.mark.parametrize("width", [1, 2, 3])
def test_lsh_projection_of_bytes(width: int) -> None:
    x = np.random.default_rng(width).integers(0, 256, (6, width)).astype(np.uint8)
    seeds = const(np.linspace(-1, 1, 20).reshape(4, 5), np.float32)
    op = LshProjection(seeds, var(x), type=LSHProjectionType.DENSE)
    check(op, x)


def test_the_projection_must_be_known() -> None:
    with pytest.raises(ShapeError, match="LSH_PROJECTION: expected type SPARSE or DENSE, got UNKNOWN"):
        LshProjection(Value("h", f32, (2, 3)), Value("x", f32, (2,)))


def test_types_of_projections() -> None:
    x = Value("x", f32, (6, 2))
    for kind, shape, wanted in (
        (LSHProjectionType.SPARSE, (4, 5), (4,)),
        (LSHProjectionType.DENSE, (4, 5), (20,)),
        (LSHProjectionType.DENSE, None, (None,)),
    ):
        assert LshProjection(Value("h", f32, shape), x, type=kind).output.shape == wanted
    with pytest.raises(ShapeError, match="expected hash of rank 2"):
        LshProjection(Value("h", f32, (4,)), x, type=LSHProjectionType.DENSE)


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        ((), None, r"expected input of at least one row, got shape \[\]"),
        ((0, 3), None, r"expected input of at least one row, got shape \[0,3\]"),
        ((2, 3), (5,), r"expected weight of shape \[2\], got \[5\]"),
        ((2, 3), (1,), r"expected weight of shape \[2\], got \[1\]"),
        ((2, 0), (2,), None),
    ],
)
def test_rows_and_weights_of_projections(
    rows: tuple[int, ...], weights: tuple[int, ...] | None, message: str | None
) -> None:
    inputs = [np.zeros(rows, np.int32), *([] if weights is None else [np.ones(weights, np.float32)])]
    seeds, unknown = const(np.full((1, 3), 0.5, np.float32)), Value("x", DType.INT32, None)
    op = LshProjection(seeds, unknown, *map(var, inputs[1:]), type=LSHProjectionType.DENSE)
    op.set_input(1, var(inputs[0]))
    if message is None:
        check(op, *inputs)
        return
    with pytest.raises(RuntimeError, match="lsh_projection"):
        run_litert(graph_of(op), inputs)
    with pytest.raises(ShapeError, match=message):
        op.infer()
    unknowns = [unknown, *(Value("w", f32, None) for _ in inputs[1:])]  # their shapes are known only in a run
    with pytest.raises(ShapeError, match=message):
        kernel_results(LshProjection(seeds, *unknowns, type=LSHProjectionType.DENSE), inputs)


def test_a_projection_has_up_to_32_bits() -> None:
    x = np.arange(6, dtype=np.int32).reshape(3, 2)
    for bits in (32, 33):
        seeds = const(np.linspace(-1, 1, bits).reshape(1, bits), np.float32)
        op = LshProjection(seeds, var(x), type=LSHProjectionType.DENSE)
        if bits == 32:
            check(op, x)
        else:
            with pytest.raises(UnsupportedError, match="with more than 32 bits"):
                kernel_results(op, [x])


def test_projections_ask_for_the_memory_of_their_keys() -> None:
    """A key has 4 bytes of its seed and 8 of its row; 128 bytes are counted for hashing it."""
    x, seeds = np.zeros((3, 2), np.int32), const(np.zeros((4, 5)), np.float32)
    op = LshProjection(seeds, var(x), type=LSHProjectionType.DENSE)
    with limited(3 * 20 * 140):
        kernel_results(op, [x])
    with limited(3 * 20 * 140 - 1), pytest.raises(LimitError, match="the keys of LSH_PROJECTION"):
        kernel_results(op, [x])


def test_skip_grams_ask_for_the_memory_of_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr("circlekit.ops.program.text.need_memory", lambda size, what: sizes.append(size))
    op = SkipGram(Value("text", DType.STRING, (1,)), ngram_size=2)
    kernel_results(op, [np.array([b"one two three"], object)])
    # each text takes its length and 64 bytes
    assert sizes == [len(b"one two") + 64, len(b"one two") + len(b"two three") + 128]
