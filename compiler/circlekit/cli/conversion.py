# SPDX-License-Identifier: Apache-2.0
"""circle2tflite and tflite2circle: change the format of a model."""

from __future__ import annotations

import argparse
from functools import partial

from circlekit.api import Options, convert
from circlekit.cli.command import Parser, add_limits, run_command
from circlekit.cli.terminal_output import ProgressLine, print_report


def _command(name: str, format: str, description: str) -> partial[int]:
    def parser() -> Parser:
        parser = Parser(name, description, "input output")
        parser.add_argument("input", help="a .circle or .tflite file, or a model as text")
        parser.add_argument("output", help=f"the .{format} file to write")
        parser.add_switch("--verify", help="compare the outputs before and after; fail if they differ")
        add_limits(parser)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        with ProgressLine() as progress:
            options = Options(verify=arguments.verify, progress=progress)
            report = convert(arguments.input, arguments.output, options, format)
        print_report(report)
        return 0

    return partial(run_command, parser, run)


circle2tflite = _command(
    "circle2tflite",
    "tflite",
    "Write a circle model as TFLite. What TFLite lacks is replaced by operators that it has.",
)
tflite2circle = _command("tflite2circle", "circle", "Write a TFLite model as circle.")
