# SPDX-License-Identifier: Apache-2.0
"""ATTENTION token by token, against a causal attention over the whole sequence, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import f32, i64
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value
from circlekit.ops.matmul.circle_layers import Attention
from tests.ops.litert import FLOAT_TOLERANCE, assert_close
from tests.ops.stateful import state

HEADS, HEAD, TOKENS, POSITIONS = 3, 4, 40, 64  # HEAD: the size of a head; POSITIONS: the size of the caches
SIZE = HEADS * HEAD
NEVER = -np.inf


def tables() -> tuple[Array, Array]:
    """Return the cosines and sines [tokens, head]; both halves of a row are equal."""
    angles = np.arange(TOKENS)[:, None] / 10 ** (np.arange(HEAD // 2) / HEAD)
    both = np.concatenate([angles, angles], axis=-1)
    return np.cos(both), np.sin(both)


def whole_sequence(x: Array, weights: list[Array]) -> Array:
    """Return the result of the textbook's formula: each token sees itself and earlier ones.

    ``x``: [tokens, model].
    """
    cos, sin = tables()
    q, k, v = ((x @ w.T).reshape(TOKENS, HEADS, HEAD) for w in weights[:3])

    def rotated(a: Array) -> Array:
        half = np.concatenate([-a[..., HEAD // 2 :], a[..., : HEAD // 2]], axis=-1)
        out: Array = a * cos[:, None] + half * sin[:, None]
        return out

    scores = np.einsum("qhd,khd->hqk", rotated(q), rotated(k)) / np.sqrt(HEAD)
    scores[:, np.triu(np.ones((TOKENS, TOKENS), bool), 1)] = NEVER
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    odds /= odds.sum(axis=-1, keepdims=True)
    out: Array = np.einsum("hqk,khd->qhd", odds, v).reshape(TOKENS, SIZE) @ weights[3].T
    return out


def interpreter(weights: list[Array]) -> Interpreter:
    inputs = [
        Value("x", f32, (1, 1, SIZE)),
        Value("cos", f32, (1, 1, HEAD)),
        Value("sin", f32, (1, 1, HEAD)),
        Value("mask", f32, (1, 1, 1, POSITIONS)),
        Value("position", i64, (1,)),
    ]
    graph = Graph("main", inputs)
    x, cos, sin, mask, position = inputs
    constants = [Value.constant(f"w{i}", w.astype(np.float32)) for i, w in enumerate(weights)]
    caches = [state(f32, (1, POSITIONS, HEADS, HEAD)) for _ in range(2)]
    graph.outputs = (graph.append(Attention(x, *constants, cos, sin, mask, *caches, position)).output,)
    return Interpreter(Model([graph], format="circle"))


def inputs_at(x: Array, token: int) -> list[Array]:
    cos, sin = tables()
    mask = np.where(np.arange(POSITIONS) <= token, 0, NEVER).reshape(1, 1, 1, POSITIONS)
    rows = [a[token].reshape(1, 1, -1) for a in (x, cos, sin)]
    return [*(a.astype(np.float32) for a in (*rows, mask)), np.array([token], np.int64)]


def test_tokens_see_themselves_and_earlier_ones() -> None:
    rng = np.random.default_rng(5)
    x, weights = rng.normal(size=(TOKENS, SIZE)), list(rng.normal(size=(4, SIZE, SIZE)))
    wanted, attention = whole_sequence(x, weights), interpreter(weights)
    for token in range(TOKENS):
        (got,) = attention.run(inputs_at(x, token))
        assert got.shape == (1, 1, SIZE)
        assert_close(got.reshape(-1), wanted[token].astype(np.float32), FLOAT_TOLERANCE)


def test_a_position_outside_of_the_caches_is_refused() -> None:
    attention = interpreter([np.zeros((SIZE, SIZE))] * 4)
    arrays = inputs_at(np.zeros((TOKENS, SIZE)), 0)
    with pytest.raises(CirclekitError, match="position 64 is outside of the caches, which have 64 positions"):
        attention.run([*arrays[:-1], np.array([POSITIONS], np.int64)])


def test_caches_must_fit_the_input() -> None:
    values = [Value("", f32, (1, 1, SIZE)), *(Value("", f32, (SIZE, SIZE)) for _ in range(4))]
    small = [Value("", f32, (1, 1, HEAD))] * 2 + [Value("", f32, (1, 1, 1, POSITIONS))]
    caches = [Value("", f32, (1, POSITIONS, HEADS + 1, HEAD))] * 2
    with pytest.raises(CirclekitError, match=r"k_cache: expected heads \* head = 12, .*, got \[1,64,4,4\]"):
        Attention(*values, *small, *caches, Value("", i64, (1,))).infer()
