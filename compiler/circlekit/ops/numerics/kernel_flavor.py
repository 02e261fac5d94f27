# SPDX-License-Identifier: Apache-2.0
"""Which of LiteRT's kernels are followed where its reference and its optimized ones give other integers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

import numpy as np
from numpy.typing import NDArray


class Kernels(Enum):
    """LiteRT's ``BUILTIN_REF``, and its kernels for x86 without delegates.

    The latter round halves of the sums of 8 bits up: in CONV_2D (not in grouped ones, which they leave to the
    reference), TRANSPOSE_CONV, DEPTHWISE_CONV_2D of int8, and FULLY_CONNECTED, which is in fixed point there.
    Where they go through eight channels at a time, those that are left over are rounded as in the reference;
    so are up to 15 numbers at the end of a TRANSPOSE_CONV of uint8, which ours rounds up, too.
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


def in_eights(channels: int) -> NDArray[np.bool_]:
    """Which of so many channels are in whole eights from the first on."""
    return np.arange(channels) < channels // 8 * 8
