# SPDX-License-Identifier: Apache-2.0
"""The convolutions of the groups become one operator for XNNPACK, with equal values."""

from __future__ import annotations

import pytest

from tests.passes.legal.test_legalize_for_runtime import check, runtime

XNNPACK = runtime(name="litert-xnnpack")

WEIGHTS = """
    %v = const f32[3,3,3,2] gaussian(0, 1)
    %w = const f32[3,3,3,2] gaussian(0, 1)
"""

LAST = (
    WEIGHTS
    + """
    %a, %b = Split(3, %x) {num_splits: 2}
    %c = Conv2D(%a, %v, [1.0, 2.0, 3.0]) {act: RELU}
    %d = Conv2D(%b, %w, [4.0, 5.0, 6.0]) {act: RELU}
    %y = Concatenation(%c, %d) {axis: 3}
"""
)
"""Channels last."""

FIRST = (
    WEIGHTS
    + """
    %a = Slice(%x, [0,0,0,0], [1,2,6,5])
    %b = Slice(%x, [0,2,0,0], [1,2,6,5])
    %ta = Transpose(%a, [0,2,3,1])
    %tb = Transpose(%b, [0,2,3,1])
    %c = Conv2D(%ta, %v, [1.0, 2.0, 3.0]) {dilation_w: 2}
    %d = Conv2D(%tb, %w, [4.0, 5.0, 6.0]) {dilation_w: 2}
    %tc = Transpose(%c, [0,3,1,2])
    %td = Transpose(%d, [0,3,1,2])
    %y = Concatenation(%tc, %td) {axis: 1}
"""
)
"""Channels first, as exporters write it."""


@pytest.mark.parametrize(
    ("body", "shape", "ops"),
    [(LAST, "1,6,5,4", "Conv2D"), (FIRST, "1,4,6,5", "Transpose Conv2D Transpose")],
    ids=["last", "first"],
)
def test_groups_become_one_convolution(body: str, shape: str, ops: str) -> None:
    check(body, XNNPACK, ops, shape=shape)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(%c, %d)", "(%d, %c)"),
        ("axis: 3", "axis: 2"),
        ("Conv2D(%b", "Conv2D(%a"),
        ("[4.0, 5.0, 6.0]) {act: RELU}", "[4.0, 5.0, 6.0])"),
        ("%y = Concatenation(%c, %d)", "%n = Neg(%c) %y = Concatenation(%c, %d)"),
    ],
    ids=["order", "axis", "same part", "attributes", "other user"],
)
def test_other_convolutions_stay(old: str, new: str) -> None:
    body = LAST.replace(old, new)
    assert body != LAST
    outputs = "%y, %n" if "%n" in new else "%y"
    kept = ["Split", "Conv2D", "Conv2D", *(["Neg"] if "%n" in new else []), "Concatenation"]
    check(body, XNNPACK, " ".join(kept), outputs, "1,6,5,4")


def test_other_runtimes_keep_the_groups_apart() -> None:
    check(LAST, runtime(), "Split Conv2D Conv2D Concatenation", shape="1,6,5,4")
