# SPDX-License-Identifier: Apache-2.0
"""circle-interpreter runs a model on arrays in files.  i5diff compares the arrays of two HDF5 files."""

from __future__ import annotations

import argparse

from circlekit.api.models import load, refuse_overwriting, run
from circlekit.cli.arguments import MODEL_HELP, Parser, non_negative_number
from circlekit.cli.command import FAILED, Command, OneCodes
from circlekit.equivalence.data_files import tensor_files
from circlekit.errors import FileError, FormatError, ParseError
from circlekit.interp.interpreter import expect_runs
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress

INTERPRET_HELP = """Run a circle or TFLite model once.

Inputs and outputs are numbered from 0.  Input 0 is read from the file whose name is INPUT_PREFIX followed by
0; output 0 is written to OUTPUT_PREFIX followed by 0.  A file has the elements in memory order,
little-endian, without a header.  With --h5, all inputs are in the HDF5 file INPUT_PREFIX, and all outputs go
to the HDF5 file OUTPUT_PREFIX, in ONE's layout (/name and /value)."""


def _declare_interpreter(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument("input_prefix", help="the beginning of the names of input files")
    parser.add_argument("output_prefix", help="the beginning of the names of output files")
    parser.add_switch("--h5", help="read all inputs from one HDF5 file, write all outputs to another")


def _load(path: str) -> Model:
    """Return the model at ``path``; errors about the file are in ONE's words."""
    try:
        return load(path)
    except (FileError, FormatError, ParseError) as error:
        reason = error.message.removeprefix(f"{path}: ")
        raise FileError(f"Failed to load {path!r}: {reason}", *error.where) from None


def _interpret(arguments: argparse.Namespace) -> int:
    model = _load(arguments.model)
    read_inputs = tensor_files.read_h5 if arguments.h5 else tensor_files.read_raw
    write_outputs = tensor_files.write_h5 if arguments.h5 else tensor_files.write_raw
    _refuse_overwriting_inputs(arguments, len(model.main.inputs), len(model.main.outputs))
    inputs = read_inputs(arguments.input_prefix, model.main.inputs)
    progress().begin("running the model")
    expect_runs(model, 1)  # for the fraction that the progress line shows
    outputs = run(model, inputs)
    write_outputs(arguments.output_prefix, model.main.outputs, outputs)
    return 0


def _refuse_overwriting_inputs(arguments: argparse.Namespace, inputs: int, outputs: int) -> None:
    """Raise FileError if an output would overwrite the model or an input.

    ``inputs``, ``outputs``: how many inputs and outputs the model has.
    """

    def paths(prefix: str, count: int) -> list[str]:
        return [prefix] if arguments.h5 else [f"{prefix}{index}" for index in range(count)]

    for output in paths(arguments.output_prefix, outputs):
        for source in (arguments.model, *paths(arguments.input_prefix, inputs)):
            refuse_overwriting(source, output)


circle_interpreter = Command(
    "circle-interpreter",
    INTERPRET_HELP,
    "model input_prefix output_prefix",
    _declare_interpreter,
    _interpret,
    one=OneCodes(usage=1),
)


TOLERANCE = 0.001
"""The default tolerance of ONE's i5diff."""

I5DIFF_HELP = (
    "Compare two HDF5 files. Exits with 0 if all arrays have equal names, dtypes and shapes, and numbers "
    "that are equal up to TOL; else with 1."
)


def _declare_difference(parser: Parser) -> None:
    parser.add_argument("left", help="the file with the reference arrays")
    parser.add_argument("right", help="the file to compare with it")
    parser.add_argument(
        "-d", dest="tolerance", type=non_negative_number, default=TOLERANCE, metavar="TOL",
        help=f"absolute difference up to which numbers are equal (default: {TOLERANCE})",
    )  # fmt: skip


def _compare(arguments: argparse.Namespace) -> int:
    from circlekit.equivalence.data_files.array_files import compare_files  # slow to import

    outcomes = compare_files(arguments.left, arguments.right, arguments.tolerance)
    for outcome in outcomes:
        print(f"{'equal' if outcome.equal else 'DIFFERENT':9}  {outcome}")
    return 0 if all(outcome.equal for outcome in outcomes) else FAILED


i5diff = Command("i5diff", I5DIFF_HELP, "left right", _declare_difference, _compare)
