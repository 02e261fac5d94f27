# SPDX-License-Identifier: Apache-2.0
"""circle2circle: optimize a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from circlekit.cli.optimizer import optimize


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    return optimize(words)
