# SPDX-License-Identifier: Apache-2.0
"""Output size and padding of sliding windows; the tests of convolutions and pools use LiteRT."""

from __future__ import annotations

import pytest

from circlekit.errors import ShapeError
from circlekit.ir.enums import Padding
from circlekit.ops.dimensions import LARGEST_WINDOW, axis_windows, padded_window_count


def test_axis_windows() -> None:
    # size, taps, stride, dilation; expected: the number of windows, the padding before and after
    assert axis_windows(5, 2, 1, 1, Padding.SAME) == (5, 0, 1)  # the odd element goes after
    assert axis_windows(5, 3, 2, 2, Padding.SAME) == (3, 2, 2)  # 3 windows of span 5 cover 9 elements: 4 more
    assert axis_windows(2, 1, 3, 1, Padding.SAME) == (1, 0, 0)
    assert axis_windows(5, 2, 2, 1, Padding.VALID) == (2, 0, 0)


def test_number_of_windows() -> None:
    assert padded_window_count(None, 3, 1, 1, Padding.SAME) is None
    assert padded_window_count(5, None, 2, 1, Padding.SAME) == 3
    assert padded_window_count(5, None, 2, 1, Padding.VALID) is None
    assert padded_window_count(5, 3, 1, 2, Padding.VALID) == 1
    assert padded_window_count(5, 3, 1, 3, Padding.VALID) == 0, "a window of 7 elements"
    assert axis_windows(0, 9, 2, 1, Padding.VALID) == (0, 0, 0)


@pytest.mark.parametrize(
    ("taps", "stride", "dilation", "sentence"),
    [
        (3, 0, 1, "expected a stride from 1 to 1048576, got 0"),
        (3, 1, 0, "expected a dilation of at least 1, got 0"),
        (3, LARGEST_WINDOW + 1, 1, "expected a stride from 1 to 1048576, got 1048577"),
        (LARGEST_WINDOW + 1, 1, 1, "expected a window of at most 1048576 elements, got 1048577"),
        (2, 1, LARGEST_WINDOW, "got 2 with dilation 1048576"),
    ],
)
def test_windows_that_do_not_fit(taps: int, stride: int, dilation: int, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        padded_window_count(5, taps, stride, dilation, Padding.VALID)


def test_the_largest_windows_are_accepted() -> None:
    assert padded_window_count(5, LARGEST_WINDOW, LARGEST_WINDOW, 1, Padding.SAME) == 1
    assert padded_window_count(5, 5, 1, 1, Padding.VALID) == 1
