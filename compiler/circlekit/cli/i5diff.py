# SPDX-License-Identifier: Apache-2.0
"""i5diff: compare two HDF5 files of named arrays."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from circlekit.cli.common import FAILED, Parser, add_limits, run_command

TOLERANCE = 0.001
"""The peer's."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(_parser, argv, _run)


def _parser() -> Parser:
    description = "Compare two HDF5 files by name and value; leaves with 0 if equal, else with 1."
    parser = Parser("i5diff", description, "left right")
    parser.add_argument("left", help="the reference")
    parser.add_argument("right", help="what to compare with it")
    parser.add_argument(
        "-d", dest="tolerance", type=_tolerance, default=TOLERANCE, metavar="TOL",
        help=f"largest absolute difference of equal numbers (default {TOLERANCE})",
    )  # fmt: skip
    add_limits(parser)
    return parser


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"a number from 0 up is wanted, not {text!r}")
    return value


def _run(arguments: argparse.Namespace) -> int:
    from circlekit.equivalence.hdf5_diff import compare_files

    entries = compare_files(arguments.left, arguments.right, arguments.tolerance)
    for entry in entries:
        print(f"{'equal' if entry.equal else 'DIFFERENT':9}  {entry}")
    return 0 if all(entry.equal for entry in entries) else FAILED
