# SPDX-License-Identifier: Apache-2.0
"""tfl-inspect: print what is in a TFLite file, one thing a line."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.inspection import inspect_command


def main(argv: Sequence[str] | None = None) -> int:
    return inspect_command("tfl-inspect", "tflite", argv)
