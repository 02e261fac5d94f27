# SPDX-License-Identifier: Apache-2.0
"""What a chain of Transposes and Reshapes does to the order of the elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from circlekit.ops.dimensions import normalized_axis


class Piece(NamedTuple):
    """A run of ``size`` steps along a dimension.  ``place`` orders the pieces as they were at first."""

    size: int
    place: tuple[int, ...]

    def split(self, outer: int) -> tuple[Piece, Piece]:
        """The same steps as ``outer`` runs, and the steps of each."""
        return Piece(outer, (*self.place, 0)), Piece(self.size // outer, (*self.place, 1))


class Moves:
    """Where the elements of a tensor of ``shape`` have gone; each axis is a list of pieces."""

    def __init__(self, shape: Iterable[int]) -> None:
        self.axes = [[Piece(size, (index,))] for index, size in enumerate(shape)]

    def transpose(self, perm: Iterable[int]) -> None:
        rank = len(self.axes)
        self.axes = [self.axes[normalized_axis(int(a), rank)] for a in perm]

    def reshape(self, shape: Iterable[int]) -> bool:
        """Whether the axes of ``shape`` are made of whole pieces; if not, nothing is told any more."""
        pieces = [p for axis in self.axes for p in axis if p.size != 1]
        axes = []
        for size in shape:
            axis: list[Piece] = []
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

    def in_order(self) -> bool:
        """Whether every element is where it was, in another shape at most."""
        places = [p.place for axis in self.axes for p in axis if p.size != 1]
        return places == sorted(places)
