# SPDX-License-Identifier: Apache-2.0
"""Layout optimization where transposes by different permutations meet."""

from __future__ import annotations

import itertools

import pytest

from circlekit.passes.layout.labels import MAX_LABELS
from tests.passes.kit import check_pass
from tests.passes.layout.pooled_models import NCHW, POOL, kinds, last

LAYOUT = "optimize_layout"


def test_two_transposes_that_follow_each_other_become_one() -> None:
    text = """graph main(%x: f32[1,4,4,2]) -> %y {
        %n = Neg(%x)
        %t = Transpose(%n, [0, 2, 1, 3])
        %u = Transpose(%t, [0, 1, 3, 2])
        %y = Neg(%u)
    }"""
    check_pass(text, LAYOUT, ["Neg", "Neg", "Transpose"])


THREE_LAYOUTS = """graph main(%a: f32[2,3,4,5], %b: f32[3,4,5,2]) -> %y {
    %s = Transpose(%a, [0, 2, 3, 1])
    %t = Transpose(%b, [3, 1, 2, 0])
    %m = Add(%s, %t)
    %y = Transpose(%m, [3, 2, 1, 0])
}"""


def test_a_layout_among_several_is_found() -> None:
    """Three transposes by different permutations surround Add; in the best layout, Add needs only two."""
    model = check_pass(THREE_LAYOUTS, LAYOUT)
    assert kinds(model).count("Transpose") == 2


def test_a_layout_that_another_user_needs_is_kept() -> None:
    """In another layout, Add would need one more transpose, before the second output of the graph."""
    model = check_pass(THREE_LAYOUTS.replace("-> %y", "-> %y, %m"), LAYOUT)
    assert kinds(model).count("Transpose") == 3


def test_a_transpose_within_one_layout_moves_with_it() -> None:
    """Add reads %r and its transpose, so both must be in one layout, here NHWC."""
    text = f"""graph main(%x: f32[1,4,4,3]) -> %y {{
                 %n = MaxPool2D(%x) {POOL}
                 %m = Transpose(%n, {NCHW})
                 %r = Relu(%m)
                 %s = Transpose(%r, [0, 1, 3, 2])
                 %z = Add(%r, %s)
                 {last("%z")}
               }}"""
    check_pass(text, LAYOUT, ["MaxPool2D", "Relu", "Transpose", "Add", "MaxPool2D"])


def test_a_join_does_not_move_to_an_axis_with_more_runs() -> None:
    """If %a and %z were [4,1,1,1], and were joined along axis 1, no Transpose would be needed before %y.

    But that join copies 8 runs of contiguous elements instead of 2, so the join stays along axis 0.
    """
    text = """graph main(%x: f32[1,1,4,1], %z: f32[1,1,4,1], %w: f32[2,3,4,5]) -> %y, %v {
        %a = Tanh(%x)
        %j = Concatenation(%a, %z) {axis: 0}
        %y = Transpose(%j, [2, 0, 1, 3])
        %b = Mul(%a, %w)
        %v = Transpose(%b, [3, 1, 2, 0])
    }"""
    check_pass(
        text, [LAYOUT, "merge_data_movement"], ["Tanh", "Concatenation", "Transpose", "Mul", "Transpose"]
    )


def test_layouts_beyond_the_largest_number_stay() -> None:
    """Each of MAX_LABELS + 3 transposes has a permutation of its own; at most 4 of them may stay."""
    perms = list(itertools.islice(itertools.permutations(range(4)), 1, MAX_LABELS + 4))
    links = [f"%t{i} = Transpose(%v{i}, {list(p)})\n%v{i + 1} = Relu(%t{i})" for i, p in enumerate(perms)]
    body = "\n".join(links)
    model = check_pass(f"graph main(%v0: f32[2,3,4,5]) -> %v{len(perms)} {{ {body} }}", LAYOUT)
    assert 1 <= kinds(model).count("Transpose") <= 4


SELF_MEETING = {
    "a sum of data and its transpose": (
        """%t = Transpose(%x, [0, 2, 1]) %u = Transpose(%x, [1, 2, 0]) %r = Relu(%u)
           %b = Transpose(%r, [2, 0, 1]) %y = Add(%b, %t)""",
        ["Transpose", "Relu", "Add"],
    ),
    "a product of two layouts, in the third": (
        """%e = Exp(%x) %a = Transpose(%e, [1, 0, 2]) %t = Transpose(%e, [2, 1, 0])
           %s = Softmax(%t) {beta: 1.0} %b = Transpose(%s, [1, 0, 2]) %y = Mul(%b, %a)""",
        ["Exp", "Transpose", "Softmax", "Mul", "Transpose"],
    ),
}


@pytest.mark.parametrize(("body", "expected"), SELF_MEETING.values(), ids=SELF_MEETING)
def test_data_may_meet_itself_transposed(body: str, expected: list[str]) -> None:
    check_pass(f"graph main(%x: f32[3,3,3]) -> %y {{ {body} }}", "optimize_layout", expected)
