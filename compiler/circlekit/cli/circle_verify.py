# SPDX-License-Identifier: Apache-2.0
"""circle-verify: check a circle file."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.inspection import verify_command


def main(argv: Sequence[str] | None = None) -> int:
    return verify_command("circle-verify", "circle", argv)
