# SPDX-License-Identifier: Apache-2.0
"""Layer normalizations in the forms of exporters become RMS_NORM of the centered input."""

from __future__ import annotations

import pytest

from circlekit.passes.pipelines import pipeline_passes
from tests.passes.kit import check_pass, check_refusal

SQUARES = ("%q = SquaredDifference(%x, %m)", "%e = Sub(%x, %m) %q = Square(%e)")
SCALES = ("%r = Rsqrt(%a) %f = Mul(%r, %g)", "%f = Rsqrt(%a)")
SUMS = {
    "%p = Mul(%x, %f) %i = Neg(%m) %o = Mul(%i, %f) %z = Add(%p, %o)": ["Mean", "Sub", "RmsNorm"],
    "%p = Mul(%x, %f) %o = Mul(%m, %f) %z = Sub(%p, %o)": ["Mean", "Sub", "RmsNorm"],
    "%p = Mul(%x, %f) %o = Mul(%m, %f) %h = Sub(%b, %o) %z = Add(%p, %h) {act: RELU}": [
        "Mean",
        "Sub",
        "RmsNorm",
        "Add",
    ],
}


def norm(square: str, scale: str, total: str) -> str:
    return f"""graph main(%x: f32[2,3,8]) -> %z {{
      %g = const f32[8] uniform(0.5, 2)
      %b = const f32[8] gaussian(0, 1)
      %m = Mean(%x, [-1]) {{keep_dims: true}}
      {square}
      %v = Mean(%q, [2]) {{keep_dims: true}}
      %a = Add(%v, 0.001)
      {scale}
      {total}
    }}"""


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("total", SUMS)
def test_layer_norm(square: str, scale: str, total: str) -> None:
    check_pass(norm(square, scale, total), "fuse_layernorm", SUMS[total], tolerance=3e-5)
    check_pass(norm(square, scale, total), pipeline_passes("O1"), SUMS[total], tolerance=3e-5)


def test_mean_may_have_other_users() -> None:
    text = norm(SQUARES[0], SCALES[0], next(iter(SUMS))).replace("-> %z", "-> %z, %m")
    check_pass(text, "fuse_layernorm", ["Mean", "Sub", "RmsNorm"], tolerance=3e-5)


@pytest.mark.parametrize(
    ("x", "gamma", "scale", "sentence"),
    [
        ("f32[2,3,8]", "f32[3,8]", SCALES[0], "%g: expected one number per channel, got shape [3,8]"),
        ("f32[2,8,8]", "f32[8,1]", SCALES[0], "%g: expected one number per channel, got shape [8,1]"),
        ("f32[2,3,?]", "f32[8]", SCALES[1], "%x: expected one number per channel, got shape []"),
    ],
)
def test_other_factors_stay(x: str, gamma: str, scale: str, sentence: str) -> None:
    text = norm(SQUARES[0], scale, next(iter(SUMS)))
    text = text.replace("f32[2,3,8]", x).replace("%g = const f32[8]", f"%g = const {gamma}")
    check_refusal(text, "fuse_layernorm", sentence)


def test_variance_over_another_axis_stays() -> None:
    text = norm(SQUARES[0], SCALES[0], next(iter(SUMS))).replace("Mean(%q, [2])", "Mean(%q, [1])")
    check_refusal(text, "fuse_layernorm", "%x: expected a mean over the last axis alone, got axes [1]")
