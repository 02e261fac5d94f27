# SPDX-License-Identifier: Apache-2.0
"""Track how a chain of Transposes and Reshapes permutes the elements of a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from circlekit.ops.dimensions import normalized_axis


class Factor(NamedTuple):
    """A factor of an original dimension; ``place`` is its position in the original order."""

    size: int
    place: tuple[int, ...]

    def split(self, outer: int) -> tuple[Factor, Factor]:
        """Split into an outer factor of size ``outer`` and the inner factor."""
        return Factor(outer, (*self.place, 0)), Factor(self.size // outer, (*self.place, 1))


class ElementOrder:
    """The present axes of a tensor, each as a list of factors of the original dimensions, ``shape``."""

    def __init__(self, shape: Iterable[int]) -> None:
        self.axes = [[Factor(size, (index,))] for index, size in enumerate(shape)]

    def transpose(self, perm: Iterable[int]) -> None:
        rank = len(self.axes)
        self.axes = [self.axes[normalized_axis(int(a), rank)] for a in perm]

    def reshape(self, shape: Iterable[int]) -> bool:
        """Apply a Reshape; False (and an invalid object) if an axis of ``shape`` is no product of factors."""
        pieces = [p for axis in self.axes for p in axis if p.size != 1]
        axes = []
        for size in shape:
            axis: list[Factor] = []
            while size > 1 and pieces:
                piece = pieces.pop(0)
                if size % piece.size:
                    if piece.size % size:
                        return False
                    piece, rest = piece.split(size)
                    pieces.insert(0, rest)
                size //= piece.size
                axis.append(piece)
            axes.append(axis)
        self.axes = axes
        return True

    def is_unchanged(self) -> bool:
        """Whether all elements are in their original order."""
        places = [p.place for axis in self.axes for p in axis if p.size != 1]
        return places == sorted(places)
