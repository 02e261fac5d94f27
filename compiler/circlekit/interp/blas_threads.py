# SPDX-License-Identifier: Apache-2.0
"""Limit numpy's BLAS to one thread for models whose matrix products are too small for several threads.

A BLAS library splits each product among its threads and waits for the last thread.  On a busy machine this
wait takes longer than the product.  Measured on two cores with a load average of 8: models that run longer
than 1 ms were 2.5 times faster with one thread (median; at most 17 times).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

SMALL_MACS = 1 << 18
"""OpenBLAS itself uses one thread for products of up to this many multiply-accumulates."""

LARGE_MACS = 1 << 26
"""Several threads are faster than one for operators of at least this many multiply-accumulates."""


@cache
def blas_libraries() -> ThreadpoolController:
    """Return the controller of the BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas")


def limited_blas_threads(largest_macs: int) -> AbstractContextManager[object]:
    """Return a context that limits BLAS to one thread if several threads would be slower.

    ``largest_macs``: the multiply-accumulates of the largest operator that runs in the context.  While the
    context lasts, the limit holds for the whole process, other Python threads included.
    """
    one_is_faster = SMALL_MACS < largest_macs < LARGE_MACS
    return blas_libraries().limit(limits=1) if one_is_faster else nullcontext()
