# SPDX-License-Identifier: Apache-2.0
"""Layout optimization of Reshapes, which may do the work of a Transpose."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.layout.optimize import OptimizeLayout
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass
from tests.passes.layout.pooled_models import NCHW, NHWC, kinds


def test_a_reshape_that_moves_axes_of_one_is_a_transpose() -> None:
    """Squeeze and excitation as exporters of NCHW write it: the mean of each channel is reshaped."""
    text = """
    graph main(%x: f32[1,6,6,4]) -> %y {
      %w = const f32[4,1,1,4] gaussian(0, 0.3)
      %c = Conv2D(%x, %w, none)
      %t = Transpose(%c, [0,3,1,2])
      %m = Mean(%t, [2,3]) {keep_dims: true}
      %p = Reshape(%m, [1,1,1,4])
      %d = Conv2D(%p, %w, none)
      %q = Reshape(%d, [1,4,1,1])
      %z = Mul(%t, %q)
      %y = Transpose(%z, [0,2,3,1])
    }
    """
    check_pass(text, "optimize_layout", ["Conv2D", "Mean", "Conv2D", "Mul"])


def test_reshapes_that_move_axes_of_one_need_no_transpose_beside_them() -> None:
    """TICO writes a layer norm between 1-D convolutions so."""
    text = """
    graph main(%x: f32[2,6,1,4]) -> %y {
      %w = const f32[4,1,1,4] gaussian(0, 0.3)
      %g = const f32[4,1] gaussian(0, 1)
      %c = Conv2D(%x, %w, none)
      %p = Reshape(%c, [2,6,4,1])
      %m = Mean(%p, [2]) {keep_dims: true}
      %d = Sub(%p, %m)
      %e = Mul(%d, %g)
      %q = Reshape(%e, [2,6,1,4])
      %y = Conv2D(%q, %w, none)
    }
    """
    check_pass(text, "optimize_layout", ["Conv2D", "Mean", "Sub", "Mul", "Conv2D"])


def test_a_reshape_that_moves_axes_of_one_does_not_move_alone() -> None:
    """Here another place is not better, and beside the PACK the Reshape can become a part of it."""
    text = """
    graph main(%x: f32[1,8], %z: f32[1,8]) -> %y {
      %p = Pack(%x, %z) {values_count: 2}
      %r = Reshape(%p, [1,2,8])
      %y = Exp(%r)
    }
    """
    check_pass(text, "optimize_layout", refused="Pack works only in its own layout")


def test_a_reshape_to_other_axes_stays() -> None:
    text = """
    graph main(%x: f32[1,2,2,4]) -> %y {
      %t = Transpose(%x, [0,3,1,2])
      %m = Mean(%t, [2,3]) {keep_dims: true}
      %p = Reshape(%m, [1,1,2,2])
      %z = Mul(%t, %p)
      %y = Transpose(%z, [0,2,3,1])
    }
    """
    model = check_pass(text, "optimize_layout")
    assert "Reshape" in kinds(model)


@pytest.mark.parametrize("source", ["f32[60]", "f32[*]", "f32[?,12,5]", "f32[1,3,20,1,1]"])
def test_a_reshape_from_another_rank_stays(source: str) -> None:
    model = parse_model(
        f"""graph main(%x: {source}) -> %y {{
              %r = Reshape(%x, [1, 3, 4, 5]) : f32[1,3,4,5]
              %t = Transpose(%r, {NHWC})
              %n = Relu(%t)
              %y = Transpose(%n, {NCHW})
            }}"""
    )
    OptimizeLayout().run(model, Context())
    assert kinds(model) == ["Reshape", "Relu"]
