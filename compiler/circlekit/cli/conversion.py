# SPDX-License-Identifier: Apache-2.0
"""circle2tflite and tflite2circle: change the format of a model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from circlekit.api import Options, convert
from circlekit.cli.arguments import Parser, add_limits
from circlekit.cli.display import ProgressLine, print_report
from circlekit.cli.process import run_command


def circle2tflite(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    description = "Write a circle model as TFLite. What TFLite lacks is replaced by operators that it has."
    return _run(argv, "circle2tflite", "tflite", description)


def tflite2circle(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    return _run(argv, "tflite2circle", "circle", "Write a TFLite model as circle.")


def _run(argv: Sequence[str] | None, name: str, format: str, description: str) -> int:
    def parser() -> Parser:
        parser = Parser(name, description, "input output")
        parser.add_argument("input", help="a .circle or .tflite file, or a model as text")
        parser.add_argument("output", help=f"the .{format} file to write")
        parser.add_argument(
            "--verify", action="store_true", help="compare the outputs before and after; fail if they differ"
        )
        add_limits(parser)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        with ProgressLine() as progress:
            options = Options(verify=arguments.verify, progress=progress)
            report = convert(arguments.input, arguments.output, options, format)
        print_report(report)
        return 0

    return run_command(parser, argv, run)
