# SPDX-License-Identifier: Apache-2.0
"""Grouped convolutions become convolutions of the parts of a split."""

from __future__ import annotations

from tests.passes.legal.made_up_runtimes import check, runtime

GROUPED = """
    %w = const f32[6,3,3,2] gaussian(0, 1)
    %y = Conv2D(%x, %w, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) {act: RELU6, padding: VALID, dilation_w: 2}
"""


def test_grouped_convolution() -> None:
    check(GROUPED, runtime(), "Conv2D")
    check(GROUPED, runtime(name="onert"), "Split Conv2D Conv2D Concatenation")
    check(GROUPED.replace("f32[6,3,3,2]", "f32[6,3,3,4]"), runtime(name="onert"), "Conv2D")
    unbiased = GROUPED.replace(", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]", "")
    check(unbiased, runtime(name="onert"), "Split Conv2D Conv2D Concatenation")
    computed = GROUPED.replace("%w, [", "%v, [").replace("%y =", "%v = Neg(%w)\n%y =")
    check(computed, runtime(name="onert"), "Neg Conv2D")
