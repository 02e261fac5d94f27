# SPDX-License-Identifier: Apache-2.0
"""tflite2circle: write a TFLite model as circle."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from circlekit.cli.conversion import convert_command


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    return convert_command("tflite2circle", "circle", "Write a TFLite model as circle.", words)
