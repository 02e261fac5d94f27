# SPDX-License-Identifier: Apache-2.0
"""circledump: print a circle file."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.dump import dump_command


def main(argv: Sequence[str] | None = None) -> int:
    return dump_command("circledump", "circle", argv)
