# SPDX-License-Identifier: Apache-2.0
"""The runs that a copy between two tensors moves, counted element by element."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from circlekit.passes.layout.permuted_op import _copied_runs


def counted(source: tuple[int, ...], result: tuple[int, ...]) -> int:
    """Return the number of runs of a copy from ``source`` to ``result``, counted element by element.

    The elements whose indices exist in both tensors are copied.  A run is contiguous in both tensors.
    Example: from [2, 3] to [2, 4], 2 runs of 3 elements.
    """
    both = tuple(map(min, source, result))
    box = tuple(slice(dim) for dim in both)
    places = [np.arange(np.prod(s)).reshape(s)[box].reshape(-1).tolist() for s in (source, result)]
    steps = zip(*map(pairwise, places), strict=True)
    return 1 + sum(any(b != a + 1 for a, b in step) for step in steps)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_runs_are_contiguous_in_both_tensors(rank: int) -> None:
    shapes = list(product((1, 2, 3), repeat=rank))
    for source, result in product(shapes, repeat=2):
        expected = 0 if source == result else counted(source, result)  # equal shapes need no copy
        assert _copied_runs(source, result) == expected


def test_unknown_dimensions_count_as_one() -> None:
    assert _copied_runs((None, 3, 4), (None, 3, 8)) == 3
    assert _copied_runs((2, None, 4), (2, None, 8)) == 2
    assert _copied_runs((None, 4), (8, 4)) == 1
