# SPDX-License-Identifier: Apache-2.0
"""Slices of all elements, paddings of width 0, and paddings that a Slice removes again."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.text import parse_model
from circlekit.ops.movement.slice import Slice
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import chain, check_pass

SLICE, STRIDED, PAD = (
    "remove_unnecessary_slice",
    "remove_unnecessary_strided_slice",
    "remove_unnecessary_pad",
)

# -- SLICE -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "size"), [("[2,3]", "[2, 3]"), ("[2,3]", "[-1, 3]"), ("[?,3]", "[-1, -1]")]
)
def test_slice_of_everything(shape: str, size: str) -> None:
    check_pass(chain(shape, f"Slice(%a, [0, 0], {size})"), SLICE, ["Neg", "Neg"])


@pytest.mark.parametrize(
    ("shape", "begin", "size", "sentence"),
    [
        ("[2,3]", "[0, 0]", "[2, 2]", "expected all 3 of axis 1, got the size 2 from index 0"),
        ("[2,3]", "[1, 0]", "[-1, 3]", "expected all 2 of axis 0, got the size -1 from index 1"),
        ("[?,3]", "[0, 0]", "[3, 3]", "expected all elements of axis 0, got the size 3 from index 0"),
    ],
)
def test_slice_of_a_part(shape: str, begin: str, size: str, sentence: str) -> None:
    check_pass(chain(shape, f"Slice(%a, {begin}, {size})"), SLICE, refused=sentence)


# -- STRIDED_SLICE -----------------------------------------------------------------------------

BIG = 2**31 - 1


@pytest.mark.parametrize(
    ("shape", "arguments", "attributes"),
    [
        ("[2,3]", "[0, 0], [2, 3], [1, 1]", ""),
        ("[2,3]", f"[0, -3], [9, {BIG}], [1, 1]", ""),
        ("[2,3]", "[1, 2], [1, 0], [1, 1]", "begin_mask: 3, end_mask: 3"),
        ("[2,3]", "[0], [2], [1]", ""),
        ("[2,3]", "[7, 0], [0, 3], [5, 1]", "ellipsis_mask: 1"),
        ("[2,3]", "[0, 0], [2, 3], [1, 1]", "offset: true"),
        ("[?,3]", "[0, 0], [0, 3], [1, 1]", "end_mask: 1"),
        ("[?,3]", f"[0, 0], [{BIG}, 3], [1, 1]", ""),
        ("[1,3]", "[0, 0], [1, 3], [2, 1]", ""),
        ("[1,3]", "[0, 0], [-2, 3], [-1, 1]", ""),
    ],
)
def test_strided_slice_of_everything(shape: str, arguments: str, attributes: str) -> None:
    text = chain(shape, f"StridedSlice(%a, {arguments}) {{{attributes}}}")
    check_pass(text, STRIDED, ["Neg", "Neg"])


@pytest.mark.parametrize(
    ("shape", "arguments", "attributes", "sentence"),
    [
        ("[2,3]", "[0, 0], [2, -1], [1, 1]", "", "does not take all of axis 1"),
        ("[2,3]", "[0, 1], [2, 3], [1, 1]", "", "does not take all of axis 1"),
        ("[2,3]", "[0, -1], [2, -4], [1, -1]", "", "does not take all of axis 1"),
        ("[2,3]", "[0, 0], [2, 3], [1, 2]", "", "does not take all of axis 1"),
        ("[2,3]", "[0, 1], [2, 3], [1, 1]", "begin_mask: 1", "does not take all of axis 1"),
        ("[2,3]", "[0, 0], [0, 2], [1, 1]", "end_mask: 1", "does not take all of axis 1"),
        ("[1,3]", "[0, 0], [1, 3], [1, 1]", "shrink_axis_mask: 1", "removes axis 0"),
        ("[2,3]", "[0, 0], [2, 3], [1, 1]", "new_axis_mask: 1", "adds an axis"),
        ("[?,3]", "[0, 0], [-1, 3], [1, 1]", "", "does not take all of axis 0"),
        ("[?,3]", "[0, 0], [3, 3], [1, 1]", "", "does not take all of axis 0"),
    ],
)
def test_strided_slice_of_a_part(shape: str, arguments: str, attributes: str, sentence: str) -> None:
    check_pass(chain(shape, f"StridedSlice(%a, {arguments}) {{{attributes}}}"), STRIDED, refused=sentence)


@pytest.mark.parametrize("seed", range(300))
def test_strided_slice_against_numpy(seed: int) -> None:
    """The slice is removed if and only if the kernel returns all elements (static shapes, no new axes)."""
    random = np.random.default_rng(seed)
    begin, end = random.integers(-4, 5, (2, 2)).tolist()
    strides = random.choice([1, 1, 1, 2, -1], 2).tolist()
    masks = {f"{m}_mask": int(random.integers(0, 4)) for m in ("begin", "end")}
    masks["ellipsis_mask"] = int(random.choice([0, 0, 0, 1, 2]))
    attributes = ", ".join(f"{k}: {v}" for k, v in masks.items())
    text = chain("[2,3]", f"StridedSlice(%a, {begin}, {end}, {strides}) {{{attributes}}}")
    model = parse_model(text)
    op = model.main.ops[1]
    array = np.arange(6).reshape(2, 3)
    result = op.kernel(array, *(np.array(v) for v in (begin, end, strides)))
    whole = result.shape == array.shape and bool((result == array).all())
    assert all_passes()[STRIDED]().run(model, Context()) == whole


# -- PAD ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "Pad(%a, [[0, 0], [0, 0]])",
        "PadV2(%a, [[0, 0], [0, 0]], 1.5)",
        "MirrorPad(%a, [[0, 0], [0, 0]])",
        "MirrorPad(%a, [[0, 0], [0, 0]]) {mode: SYMMETRIC}",
    ],
)
def test_padding_of_width_zero_is_removed(call: str) -> None:
    check_pass(chain("[?,3]", call), PAD, ["Neg", "Neg"])


@pytest.mark.parametrize(
    "call",
    ["Pad(%a, [[0, 0], [0, 1]])", "PadV2(%a, [[1, 0], [0, 0]], 1.5)", "MirrorPad(%a, [[0, 0], [0, 1]])"],
)
def test_padding_that_adds_a_border_is_refused(call: str) -> None:
    check_pass(chain("[2,3]", call), PAD, refused="expected only 0, got 1")


PADS = [
    "Pad(%a, [[1, 2], [2, 1]])",
    "PadV2(%a, [[1, 2], [2, 1]], 1.5)",
    "MirrorPad(%a, [[1, 2], [2, 1]])",
]
"""%a is [3,4], the result is [6,7]; %a lies in it from [1, 2] on."""


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize(
    ("cut", "kinds"),
    [
        ("Slice(%b, [1, 2], [3, 4])", ["Neg", "Neg"]),
        ("Slice(%b, [1, 3], [3, 2])", ["Neg", "Slice", "Neg"]),
        ("Slice(%b, [1, 2], [3, 3])", ["Neg", "Slice", "Neg"]),
    ],
)
def test_padding_that_is_sliced_off(pad: str, cut: str, kinds: list[str]) -> None:
    model = check_pass(chain("[3,4]", pad, cut), PAD, kinds)
    for op in model.main:
        if isinstance(op, Slice):
            assert op.begin.array().tolist() == [0, 0 if "[1, 2]" in cut else 1]


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("cut", ["Slice(%b, [0, 2], [4, 4])", "Slice(%b, [1, 2], [-1, 4])"])
def test_padding_that_is_sliced_off_in_part(pad: str, cut: str) -> None:
    check_pass(chain("[3,4]", pad, cut), PAD, refused="%c: keeps some of the border of %b")


@pytest.mark.parametrize("pad", PADS)
def test_padding_that_is_sliced_off_by_strides(pad: str) -> None:
    check_pass(chain("[3,4]", pad, "StridedSlice(%b, [1, 2], [4, 6], [1, 1])"), PAD, ["Neg", "Neg"])
    text = chain("[3,4]", pad, "StridedSlice(%b, [1, -5], [4, -1], [1, 1])")
    check_pass(text, PAD, ["Neg", "Neg"])
    for part in ("[1, 2], [4, 6], [1, 2]", "[1, 2], [4, 7], [1, 1]", "[1, 2], [4, 5], [1, 1]"):
        text = chain("[3,4]", pad, f"StridedSlice(%b, {part})")
        check_pass(text, PAD, refused="does not undo the padding of %b")


def test_padding_with_other_users_stays() -> None:
    text = chain("[3,4]", "Pad(%a, [[1, 2], [2, 1]])", "Slice(%b, [1, 2], [3, 4])", outputs="%y, %b")
    check_pass(text, PAD, ["Neg", "Pad", "Neg"])


def test_padding_of_an_unknown_dimension_is_refused() -> None:
    text = chain("[?,4]", "Pad(%a, [[1, 2], [2, 1]])", "Slice(%b, [1, 2], [3, 4])")
    check_pass(text, PAD, refused="may keep some of the border")
