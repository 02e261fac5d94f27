# SPDX-License-Identifier: Apache-2.0
"""circle-interpreter: run a model on inputs from files, and write its outputs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from circlekit.cli.common import Parser, add_limits, run_command

DESCRIPTION = """Run a circle or TFLite model once.

Input N is read from the file INPUT_PREFIX followed by N, and output N is written to OUTPUT_PREFIX followed by
N: the elements alone, in the order of memory, little-endian, without a header; N counts from 0.  With --h5
they are two HDF5 files instead, in ONE's layout (/name and /value), whose names are just INPUT_PREFIX and
OUTPUT_PREFIX."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(_parser, argv, _run)


def _parser() -> Parser:
    parser = Parser("circle-interpreter", DESCRIPTION, "model input_prefix output_prefix")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="a circle or TFLite model, or one as text")
    parser.add_argument("input_prefix", help="how the names of the input files begin")
    parser.add_argument("output_prefix", help="how the names of the output files begin")
    parser.add_argument("--h5", action="store_true", help="inputs and outputs are an HDF5 file each")
    add_limits(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from circlekit.api import load
    from circlekit.equivalence import tensor_files
    from circlekit.interp.interpreter import run

    model = load(arguments.model)
    inputs = tensor_files.read_h5 if arguments.h5 else tensor_files.read_raw
    outputs = tensor_files.write_h5 if arguments.h5 else tensor_files.write_raw
    arrays = run(model, inputs(arguments.input_prefix, model.main.inputs))
    outputs(arguments.output_prefix, model.main.outputs, arrays)
    return 0
