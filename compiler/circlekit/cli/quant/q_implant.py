# SPDX-License-Identifier: Apache-2.0
"""q-implant: write quantization parameters and integer constants from files into a model, as ONE does."""

from __future__ import annotations

import argparse

from circlekit.api.models import check_output_path
from circlekit.api.one_tools import implant
from circlekit.cli.arguments import MODEL_HELP, Parser, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model, save_model

DESCRIPTION = """Quantize a float model with given parameters.

The JSON file has an object for each tensor, with the keys dtype, quantized_dimension, scale and zerop. The
object of a constant may also have the key value. The keys scale, zerop and value name npy files: the scales,
the zero points, and the integers of the constant."""


def _declare(parser: Parser) -> None:
    parser.add_argument("input", help=MODEL_HELP)
    parser.add_argument("qparam", help="the JSON file; the npy files are in its folder")
    parser.add_argument("output", type=output_path, help="file to write")


def _run(arguments: argparse.Namespace) -> int:
    check_output_path(arguments.output)
    model = load_model(arguments.input)
    implant(model, arguments.qparam)
    save_model(model, arguments.output)
    return 0


q_implant = Command("q-implant", DESCRIPTION, "input qparam output", _declare, _run, one=OneCodes(usage=1))
