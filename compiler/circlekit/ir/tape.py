# SPDX-License-Identifier: Apache-2.0
"""What a kernel writes its calls of numpy on.

A bound kernel (``Op.bind``) does not compute: it asks for memory, and says which functions are to be called
with which arrays.  The tape here calls them at once, which is how an operator is computed alone.  That of an
interpreter notes them: memory is then planned once, views are made once, what follows from constants is
prepared once, and a run is nothing but the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from circlekit.ir.resource_limits import need_memory
from circlekit.ir.tensor import Array

Need: TypeAlias = tuple[tuple[int, ...], "np.dtype[Any]"]
"""Shape and dtype of memory that a call works in."""


class Turns(NamedTuple):
    """Memory for ``first``, and the same once more for ``then``: what is in one is lost with the other."""

    first: Sequence[Need | None]
    then: Sequence[Need | None]


class Tape:
    """Calls at once; every array has its elements already.

    ``scratch``: bytes that one call should do with, beside its operands and its results.
    """

    scratch: int = 1 << 62

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Memory for a result or for scratch; what is in it before the kernel's first call is not known.

        LimitError where it is more than may be used.
        """
        kind = np.dtype(dtype)
        need_memory(prod(shape) * kind.itemsize, lambda: f"{kind}{[*shape]}")
        return np.empty(shape, kind)

    def do(self, function: Callable[..., object], *args: Any, **options: Any) -> None:
        """Call ``function(*args, **options)`` in every run, in the order of these lines."""
        function(*args, **options)

    def work(self, function: Callable[..., object], *needs: Need | Turns | None) -> None:
        """Like ``do``, with an array for each of ``needs`` (None for none) as arguments.

        All such calls work in the same memory: none knows what is in it, nor leaves anything there.
        """
        single = [
            n for need in needs for n in ([*need.first, *need.then] if isinstance(need, Turns) else [need])
        ]
        function(*(None if need is None else self.empty(*need) for need in single))

    def several(self, write: Callable[..., object], *needs: Need) -> None:
        """Like ``work``, where ``write(tape, *arrays)`` says what to call.

        It takes less time than one function that makes the calls, and more of Python's objects.
        """
        write(self, *(self.empty(*need) for need in needs))

    def fixed(self, *arrays: Array | None) -> bool:
        """Whether all ``arrays`` have their elements now, the same in all runs: constants, or none."""
        return True

    def room(self, size: int) -> bool:
        """Whether ``keeps`` would say so."""
        return True

    def keeps(self, size: int) -> bool:
        """Whether so many bytes more may be held as long as the interpreter lives; they then count."""
        return True

    def copy(self, source: Array, target: Array) -> None:
        """Copy ``source``, which broadcasts, to ``target``, with a cast where their dtypes differ."""
        self.do(target.__setitem__, Ellipsis, source)

    def holds(self, *arrays: Array) -> None:
        """Note that arrays which belong to no value are held as long as the interpreter lives."""

    # -- ranges --------------------------------------------------------------------------------

    def reach(self, array: Array | None) -> float:
        """A magnitude that no element of ``array`` exceeds, unless it is NaN; inf where none is known."""
        return np.inf

    def limit(self, array: Array, reach: float) -> None:
        """Note that no element of ``array``, the kernel's result, will exceed ``reach``, unless it is NaN."""

    # -- forms ---------------------------------------------------------------------------------

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        """``array`` in another shape: a view, or a copy that is made in every run where there is none."""
        return array.reshape(shape)

    def contiguous(self, array: Array) -> Array:
        """``array``, or a copy in the order of its axes without gaps: that of a constant is made but once."""
        return np.ascontiguousarray(array)

    # -- other graphs --------------------------------------------------------------------------

    def graph(self, graph: Any, operands: Sequence[Array]) -> Sequence[Array] | None:
        """The outputs of another graph; None where they cannot be bound."""
        return None

    def choice(
        self, condition: Array, graphs: tuple[Any, Any], operands: Sequence[Array]
    ) -> Sequence[Array] | None:
        """The outputs of the first graph where the condition holds, else of the second; or None."""
        return None

    def loop(self, condition: Any, body: Any, state: Sequence[Array]) -> Sequence[Array] | None:
        """``state`` through ``body`` as long as ``condition`` of it holds; or None."""
        return None


NOW = Tape()
