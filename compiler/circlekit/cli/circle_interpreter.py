# SPDX-License-Identifier: Apache-2.0
"""circle-interpreter: run a model on inputs from files, and write its outputs."""

from __future__ import annotations

import argparse

from circlekit.api import load, run
from circlekit.cli.command import MODEL_HELP, Command, Parser
from circlekit.equivalence import tensor_files

DESCRIPTION = """Run a circle or TFLite model once.

Input N is read from the file INPUT_PREFIX followed by N, and output N is written to OUTPUT_PREFIX followed by
N, counted from 0.  The files hold the elements in memory order, little-endian, without a header.  With --h5
there are two HDF5 files instead, INPUT_PREFIX and OUTPUT_PREFIX, in ONE's layout (/name and /value)."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument("input_prefix", help="beginning of the names of the input files")
    parser.add_argument("output_prefix", help="beginning of the names of the output files")
    parser.add_switch("--h5", help="read and write one HDF5 file each")


def _run(arguments: argparse.Namespace) -> int:
    model = load(arguments.model)
    read_inputs = tensor_files.read_h5 if arguments.h5 else tensor_files.read_raw
    write_outputs = tensor_files.write_h5 if arguments.h5 else tensor_files.write_raw
    outputs = run(model, read_inputs(arguments.input_prefix, model.main.inputs))
    write_outputs(arguments.output_prefix, model.main.outputs, outputs)
    return 0


main = Command("circle-interpreter", DESCRIPTION, "model input_prefix output_prefix", _declare, _run)
