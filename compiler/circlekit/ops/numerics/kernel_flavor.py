# SPDX-License-Identifier: Apache-2.0
"""Kernel flavor: LiteRT's reference or optimized kernels, where their integer results differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

import numpy as np
from numpy.typing import NDArray


class Kernels(Enum):
    """LiteRT's reference kernels (``BUILTIN_REF``), or its optimized kernels for x86 without delegates.

    Optimized kernels round halves up, not away from zero, in layers on 8-bit data: CONV_2D without groups,
    TRANSPOSE_CONV, DEPTHWISE_CONV_2D of int8, and FULLY_CONNECTED, which they compute in fixed point.
    Kernels that take eight channels at a time round the remaining channels as the reference does.  So is the
    remainder of up to 15 results of a uint8 TRANSPOSE_CONV in LiteRT, but not here.
    """

    REFERENCE = "reference"
    OPTIMIZED = "optimized"


_FOLLOWED: ContextVar[Kernels] = ContextVar("followed", default=Kernels.REFERENCE)


@contextmanager
def following(kernels: Kernels) -> Iterator[None]:
    """Context in which operators are computed as by ``kernels``."""
    token = _FOLLOWED.set(kernels)
    try:
        yield
    finally:
        _FOLLOWED.reset(token)


def rounds_up() -> bool:
    """Whether convolutions and FULLY_CONNECTED round halves up, not away from zero."""
    return _FOLLOWED.get() is Kernels.OPTIMIZED


def in_eights(channels: int) -> NDArray[np.bool_]:
    """Return a mask of the channels that are in a complete group of eight, counted from the first."""
    return np.arange(channels) < channels // 8 * 8
