# SPDX-License-Identifier: Apache-2.0
"""Passes that compute with constants leave sparse ones alone, whose data are not an array of elements."""

from __future__ import annotations

import pytest

import circlekit

NETS = {
    "forward_batchnorm_over_concat": """graph main(%x: f32[1,2,2,2]) -> %y {
        %c = const f32[4] [0, 0, 5, 0]
        %w = const f32[2,1,1,2] gaussian(0, 1)
        %v = const f32[2,1,1,2] gaussian(0, 1)
        %a = Conv2D(%x, %w)
        %b = Conv2D(%x, %v)
        %j = Concatenation(%a, %b) {axis: 3}
        %y = Mul(%j, %c)
    }""",
    "fuse_mean_subtraction": """graph main(%x: f32[2,4]) -> %y {
        %c = const f32[4] [0, 0, 5, 0]
        %w = const f32[4,4] gaussian(0, 1)
        %a = FullyConnected(%x, %w)
        %s = Add(%a, %c)
        %m = Mean(%s, [-1]) {keep_dims: true}
        %y = Sub(%s, %m)
    }""",
    "legalize": """graph main(%x: i16[1,4] quant(scale: 0.1)) -> %y {
        %c = const i32[4] quant(scale: 0.01) [0, 0, 500, 0]
        %w = const i8[4,4] quant(scale: 0.1) uniform(-100, 100)
        %y = FullyConnected(%x, %w, %c) : i16[1,4] quant(scale: 0.5)
    }""",
}
"""{pass: a model in which it computes with %c}; ``legalize`` stands for the legalization for LiteRT."""

SPARSE = {"tensor": "c", "format": ["s"], "traversal_order": [0], "block_map": [], "block_size": []}


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_a_sparse_constant_stays(name: str, is_sparse: bool) -> None:
    model = circlekit.parse(NETS[name])
    if is_sparse:
        settings = {f"sparsify_{key}": value for key, value in SPARSE.items()}
        circlekit.optimize(model, ["sparsify_tensor"], settings=settings, format="tflite")
    passes = [] if name == "legalize" else [name]
    circlekit.optimize(model, passes, format="tflite", target="litert", verify=True)
    assert ("c" in {value.name for value in model.main.values()}) == is_sparse
