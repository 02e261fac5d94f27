# SPDX-License-Identifier: Apache-2.0
"""A PAD disappears exactly where LiteRT computes the same with SAME padding."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.equivalence.litert import run_model
from circlekit.ir.clone import clone
from circlekit.ir.text import parse_model
from circlekit.rewrite.base import Context
from tests.passes.kit import apply, assert_close, check_pass, make_input


def padded(size: int, taps: int, stride: int, dilation: int, padding: str, pair: tuple[int, int]) -> str:
    """Return a convolution along one axis, after a PAD by ``pair`` (before, after)."""
    return f"""graph main(%x: f32[1,{size},1,2]) -> %z {{
      %w = const f32[3,{taps},1,2] gaussian(0, 1)
      %p = Pad(%x, [[0, 0], {list(pair)}, [0, 0], [0, 0]])
      %z = Conv2D(%p, %w) {{padding: {padding}, stride_h: {stride}, dilation_h: {dilation}}}
    }}"""


@pytest.mark.parametrize("seed", range(40))
def test_where_same_padding_gives_the_same(seed: int) -> None:
    """The pass fuses a PAD if LiteRT's convolution with SAME padding has equal results, and only then."""
    random = np.random.default_rng(seed)
    size, taps, stride = (int(n) for n in random.integers([5, 2, 1], [10, 5, 3], endpoint=True))
    dilation = 1 if stride > 1 else int(random.integers(1, 2, endpoint=True))
    border = (taps - 1) * dilation
    pair = (border // 2, border - border // 2) if seed % 2 else tuple(random.integers(0, 3, 2).tolist())
    axis = size, taps, stride, dilation
    before = parse_model(padded(*axis, "VALID", pair))
    inputs = [make_input(before.main.inputs[0], "normal")]
    wanted = run_model(before, inputs)
    same = run_model(parse_model(padded(*axis, "SAME", (0, 0))), inputs)
    is_equal = wanted[0].shape == same[0].shape and np.allclose(wanted[0], same[0], atol=1e-5)

    after = clone(before)
    assert apply(after, "fuse_pad", Context()) == is_equal
    assert_close(run_model(after, inputs), wanted)


@pytest.mark.parametrize(
    ("layer", "shape", "filter", "pads"),
    [
        ("DepthwiseConv2D", "1,6,6,2", "1,3,3,4", "[1, 1], [1, 1]"),
        ("Conv3D", "1,4,4,4,2", "3,3,1,2,5", "[1, 1], [1, 1], [0, 0]"),
    ],
)
@pytest.mark.parametrize("pad", ["Pad(%x, {})", "PadV2(%x, {}, 0.0)"])
def test_other_convolutions(layer: str, shape: str, filter: str, pads: str, pad: str) -> None:
    text = f"""graph main(%x: f32[{shape}]) -> %z {{
      %w = const f32[{filter}] gaussian(0, 1)
      %p = {pad.format(f"[[0, 0], {pads}, [0, 0]]")}
      %z = {layer}(%p, %w) {{padding: VALID, act: RELU}}
    }}"""
    check_pass(text, "fuse_pad", [layer])


def test_each_user_is_rewritten_or_none() -> None:
    text = """graph main(%x: f32[1,6,6,2]) -> %y, %z {
      %w = const f32[3,3,3,2] gaussian(0, 1)
      %p = Pad(%x, [[0, 0], [1, 1], [1, 1], [0, 0]])
      %y = Conv2D(%p, %w) {padding: VALID}
      %z = Conv2D(%p, %w) {padding: VALID, stride_h: STRIDE}
    }"""
    check_pass(text.replace("STRIDE", "1"), "fuse_pad", ["Conv2D", "Conv2D"])
    check_pass(text.replace("STRIDE", "2"), "fuse_pad", refused="%p: is also read by")
