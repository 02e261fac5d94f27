# SPDX-License-Identifier: Apache-2.0
"""circle2tflite: write a circle model as TFLite; what TFLite lacks becomes operators that it has."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from circlekit.cli.conversion import convert_command


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    return convert_command(
        "circle2tflite",
        "tflite",
        "Write a circle model as TFLite; what TFLite lacks becomes operators that it has.",
        words,
    )
