# SPDX-License-Identifier: Apache-2.0
"""Recognize pixel shuffle after a convolution, as PyTorch exports it with Reshapes and Transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class FusePixelShuffle(Rewrite):
    """pixel_shuffle(conv(x, w))  ==  depth_to_space(conv(x, w with permuted output channels)).

    The order of channels is (c, i, j) for element (i, j) of a block in PyTorch, (i, j, c) in DEPTH_TO_SPACE.
    """

    name = "fuse_pixel_shuffle"

    before = """
        c = Conv2D(x, w: const f32[O, _, _, _], b?: const f32[*, O])
        t = Transpose(c, first: const)
        r = Reshape(t, blocks?)         {new_shape: any}
        u = Transpose(r, second: const)
        z = Reshape(u, shape?)          {new_shape: any}
    """
    after = """
        k = Conv2D(x, w2, b2)           {like c}
        d = DepthToSpace(k)             {block_size: block}
        z = Transpose(d, [0, 3, 1, 2])
    """

    @condition
    def expected_perms(self, match: Match, first: Array, second: Array) -> str | None:
        for name, perm, expected in (("t", first, [0, 3, 1, 2]), ("u", second, [0, 1, 4, 2, 5, 3])):
            found = [int(axis) % perm.size for axis in perm]
            if found != expected:
                return f"%{match.value(name).name}: expected perm {expected}, got {found}"
        return None

    @condition
    def expected_shapes(self, t: Value, r: Value, z: Value, O: int) -> str | None:
        """Each channel has square blocks, side by side."""
        image, parts, result = t.shape or (), r.shape or (), z.shape or ()
        if len(parts) != 6 or None in parts[1:] or parts[2] != parts[3] or parts[4:] != image[2:]:
            return f"%{r.name}: expected square blocks of each channel, got shape {format_shape(r.shape)}"
        channels, block, height, width = (int(parts[at] or 0) for at in (1, 2, 4, 5))
        expected = (parts[0], channels, height * block, width * block)
        if block < 2 or channels * block * block != O or result != expected:
            return f"%{z.name}: expected shape {format_shape(expected)}, got {format_shape(z.shape)}"
        return None

    def constants(self, w: Array, b: Array | None, r: Value, O: int) -> dict[str, Any]:
        block = int((r.shape or ())[2] or 0)
        order = np.arange(O).reshape(-1, block * block).T.reshape(-1)
        bias = None if b is None else np.ascontiguousarray(b.reshape(-1)[order])
        return {"w2": np.ascontiguousarray(w[order]), "b2": bias, "block": block}
