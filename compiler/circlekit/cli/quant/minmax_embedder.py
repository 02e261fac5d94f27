# SPDX-License-Identifier: Apache-2.0
"""minmax-embedder: copy ranges into a model from a file of ONE's runtime, with ONE's flags."""

from __future__ import annotations

import argparse

from circlekit.api.models import check_output_path
from circlekit.api.one_tools import embed_ranges
from circlekit.cli.arguments import MODEL_HELP, Parser, finite_number, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model, save_model

DESCRIPTION = "Read the min and max that ONE's runtime recorded in an HDF5 file; write them into a model."


def _declare(parser: Parser) -> None:
    parser.add_argument("circle", help=MODEL_HELP)
    parser.add_argument("minmax", help="the HDF5 file with a min and a max for each run and tensor")
    parser.add_argument(
        "-o",
        type=output_path,
        default="out.circle",
        metavar="MODEL",
        help="file to write; circle, unless it ends in .tflite or .lite (default: out.circle)",
    )
    for end, ends, default in (("min", "minima", 1.0), ("max", "maxima", 99.0)):
        parser.add_argument(
            f"--{end}_percentile", type=finite_number, default=default, metavar="P",
            help=f"the {end} of a tensor is this percentile, 0 to 100, of its {ends} in all runs "
            f"(default: {default:g})",
        )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    check_output_path(arguments.o)
    model = load_model(arguments.circle)
    embed_ranges(model, arguments.minmax, arguments.min_percentile, arguments.max_percentile)
    save_model(model, arguments.o)
    return 0


minmax_embedder = Command(
    "minmax-embedder", DESCRIPTION, "circle minmax", _declare, _run, one=OneCodes(failed=1, usage=1)
)
