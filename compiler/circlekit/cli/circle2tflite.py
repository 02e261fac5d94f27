# SPDX-License-Identifier: Apache-2.0
"""circle2tflite: write a circle model as TFLite; what TFLite lacks becomes operators that it has."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.conversion import convert_command


def main(argv: Sequence[str] | None = None) -> int:
    return convert_command(
        "circle2tflite",
        "tflite",
        "Write a circle model as TFLite; what TFLite lacks becomes operators that it has.",
        argv,
    )
