# SPDX-License-Identifier: Apache-2.0
"""Reductions whose dimensions a Reshape drops or restores, and sums that are means."""

from __future__ import annotations

import pytest

from tests.passes.kit import chain, check_pass

NAME = "fuse_reshape_with_mean"


@pytest.mark.parametrize("kind", ["Mean", "Sum", "ReduceProd", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(
    ("shape", "axes", "drop"),
    [
        ("[1,8,4,4]", "[2, 3]", "Reshape(%b, [1, 8])"),
        ("[1,8,4,4]", "[-1, -2]", "Reshape(%b, [1, 8])"),
        ("[2,4,4,8]", "[1, 2]", "Squeeze(%b) {squeeze_dims: [1, 2]}"),
        ("[2,3,4]", "[0, 1, 2]", "Reshape(%b, [])"),
        ("[?,3,4]", "[2]", "Reshape(%b, [-1, 3])"),
    ],
)
def test_reduction(kind: str, shape: str, axes: str, drop: str) -> None:
    text = chain(shape, f"{kind}(%a, {axes}) {{keep_dims: true}}", drop)
    check_pass(text, NAME, ["Neg", kind, "Neg"])


@pytest.mark.parametrize("kind", ["ReduceAny", "ReduceAll"])
def test_reduction_of_bool(kind: str) -> None:
    text = f"""
        graph main(%x: bool[2,3,4]) -> %z {{
          %y = {kind}(%x, [1]) {{keep_dims: true}}
          %z = Reshape(%y, [2, 4])
        }}
    """
    check_pass(text, NAME, [kind])


@pytest.mark.parametrize(
    ("shape", "calls", "sentence"),
    [
        (
            "[1,8,4,4]",
            ["Mean(%a, [2, 3]) {keep_dims: true}", "Reshape(%b, [8])"],
            "expected the shape [1,8], got [8]",
        ),
        (
            "[1,8,4,4]",
            ["Mean(%a, [2]) {keep_dims: true}", "Reshape(%b, [8, 4])"],
            "expected the shape [1,8,4], got [8,4]",
        ),
        (
            "[?,4,5]",
            ["Mean(%a, [2]) {keep_dims: true}", "Reshape(%b, [4, -1])"],
            "expected the shape [?,4], got [4,?]",
        ),
        ("[2,3,4]", ["Mean(%a, [2])", "Reshape(%b, [3, 2])"], "expected the shape [2,3,1], got [3,2]"),
        ("[2,3,4]", ["Mean(%a, [2])", "Reshape(%b, [2, 1, 3])"], "expected the shape [2,3,1], got [2,1,3]"),
        ("[2,3,4]", ["Mean(%a, [1])", "ExpandDims(%b, 2)"], "expected the shape [2,1,4], got [2,4,1]"),
        ("[1,3,4]", ["Mean(%a, [2]) {keep_dims: true}", "Squeeze(%b)"], "expected the shape [1,3], got [3]"),
    ],
)
def test_near_miss(shape: str, calls: list[str], sentence: str) -> None:
    check_pass(chain(shape, *calls), NAME, refused=sentence)


def test_result_with_other_users() -> None:
    calls = ["Mean(%a, [2]) {keep_dims: true}", "Reshape(%b, [2, 3])"]
    check_pass(chain("[2,3,4]", *calls, outputs="%y, %b"), NAME, refused="%b: is an output of the graph")


@pytest.mark.parametrize("kind", ["Mean", "Sum", "ReduceProd", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(
    ("shape", "axes", "insert"),
    [
        ("[1,8,4,4]", "[2, 3]", "Reshape(%b, [1, 8, 1, 1])"),
        ("[1,8,4,4]", "[-1, 1]", "Reshape(%b, [1, 1, 4, 1])"),
        ("[2,3,4]", "[0, 1, 2]", "Reshape(%b, [1, 1, 1])"),
        ("[?,3,4]", "[2]", "Reshape(%b, [-1, 3, 1])"),
        ("[?,3,4]", "[1]", "ExpandDims(%b, 1)"),
        ("[2,3,4]", "[2]", "ExpandDims(%b, -1)"),
    ],
)
def test_restored_dimensions(kind: str, shape: str, axes: str, insert: str) -> None:
    (_, op, _) = check_pass(chain(shape, f"{kind}(%a, {axes})", insert), NAME, ["Neg", kind, "Neg"]).main
    assert op.attribute_items()["keep_dims"] is True


# -- sums that are means -----------------------------------------------------------------------

SUM = "fuse_sum_to_mean"


@pytest.mark.parametrize("keep", ["true", "false"])
@pytest.mark.parametrize(
    ("shape", "axes", "factor"),
    [
        ("[2,3,4]", "[1, 2]", "Div(%b, 12.0)"),
        ("[2,3,4]", "[-1, 2, 1]", "Div(%b, [12.0])"),
        ("[2,3,4]", "[1, 2]", "Mul(%b, 0.083333336)"),
        ("[2,3,4]", "[1, 2]", "Mul(0.08333333, %b)"),
        ("[?,3,4]", "[1]", "Div(%b, 3.0)"),
        ("[?,3,4]", "2", "Mul(%b, 0.25)"),
    ],
)
def test_sum_to_mean(shape: str, axes: str, factor: str, keep: str) -> None:
    text = chain(shape, f"Sum(%a, {axes}) {{keep_dims: {keep}}}", factor)
    (_, op, _) = check_pass(text, SUM, ["Neg", "Mean", "Neg"]).main
    assert op.attribute_items() == {"keep_dims": keep == "true"}


@pytest.mark.parametrize(
    ("shape", "factor", "sentence"),
    [
        ("[2,3,4]", "Div(%b, 4.0)", "expected a division by 12, the size of a sum, got 4.0"),
        ("[2,3,4]", "Div(%b, 12.000001)", "expected a division by 12"),
        ("[2,3,4]", "Mul(%b, 12.0)", "expected a multiplication by 1 / 12"),
        ("[2,3,4]", "Mul(%b, nan)", "got nan"),
        ("[2,3,4]", "Div(%b, [12.0, 12.0])", "shape is [2], expected [*,1]"),
        ("[2,3,4]", "Div(%b, [[12.0]])", "has shape [1,2], the rewrite gives [2]"),
        ("[2,?,4]", "Div(%b, 12.0)", "expected known sizes above 0 along the axes, got [2,?,4]"),
        ("[2,0,4]", "Div(%b, 1.0)", "expected known sizes above 0 along the axes, got [2,0,4]"),
    ],
)
def test_sum_that_is_no_mean(shape: str, factor: str, sentence: str) -> None:
    check_pass(chain(shape, "Sum(%a, [1, 2])", factor), SUM, refused=sentence)


def test_a_number_divided_by_a_sum_is_no_mean() -> None:
    check_pass(chain("[2,3,4]", "Sum(%a, [1, 2])", "Div(12.0, %b)"), SUM, ["Neg", "Sum", "Div", "Neg"])
