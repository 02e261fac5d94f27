# SPDX-License-Identifier: Apache-2.0
"""tflite2circle: write a TFLite model as circle."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.conversion import convert_command


def main(argv: Sequence[str] | None = None) -> int:
    return convert_command("tflite2circle", "circle", "Write a TFLite model as circle.", argv)
