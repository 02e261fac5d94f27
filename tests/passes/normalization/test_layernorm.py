# SPDX-License-Identifier: Apache-2.0
"""Layer normalizations in the forms of exporters become one form, and RMS_NORM of x - mean(x) in circle."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.pipelines import pipeline_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

CENTERED = ["Mean", "Sub", "Square", "Mean", "Add", "Rsqrt", "Mul"]

SQUARES = (
    "%q = SquaredDifference(%x, %m)",
    "%e = Sub(%x, %m) %q = Square(%e)",
    "%e = Sub(%x, %m) %q = Mul(%e, %e)",
)
# SCALES, SUMS: {lines: the operators that replace them at the end of the new form}
SCALES = {"%r = Rsqrt(%a) %f = Mul(%r, %g)": ["Mul"], "%f = Rsqrt(%a)": []}
SUMS = {
    "%p = Mul(%x, %f) %i = Neg(%m) %o = Mul(%i, %f) %z = Add(%p, %o)": [],
    "%p = Mul(%x, %f) %o = Mul(%m, %f) %z = Sub(%p, %o)": [],
    "%p = Mul(%x, %f) %o = Mul(%m, %f) %h = Sub(%b, %o) %z = Add(%p, %h) {act: RELU}": ["Add"],
}  # fmt: skip
# {lines that square x - mean(x): lines that divide it by the standard deviation}
QUOTIENTS = {
    "%q = SquaredDifference(%x, %m)": "%d = Sub(%x, %m) %s = Sqrt(%a) %n = Div(%d, %s)",
    "%d = Sub(%x, %m) %q = Pow(%d, 2.0)": "%s = Sqrt(%a) %n = Div(%d, %s)",
    "%d = Sub(%x, %m) %q = Square(%d)": "%s = Pow(%a, -0.5) %n = Mul(%d, %s)",
    "%d = Sub(%x, %m) %q = Mul(%d, %d)": "%s = Rsqrt(%a) %n = Mul(%d, %s)",
}


def norm(square: str, ending: str) -> str:
    """Return a norm: the mean %m of %x, %q made by ``square``, the variance %v, and %z made by ``ending``."""
    return f"""graph main(%x: f32[1,2,3,8]) -> %z {{
      %g = const f32[8] uniform(0.5, 2)
      %b = const f32[8] gaussian(0, 1)
      %m = Mean(%x, [-1]) {{keep_dims: true}}
      {square}
      %v = Mean(%q, [3]) {{keep_dims: true}}
      %a = Add(%v, 0.001)
      {ending}
    }}"""


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("total", SUMS)
def test_scaled_x_minus_scaled_mean_is_rewritten(square: str, scale: str, total: str) -> None:
    text = norm(square, f"{scale} {total}")
    check_pass(text, "fuse_layernorm", [*CENTERED, *SCALES[scale], *SUMS[total]], tolerance=3e-5)
    check_pass(text, pipeline_passes("O1"), ["Mean", "Sub", "RmsNorm", *SUMS[total]], tolerance=3e-5)


@pytest.mark.parametrize("square", QUOTIENTS)
def test_quotients_become_rms_norm(square: str) -> None:
    text = norm(square, f"{QUOTIENTS[square]} %t = Mul(%n, %g) %z = Add(%t, %b)")
    check_pass(text, pipeline_passes("O1"), ["Mean", "Sub", "RmsNorm", "Add"], tolerance=3e-5)


@pytest.mark.parametrize(("scale", "is_rewritten"), [*zip(SCALES, (True, False), strict=True)])
def test_beta_may_be_one_number_if_gamma_makes_the_sum_as_large_as_x(scale: str, is_rewritten: bool) -> None:
    text = norm(SQUARES[0], f"{scale} {[*SUMS][-1]}").replace("%b = const f32[8]", "%b = const f32[1]")
    if is_rewritten:
        check_pass(text, "fuse_layernorm", [*CENTERED, *SCALES[scale], "Add"], tolerance=3e-5)
    else:
        check_refusal(text, "fuse_layernorm", "%h: expected the shape of %x, [1,2,3,8], got [1,2,3,1]")


def test_mean_may_have_other_users() -> None:
    text = norm(SQUARES[0], f"{next(iter(SCALES))} {next(iter(SUMS))}").replace("-> %z", "-> %z, %m")
    check_pass(text, "fuse_layernorm", [*CENTERED, "Mul"], tolerance=3e-5)


def test_variance_over_another_axis_stays() -> None:
    text = norm(SQUARES[0], f"{next(iter(SCALES))} {next(iter(SUMS))}").replace(
        "Mean(%q, [3])", "Mean(%q, [1])"
    )
    check_refusal(
        text, "fuse_layernorm", "%x: expected a mean and a variance over the same axes, got [3] and [1]"
    )


@pytest.mark.parametrize(
    ("inputs", "gamma", "is_rewritten"),
    [
        ("%x: f32[2,4], %a: f32[2,1]", "4", True),
        ("%x: f32[2,4], %a: f32[2,1]", "1,4", True),
        ("%x: f32[2,4], %a: f32[2,4]", "4", False),  # the root is as large as x
        ("%x: f32[2,1], %a: f32[2,1]", "4", False),  # x is smaller than the factor
        ("%x: f32[3,2,4], %a: f32[2,1]", "4", False),  # x is larger
        ("%x: f32[1,2,4], %a: f32[2,1]", "4", False),  # x has another rank
        ("%x: f32[2,4], %a: f32[2,1]", "1", False),  # the factor is as small as the root
        ("%x: f32[?,4], %a: f32[?,1]", "4", True),
        ("%x: f32[*], %a: f32[2,1]", "4", False),
    ],
)
def test_gamma_comes_last_if_the_root_alone_is_smaller_than_x(
    inputs: str, gamma: str, is_rewritten: bool
) -> None:
    text = f"""graph main({inputs}) -> %z {{
      %g = const f32[{gamma}] uniform(0.5, 2)
      %r = Rsqrt(%a)
      %f = Mul(%r, %g)
      %z = Mul(%x, %f)
    }}"""
    model = parse_model(text)
    assert bool(all_passes()["fuse_layernorm"]().run(model, Context())) is is_rewritten
    reads = [[v.name for v in op.inputs if v is not None] for op in model.main]
    assert (reads[-1][1] == "g") is is_rewritten
