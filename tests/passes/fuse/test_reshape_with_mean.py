# SPDX-License-Identifier: Apache-2.0
"""Reductions whose kept dimensions a Reshape drops."""

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
        ("[2,3,4]", ["Mean(%a, [2])", "Reshape(%b, [3, 2])"], "keep_dims is False, expected True"),
        ("[1,3,4]", ["Mean(%a, [2]) {keep_dims: true}", "Squeeze(%b)"], "expected the shape [1,3], got [3]"),
    ],
)
def test_near_miss(shape: str, calls: list[str], sentence: str) -> None:
    check_pass(chain(shape, *calls), NAME, refused=sentence)


def test_result_with_other_users() -> None:
    calls = ["Mean(%a, [2]) {keep_dims: true}", "Reshape(%b, [2, 3])"]
    check_pass(chain("[2,3,4]", *calls, outputs="%y, %b"), NAME, refused="%b: is an output of the graph")
