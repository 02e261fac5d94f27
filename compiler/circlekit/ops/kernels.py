# SPDX-License-Identifier: Apache-2.0
"""Which of LiteRT's kernels are followed where its reference and its optimized ones give other integers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class Kernels(Enum):
    """LiteRT's ``BUILTIN_REF``, and its kernels for x86 without delegates.

    The latter round halves of the sums of 8 bits up: in CONV_2D (not in grouped ones, which they leave to the
    reference), TRANSPOSE_CONV, DEPTHWISE_CONV_2D of int8, and FULLY_CONNECTED, which is in fixed point there.
    """

    REFERENCE = "reference"
    OPTIMIZED = "optimized"


_FOLLOWED: ContextVar[Kernels] = ContextVar("followed", default=Kernels.REFERENCE)


@contextmanager
def following(kernels: Kernels) -> Iterator[None]:
    """Within, operators are bound and computed as ``kernels`` do."""
    token = _FOLLOWED.set(kernels)
    try:
        yield
    finally:
        _FOLLOWED.reset(token)


def rounds_up() -> bool:
    """Whether convolutions and FULLY_CONNECTED round halves up, not away from zero."""
    return _FOLLOWED.get() is Kernels.OPTIMIZED
