# SPDX-License-Identifier: Apache-2.0
"""A progress that counts announced and finished work."""

from __future__ import annotations

from circlekit.ir.resources.progress import Progress


class Work(Progress):
    """``left``: the announced work that is not done.  ``total``: the work announced by ``expect``."""

    left = total = 0

    def begin(self, step: str, total: int = 0, unit: str = "") -> None:
        self.left += total

    def expect(self, amount: int) -> None:
        self.left += amount
        self.total += amount

    def advance(self, amount: int = 1, remark: str = "") -> None:
        self.left -= amount
