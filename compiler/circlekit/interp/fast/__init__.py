# SPDX-License-Identifier: Apache-2.0
"""Specialised kernels for operators whose parameters are constant."""

from __future__ import annotations

from collections.abc import Callable

from circlekit.ir.op import Op
from circlekit.ir.value import Array

FastKernel = Callable[..., Array]
"""Called like ``Op.kernel``, with one array per operand; returns the single result."""


def prepare(op: Op) -> FastKernel | None:
    """Return a kernel for ``op`` with its constants prepared, or None if ``op.kernel`` is to be used."""
    return None
