# SPDX-License-Identifier: Apache-2.0
"""Circle's attention layer of a decoder.  Source: onert's AttentionLayer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32, i32, i64
from circlekit.ir.enums import RoPEMode
from circlekit.ir.op import operand
from circlekit.ir.value import Array, TensorType, format_shape
from circlekit.ops.checks import require_float, require_rank
from circlekit.ops.dimensions import dims_differ, element_count
from circlekit.ops.program.state import Stateful
from circlekit.ops.reduction.normalization import rotated

CACHE_BLOCK_POSITIONS = 32
"""onert reads a multiple of this many positions of the caches."""


class Attention(Stateful, code="ATTENTION", options="AttentionOptions", formats=frozenset({"circle"})):
    """Multi-head attention for one token of a decoder, with rotary position embedding and key-value caches.

    ``input`` [1, 1, model]; ``wq``, ``wk``, ``wv``, ``wo`` [model, model], with one row per output element;
    ``cos`` and ``sin`` [1, 1, head] for the position of the token; ``mask`` is added to the scores: -inf
    excludes a position; the caches have shape [1, positions, heads, head].  The key and the value of the
    token are stored in the caches at ``position`` (one element).  With q and k rotated as in GPT-NeoX, the
    result is

        wo * softmax(q * k_cache^T / sqrt(head) + mask) * v_cache

    over the first ``position`` + 2 positions of the caches, rounded up to a multiple of 32 and limited to the
    length of the caches and the mask.  A cache that is a variable tensor is updated.  Other caches are not
    modified; onert does modify them.
    """

    input = operand(f32)
    wq = operand(f32)
    wk = operand(f32)
    wv = operand(f32)
    wo = operand(f32)
    cos = operand(f32)
    sin = operand(f32)
    mask = operand(f32)
    k_cache = operand(f32)
    v_cache = operand(f32)
    position = operand(i32, i64)

    states = ("k_cache", "v_cache")

    def infer(self) -> TensorType:
        shape = require_rank(self.input, "input", 3)
        size = None if shape is None else shape[-1]
        for name in ("wq", "wk", "wv", "wo"):
            weights = require_rank(getattr(self, name), name, 2)
            if weights is not None and any(dims_differ(d, size) for d in weights):
                raise ShapeError(f"{name} has shape {format_shape(weights)}, the input has {size} elements")
        for name in self.states:
            cache = require_rank(getattr(self, name), name, 4)
            if cache is not None and None not in cache[2:] and dims_differ(cache[2] * cache[3], size):  # type: ignore[operator]
                raise ShapeError(f"{name} has shape {format_shape(cache)}, the input has {size} elements")
        return TensorType(self.input.dtype, shape)

    def macs(self) -> int:
        """Return the multiplications of the projections only: those of the caches depend on the position."""
        return sum(element_count(w.shape) for w in (self.wq, self.wk, self.wv, self.wo))

    def step(
        self, input: Array, wq: Array, wk: Array, wv: Array, wo: Array, cos: Array, sin: Array, mask: Array,
        k_cache: Array, v_cache: Array, position: Array,
    ) -> tuple[Sequence[Array], Sequence[Array | None]]:  # fmt: skip
        require_float(self, input, wq, wk, wv, wo, cos, sin, mask, k_cache, v_cache)
        if input.shape[:2] != (1, 1):
            raise UnsupportedError(
                f"{self.code} has a kernel for one token [1, 1, model] only, got {format_shape(input.shape)}"
            )
        heads, head = k_cache.shape[2:]
        at, room = int(position.reshape(-1)[0]), min(k_cache.shape[1], v_cache.shape[1])
        if not 0 <= at < room:
            raise ShapeError(
                f"{self.code}: position {at} is outside of the caches, which have {room} positions"
            )
        x, tables = input.reshape(-1), (sin.reshape(-1)[:head], cos.reshape(-1)[:head])
        query, key = (rotated((w @ x).reshape(heads, head), *tables, RoPEMode.GPT_NEOX) for w in (wq, wk))
        keys, values = k_cache.copy(), v_cache.copy()
        keys[0, at], values[0, at] = key, (wv @ x).reshape(heads, head)
        length = min(-(-(at + 2) // CACHE_BLOCK_POSITIONS) * CACHE_BLOCK_POSITIONS, room, mask.shape[-1])
        scores = np.einsum("hd,phd->hp", query, keys[0, :length]) / np.sqrt(np.float32(head))
        scores += mask.reshape(-1)[:length]
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended = np.einsum("hp,phd->hd", weights, values[0, :length])
        return [(wo @ attended.reshape(-1)).reshape(input.shape)], (keys, values)
