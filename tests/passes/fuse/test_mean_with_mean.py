# SPDX-License-Identifier: Apache-2.0
"""Two reductions of one kind, one after the other, that become one."""

from __future__ import annotations

import pytest

from tests.passes.kit import check_pass


def means(first: str, second: str, keep: str, keep2: str, outputs: str = "%z") -> str:
    return f"""graph main(%x: f32[2,3,4,5]) -> {outputs} {{
      %y = Mean(%x, {first}) {{keep_dims: {keep}}}
      %z = Mean(%y, {second}) {{keep_dims: {keep2}}}
    }}"""


KEPT = [
    ("[1]", "[2]", [1, 2]),
    ("[2]", "[1]", [1, 2]),
    ("[1]", "[3]", [1, 3]),
    ("[1]", "[-2]", [1, 2]),
    ("[1]", "[1]", [1]),
]
"""Axes of the first and of the second Mean, and of the fused one, if both keep the dimensions."""

DROPPED = [
    ("[1]", "[1]", [1, 2]),
    ("[2, 1]", "[1]", [1, 2, 3]),
    ("[-1]", "[-1]", [2, 3]),
    ("[0]", "[0, 2]", [0, 1, 3]),
]
"""The same if both drop the dimensions; the second Mean then counts the axes that are left."""


@pytest.mark.parametrize(
    ("first", "second", "keep", "keep2", "axes"),
    [
        *((a, b, "true", "true", c) for a, b, c in KEPT),
        *((a, b, "false", "false", c) for a, b, c in DROPPED),
        ("[1, 2]", "[1, 2]", "true", "false", [1, 2]),
        ("[1]", "[1, 2]", "true", "false", [1, 2]),
    ],
)
def test_mean_of_mean(first: str, second: str, keep: str, keep2: str, axes: list[int]) -> None:
    (op,) = check_pass(means(first, second, keep, keep2), "fuse_mean_with_mean", ["Mean"]).main.ops
    assert op.inputs[1] is not None
    assert op.inputs[1].array().tolist() == axes


@pytest.mark.parametrize("kind", ["Sum", "ReduceMax", "ReduceMin"])
def test_other_reduction_twice(kind: str) -> None:
    text = means("[1]", "[2]", "true", "true").replace("Mean", kind)
    (op,) = check_pass(text, "fuse_mean_with_mean", [kind]).main.ops
    assert op.inputs[1] is not None
    assert op.inputs[1].array().tolist() == [1, 2]
    check_pass(text.replace(f"%y = {kind}", "%y = Mean"), "fuse_mean_with_mean", refused="comes from Mean")


@pytest.mark.parametrize("kind", ["ReduceAny", "ReduceAll"])
def test_other_reduction_of_bool_twice(kind: str) -> None:
    text = means("[1]", "[1]", "false", "false").replace("Mean", kind).replace("f32", "bool")
    check_pass(text, "fuse_mean_with_mean", [kind])


@pytest.mark.parametrize(("kind", "left"), [("ReduceMax", 1), ("Sum", 2), ("Mean", 2), ("ReduceProd", 2)])
def test_reduction_of_integers_twice(kind: str, left: int) -> None:
    text = means("[1]", "[2]", "true", "true").replace("Mean", kind).replace("f32", "i32")
    check_pass(text, "fuse_mean_with_mean", [kind] * left)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (means("[1]", "[2]", "true", "false"), "%z: keeps the axes [1], along which %x is reduced"),
        (means("[1]", "[1]", "false", "true"), "%y: keep_dims is False, expected True"),
        (means("[1]", "[1]", "false", "false", "%z, %y"), "%y: is an output of the graph"),
    ],
)
def test_mean_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_mean_with_mean", refused=sentence)
