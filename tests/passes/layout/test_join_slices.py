# SPDX-License-Identifier: Apache-2.0
"""Slices of a value become one SPLIT, SPLIT_V or UNPACK if together they have each index of an axis once."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.passes.kit import check_pass

Pairs = list[tuple[int, int]]

CASES: list[tuple[Pairs, str | None]] = [  # (start, stop) of each slice of an axis of 6
    ([(0, 3), (3, 6)], "Split"),
    ([(0, 2), (2, 4), (4, 6)], "Split"),
    ([(0, 1), (1, 6)], "SplitV"),
    ([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)], "Split"),
    ([(0, 3), (3, 5)], None),
    ([(1, 3), (3, 6)], None),
    ([(0, 3), (2, 6)], None),
    ([(0, 2), (3, 6)], None),
    ([(0, 3), (3, 6), (3, 6)], None),
]


def model(slices: list[str], shape: str = "2,6,4") -> str:
    """Return a graph in which an Abs reads each of ``slices``, calls that read %x or %o."""
    names = [f"%s{k}" for k in range(len(slices))]
    body = "".join(
        f"{name} = {call} {name}n = Abs({name}) " for name, call in zip(names, slices, strict=True)
    )
    outputs = ", ".join(f"{name}n" for name in names)
    return f"graph main(%x: f32[{shape}], %o: f32[{shape}]) -> {outputs} {{ {body} }}"


def calls(pairs: Pairs, axis: int, value: str = "%x") -> list[str]:
    """Return a Slice of an f32[6,6,6] for each pair of start and stop along ``axis``."""
    found = []
    for start, stop in pairs:
        begin, size = [0] * 3, [6] * 3
        begin[axis], size[axis] = start, stop - start
        found.append(f"Slice({value}, {begin}, {size})")
    return found


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("pairs", "kind"), CASES)
def test_slices_of_each_index_once_become_one_operator(pairs: Pairs, kind: str | None, axis: int) -> None:
    text = model(calls(pairs, axis), "6,6,6")
    count = len(pairs)
    if kind is None:
        refused = f"the slices do not take each of the 6 indices of axis {axis} exactly once"
        check_pass(text, "join_slices", refused=refused)
    else:
        check_pass(text, "join_slices", [kind] + ["Abs"] * count)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_the_slices_does_not_matter(order: tuple[int, ...]) -> None:
    pairs = [[(0, 1), (1, 3), (3, 6)][k] for k in order]
    found = check_pass(model(calls(pairs, 1), "6,6,6"), "join_slices", ["SplitV"] + ["Abs"] * 3)
    assert [v.shape for v in found.main.ops[0].results] == [(6, 1, 6), (6, 2, 6), (6, 3, 6)]


SHRUNK = "StridedSlice(%x, [0,{0},0], [2,{1},4], [1,1,1]) {{shrink_axis_mask: 2}}"


def test_slices_that_drop_their_axis_are_an_unpack() -> None:
    found = [SHRUNK.format(k, k + 1) for k in range(6)]
    check_pass(model(found), "join_slices", ["Unpack"] + ["Abs"] * 6)
    gathered = [f"Gather(%x, {k}) {{axis: 1}}" for k in range(6)]
    check_pass(model(gathered), "join_slices", ["Unpack"] + ["Abs"] * 6)


@pytest.mark.parametrize(
    "slices",
    [
        [*calls([(0, 3)], 1), *calls([(3, 6)], 1, "%o")],  # of two values
        [*calls([(0, 3)], 1), *calls([(3, 6)], 2)],  # along two axes
        ["Slice(%x, [0,0,0], [6,3,3])", "Slice(%x, [0,3,3], [6,3,3])"],  # along both at once
        [  # even and odd indices
            "StridedSlice(%x, [0,0,0], [6,6,6], [1,2,1])",
            "StridedSlice(%x, [0,1,0], [6,6,6], [1,2,1])",
        ],
        [*calls([(0, 3)], 1), "StridedSlice(%x, [0,5,0], [6,2,6], [1,-1,1])"],  # backwards
        ["Gather(%x, [0,1,2]) {axis: 1}", "Gather(%x, [5,4,3]) {axis: 1}"],  # not in ascending order
        ["Gather(%x, [0,1,2]) {axis: 1}", "Gather(%x, [3,5,4]) {axis: 1}"],
    ],
)
def test_other_slices_stay(slices: list[str]) -> None:
    kinds = [kind for call in slices for kind in (call.partition("(")[0], "Abs")]
    check_pass(model(slices, "6,6,6"), "join_slices", kinds)
