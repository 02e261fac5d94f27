# SPDX-License-Identifier: Apache-2.0
"""i5diff: compare two HDF5 files of named arrays."""

from __future__ import annotations

import argparse

from circlekit.cli.command import FAILED, Command, Parser, non_negative_number

TOLERANCE = 0.001
"""The default of ONE."""


DESCRIPTION = "Compare two HDF5 files by name and value. Exits with 0 if they are equal, else with 1."


def _declare(parser: Parser) -> None:
    parser.add_argument("left", help="the reference")
    parser.add_argument("right", help="the file to compare with it")
    parser.add_argument(
        "-d", dest="tolerance", type=non_negative_number, default=TOLERANCE, metavar="TOL",
        help=f"largest absolute difference of equal numbers (default: {TOLERANCE})",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    from circlekit.equivalence.hdf5 import compare_files  # h5py is slow to import

    entries = compare_files(arguments.left, arguments.right, arguments.tolerance)
    for entry in entries:
        print(f"{'equal' if entry.equal else 'DIFFERENT':9}  {entry}")
    return 0 if all(entry.equal for entry in entries) else FAILED


main = Command("i5diff", DESCRIPTION, "left right", _declare, _run)
