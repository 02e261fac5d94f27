# SPDX-License-Identifier: Apache-2.0
"""Correlation of channels-last data with a filter.

Along each spatial axis, tap ``k`` of window ``w`` reads element ``w * stride + k * dilation - before`` of the
data, where ``before`` is the number of padding elements before the data.  The filter has a weight for each
tap.  The result of a convolution for a window is the sum over its taps: the weight of the tap times the
element that the tap reads.
A transposed convolution has a number for each window.  For each tap of the window, this number times the
weight of the tap is added to the element that the tap would read.
The functions loop over the taps, and make no padded copy of the data.

In shapes, *S, *K and *W stand for the spatial axes of the data, of the filter, and of the windows.  N is the
batch, I, O and C are channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array
from circlekit.ops.dimensions import axis_windows

PerAxis = tuple[int, ...]
"""One number for each spatial axis."""

Index = tuple[int | slice, ...]


class Geometry(NamedTuple):
    """Sliding windows over the spatial axes of data.  Each field has one number per axis.

    ``taps``: the elements in a window.  ``before``: the elements of padding before the data.  ``windows``:
    the number of windows.  ``size``: the elements of the data.
    """

    taps: PerAxis
    strides: PerAxis
    dilations: PerAxis
    before: PerAxis
    windows: PerAxis
    size: PerAxis

    @staticmethod
    @lru_cache(maxsize=1024)  # every run of a model asks for the same geometries
    def of(size: PerAxis, taps: PerAxis, strides: PerAxis, dilations: PerAxis, padding: Padding) -> Geometry:
        """Return the windows of a convolution over data of ``size``."""
        axes = [axis_windows(*axis, padding) for axis in zip(size, taps, strides, dilations, strict=True)]
        before, windows = [w.before for w in axes], [w.number for w in axes]
        return Geometry(*(tuple(numbers) for numbers in (taps, strides, dilations, before, windows, size)))

    @staticmethod
    def transposed(
        windows: PerAxis, size: PerAxis, taps: PerAxis, strides: PerAxis, dilations: PerAxis, padding: Padding
    ) -> Geometry:
        """Return the windows of a transposed convolution from data [*windows] to a result [*size].

        ``before`` is the padding of a convolution over [*size].  This convolution may have other numbers of
        windows than ``windows``.
        """
        before = [0] * len(size)
        if padding is Padding.SAME:
            axes = zip(size, taps, strides, dilations, strict=True)
            before = [axis_windows(*axis, padding).before for axis in axes]
        return Geometry(*(tuple(numbers) for numbers in (taps, strides, dilations, before, windows, size)))

    def overlaps(self) -> Iterator[tuple[Index, Index, Index]]:
        """Yield three indices per tap: of the tap, of the windows in which it reads data, of the data read.

        The indices are for arrays [O, *K, I], [N, *W, C] and [N, *S, C].  A tap that only reads padding is
        left out.
        """
        per_axis = [list(_overlaps(*axis)) for axis in zip(*self, strict=True)]  # in the order of the fields
        for combination in product(*per_axis):
            tap, windows, elements = ((slice(None), *indices) for indices in zip(*combination, strict=True))
            yield tap, windows, elements


def _overlaps(
    taps: int, stride: int, dilation: int, before: int, windows: int, size: int
) -> Iterator[tuple[int, slice, slice]]:
    """Yield the indices of ``Geometry.overlaps`` along one axis."""
    # taps before ``first_tap`` read only padding before the data; taps after the range, only padding after it
    first_tap = max(0, -(-(before - (windows - 1) * stride) // dilation))
    for tap in range(first_tap, min(taps, -(-(before + size) // dilation))):
        offset = tap * dilation - before  # the element that the tap reads in window 0
        # from ``first`` to ``last``: the windows in which the tap reads an element of the data
        first = max(0, -(offset // stride))
        last = min(windows - 1, (size - 1 - offset) // stride)
        if first <= last:
            elements = slice(first * stride + offset, last * stride + offset + 1, stride)
            yield tap, slice(first, last + 1), elements


def correlate(x: Array, filter: Array, geometry: Geometry) -> Array:
    """Return [N, *W, O]: ``x`` [N, *S, I], padded with 0, correlated with ``filter`` [O, *K, I / groups]."""
    out = np.zeros((len(x), *geometry.windows, len(filter)), x.dtype)
    for tap, windows, elements in geometry.overlaps():
        out[windows] += channel_product(x[elements], filter[tap])
    return out


def correlate_transposed(x: Array, filter: Array, geometry: Geometry) -> Array:
    """Return [N, *S, O], the gradient of ``correlate`` with respect to its data.

    ``x``: the gradient with respect to the result of ``correlate``, [N, *W, I].  ``filter``: [O, *K, I].  The
    filter of that ``correlate`` has O and I exchanged: [I, *K, O].
    Products that fall into the padding are dropped.
    """
    out = np.zeros((len(x), *geometry.size, len(filter)), x.dtype)
    for tap, windows, elements in geometry.overlaps():
        out[elements] += channel_product(x[windows], filter[tap])
    return out


def correlate_depthwise(x: Array, filter: Array, geometry: Geometry) -> Array:
    """Return [N, *W, C * M]: each channel of ``x`` [N, *S, C] correlated with M filters of its own.

    ``filter``: [1, *K, C * M].
    """
    multiplier = filter.shape[-1] // x.shape[-1]
    data = x if multiplier == 1 else x.repeat(multiplier, axis=-1)
    out = np.zeros((len(x), *geometry.windows, filter.shape[-1]), x.dtype)
    for tap, windows, elements in geometry.overlaps():
        out[windows] += data[elements] * filter[tap]
    return out


def channel_product(x: Array, weights: Array) -> Array:
    """Return [..., O]: each group of channels of ``x`` [..., I] times the rows of its group in ``weights``.

    ``weights``: [O, I / groups].
    """
    outputs, depth = weights.shape
    if x.shape[-1] == 0:
        return np.zeros((*x.shape[:-1], outputs), x.dtype)
    groups = x.shape[-1] // depth
    rows = x.reshape(-1, groups, depth).swapaxes(0, 1)
    matrices = weights.reshape(groups, outputs // groups, depth).swapaxes(1, 2)
    products: Array = np.matmul(rows, matrices).swapaxes(0, 1).reshape(*x.shape[:-1], outputs)
    return products
