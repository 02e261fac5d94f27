# SPDX-License-Identifier: Apache-2.0
"""Correlations against their definition, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array
from circlekit.ops.convolution.correlation import (
    Geometry,
    channel_product,
    correlate,
    correlate_depthwise,
    correlate_transposed,
)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape).astype(np.float64)


GEOMETRIES = [
    Geometry.of((7,), (3,), (2,), (1,), Padding.SAME),
    Geometry.of((7,), (2,), (3,), (2,), Padding.VALID),
    Geometry.of((3,), (5,), (1,), (1,), Padding.SAME),
    Geometry.of((2,), (3,), (1,), (4,), Padding.SAME),
    Geometry.transposed((4,), (9,), (3,), (2,), (1,), Padding.VALID),
    Geometry.transposed((4,), (5,), (3,), (2,), (1,), Padding.SAME),
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_one_axis(geometry: Geometry) -> None:
    """Along an axis, tap k of window w is over element w * stride + k * dilation - before."""
    (taps,), (stride,), (dilation,), (before,), (windows,), (size,) = geometry
    filter = numbers(4, taps, 3)
    gathered, scattered = np.zeros((2, windows, 4)), np.zeros((2, size, 4))
    x, y = numbers(2, size, 3), numbers(2, windows, 3)
    for w, k in np.ndindex(windows, taps):
        element = w * stride + k * dilation - before
        if 0 <= element < size:
            gathered[:, w] += x[:, element] @ filter[:, k].T
            scattered[:, element] += y[:, w] @ filter[:, k].T
    np.testing.assert_array_equal(correlate(x, filter, geometry), gathered)
    np.testing.assert_array_equal(correlate_transposed(y, filter, geometry), scattered)


def test_geometry() -> None:
    """SAME puts the odd element of padding after the data; VALID has no padding."""
    assert GEOMETRIES[0] == ((3,), (2,), (1,), (1,), (4,), (7,))
    assert GEOMETRIES[1] == ((2,), (3,), (2,), (0,), (2,), (7,))
    assert Geometry.of((6,), (4,), (1,), (1,), Padding.SAME).before == (1,)
    assert GEOMETRIES[4].before == (0,)
    assert GEOMETRIES[5].before == (1,)


def test_taps_without_data_are_skipped() -> None:
    taps = [tap for tap, _, _ in GEOMETRIES[3].overlaps()]
    assert taps == [(slice(None), 1)], "of a window of 9 elements over 2"
    large = Geometry.of((1, 1), (99999, 99999), (1, 1), (1, 1), Padding.SAME)
    assert len(list(large.overlaps())) == 1


def test_depthwise_is_grouped() -> None:
    """Each channel has its own filters: the groups of a convolution with one channel each."""
    geometry = Geometry.of((5, 6), (3, 2), (2, 1), (1, 2), Padding.SAME)
    x, filter = numbers(2, 5, 6, 3), numbers(1, 3, 2, 6)
    by_groups = correlate(x, filter.transpose(3, 1, 2, 0), geometry)
    np.testing.assert_array_equal(correlate_depthwise(x, filter, geometry), by_groups)


def test_channel_product() -> None:
    """Two groups: outputs 0 and 1 read the first 3 of 6 channels, outputs 2 and 3 the others."""
    x, weights = numbers(2, 5, 6), numbers(4, 3)
    wanted = np.concatenate([x[..., :3] @ weights[:2].T, x[..., 3:] @ weights[2:].T], axis=-1)
    np.testing.assert_array_equal(channel_product(x, weights), wanted)
    assert channel_product(numbers(2, 0), numbers(4, 0)).tolist() == [[0.0] * 4] * 2


@pytest.mark.parametrize("depth", [0, 2])
def test_products_of_no_channels_are_zeros(depth: int) -> None:
    np.testing.assert_array_equal(channel_product(numbers(2, 3, 0), numbers(4, depth)), np.zeros((2, 3, 4)))
