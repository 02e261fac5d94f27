# SPDX-License-Identifier: Apache-2.0
"""circle2tflite and tflite2circle: change the format of a model."""

from __future__ import annotations

import argparse

from circlekit.api import Options, convert
from circlekit.cli.command import MODEL_HELP, Command, Parser
from circlekit.cli.terminal_output import ProgressLine, print_report


def _declare(parser: Parser) -> None:
    parser.add_argument("input", help=MODEL_HELP)
    parser.add_argument("output", help=f"the .{parser.get_default('format')} file to write")
    parser.add_switch("--verify", help="compare the outputs before and after; fail if they differ")


def _run(arguments: argparse.Namespace) -> int:
    with ProgressLine() as progress:
        options = Options(verify=arguments.verify, progress=progress)
        report = convert(arguments.input, arguments.output, options, arguments.format)
    print_report(report)
    return 0


circle2tflite = Command(
    "circle2tflite",
    "Write a circle model as TFLite. What TFLite lacks is replaced by operators that it has.",
    "input output",
    _declare,
    _run,
    "tflite",
)
tflite2circle = Command(
    "tflite2circle", "Write a TFLite model as circle.", "input output", _declare, _run, "circle"
)
