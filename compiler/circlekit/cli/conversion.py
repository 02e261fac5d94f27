# SPDX-License-Identifier: Apache-2.0
"""The commands that change the format of a model and nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from circlekit.cli.common import Parser, add_limits, run_command


def convert_command(name: str, format: str, description: str, words: Sequence[str]) -> int:
    """Command ``name``: writes its input as ``format``."""

    def run(arguments: argparse.Namespace) -> int:
        from circlekit.api import Options, convert
        from circlekit.cli.progress import ProgressLine
        from circlekit.cli.table import print_report

        with ProgressLine() as progress:
            options = Options(verify=arguments.verify, progress=progress)
            report = convert(arguments.input, arguments.output, options, format)
        print_report(report)
        return 0

    def parser() -> Parser:
        parser = Parser(name, description, "input output")
        parser.add_argument("input", help="a .circle or .tflite file, or a model written as text")
        parser.add_argument("output", help=f"the .{format} file to write")
        parser.add_argument(
            "--verify", action="store_true", help="run before and after, fail where it differs"
        )
        add_limits(parser)
        return parser

    return run_command(parser, words, run)
