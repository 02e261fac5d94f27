# SPDX-License-Identifier: Apache-2.0
"""Reductions of a transposed operand."""

from __future__ import annotations

import pytest

from tests.passes.kit import chain, check_pass

NAME = "fuse_transpose_with_mean"


@pytest.mark.parametrize("kind", ["Mean", "Sum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(
    ("perm", "axes"),
    [
        ("[0, 3, 1, 2]", "[2, 3]"),
        ("[0, 3, 1, 2]", "[-1, -2]"),
        ("[0, -1, 1, 2]", "[1]"),
        ("[3, 2, 1, 0]", "[0, 1, 3]"),
    ],
)
def test_axes_are_mapped_through_the_transpose(kind: str, perm: str, axes: str) -> None:
    text = chain("[2,3,4,5]", f"Transpose(%a, {perm})", f"{kind}(%b, {axes})")
    check_pass(text, NAME, ["Neg", kind, "Neg"])


def test_a_product_keeps_the_order_of_its_factors() -> None:
    """Otherwise 1e30 * 1e-30 * 1e30 * 1e-30 could become 1e30 * 1e30 * ..., which overflows."""
    in_order = chain("[2,3,4,5]", "Transpose(%a, [0, 3, 1, 2])", "ReduceProd(%b, [3, -2])")
    check_pass(in_order, NAME, ["Neg", "ReduceProd", "Neg"])
    turned = chain("[2,3,4,5]", "Transpose(%a, [2, 1, 0, 3])", "ReduceProd(%b, [0, 1, 2])")
    check_pass(turned, NAME, refused="%c: expected the reduced axes of a product in order, got [2, 1, 0]")


@pytest.mark.parametrize(
    ("calls", "outputs", "sentence"),
    [
        (
            ["Transpose(%a, [0, 3, 1, 2])", "Mean(%b, [2])"],
            "%y",
            "%c: expected remaining axes in order, got [0, 3, 2]",
        ),
        (["Transpose(%a, [0, 3, 1, 2])", "Mean(%b, [2, 3]) {keep_dims: true}"], "%y", "keep_dims is True"),
        (["Transpose(%a, [0, 3, 1, 2])", "Mean(%b, [2, 3])"], "%y, %b", "%b: is an output of the graph"),
    ],
)
def test_near_miss(calls: list[str], outputs: str, sentence: str) -> None:
    check_pass(chain("[2,3,4,5]", *calls, outputs=outputs), NAME, refused=sentence)
