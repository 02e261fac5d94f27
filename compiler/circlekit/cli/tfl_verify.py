# SPDX-License-Identifier: Apache-2.0
"""tfl-verify: check a TFLite file."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.inspection import verify_command


def main(argv: Sequence[str] | None = None) -> int:
    return verify_command("tfl-verify", "tflite", argv)
