# SPDX-License-Identifier: Apache-2.0
"""Factors after sums and matrix products are folded into the producers of their operands."""

from __future__ import annotations

import pytest

from circlekit.passes.pipelines import pipeline_passes
from tests.passes.kit import check_pass

C = "[2.0, 0.5, 3.0, 1.5]"
SIGNED = "[2.0, -0.5, 3.0, 1.5]"


def net(*lines: str) -> str:
    body = "\n".join(lines)
    return f"""graph main(%x: f32[1,6,6,3]) -> %y {{
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %v = const f32[4,1,1,3] gaussian(0, 0.3)
  %e = const f32[1,4,36,5] gaussian(0, 0.3)
  %k = const f32[4,4] gaussian(0, 1)
  %n = const f32[4,3] gaussian(0, 1)
  %a = Conv2D(%x, %w, [0.1, 0.2, 0.3, 0.4])
  %b = Conv2D(%x, %v, none)
  {body}
}}"""


PASSED = {
    "product": (["%t = Reshape(%a, [1,4,36])", "%p = BatchMatMul(%t, %e)", "%y = Mul(%p, 0.3)"], 3),
    "product, right": (
        [
            "%s = Reshape(%x, [1,1,36,3])",
            "%t = Reshape(%a, [1,1,36,4])",
            "%p = BatchMatMul(%s, %t) {adj_x: true}",
            "%y = Mul(%p, 0.3)",
        ],
        4,
    ),
    "sum": (["%p = Add(%a, %b)", f"%y = Mul(%p, {SIGNED}) {{act: RELU}}"], 3),
    "sum, offset": (["%c = Neg(%a)", "%p = Add(%c, %b)", f"%y = Add(%p, {C})"], 4),
    "sum, batch norm": (["%p = Add(%a, %b)", f"%m = Mul(%p, {SIGNED})", f"%y = Add(%m, {C})"], 3),
}


@pytest.mark.parametrize("name", PASSED)
def test_factors_are_folded_completely(name: str) -> None:
    lines, left = PASSED[name]
    model = check_pass(net(*lines), ["fold_batch_norms", "remove_dead"])
    assert len(model.main) == left, [type(op).__name__ for op in model.main]


REFUSED = {
    "has other users": ["%p = Add(%a, %a)", f"%y = Mul(%p, {C})"],
    "expected a sum of two values of its shape": [
        "%f = FullyConnected(%x, %n, none) {keep_num_dims: true}",
        "%q = Mean(%x, [1,2])",
        "%g = FullyConnected(%q, %n, none)",
        "%p = Add(%f, %g)",
        f"%y = Mul(%p, {C})",
    ],
    "act is RELU": ["%r = Conv2D(%x, %v, none) {act: RELU}", "%p = Add(%a, %r)", f"%y = Mul(%p, {C})"],
    "is not a float32 constant, so nothing": [
        "%s = Slice(%x, [0,0,0,0], [1,4,1,3])",
        "%f = Reshape(%s, [4,1,1,3])",
        "%r = Conv2D(%x, %f, none)",
        "%p = Add(%a, %r)",
        f"%y = Mul(%p, {C})",
    ],
    "comes from Relu": [
        "%u = Relu(%x)",
        "%r = Reshape(%u, [1,3,36])",
        "%t = Exp(%x)",
        "%s = Reshape(%t, [1,36,3])",
        "%p = BatchMatMul(%r, %s)",
        "%y = Mul(%p, 2.0)",
    ],
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_near_misses(sentence: str) -> None:
    check_pass(net(*REFUSED[sentence]), ["forward_number", "forward_batchnorm_over_add"], refused=sentence)


def test_a_residual_block_loses_its_batch_norm() -> None:
    """Both branches end in a convolution, which takes the factors; one bias takes the offsets."""
    text = net("%p = Add(%a, %b)", f"%m = Mul(%p, {SIGNED})", f"%y = Add(%m, {C}) {{act: RELU}}")
    check_pass(text, pipeline_passes("O1"), ["Conv2D", "Conv2D", "Add"])
