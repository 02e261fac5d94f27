# SPDX-License-Identifier: Apache-2.0
"""circle-reduce: the smallest model on which a command still says yes."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from circlekit.cli.common import Parser, add_limits, counted, run_command

DESCRIPTION = """Make a model smaller as long as a command says that it still shows what is looked for.

    circle-reduce net.circle -- ./shows_it.sh

COMMAND is run again and again with the path of a candidate behind its arguments, or in the place of {} among
them.  Exit code 0: the candidate still shows it, and the search goes on from there; any other: it does not.
What COMMAND prints is not shown.  Operators, outputs, attributes, sizes and constants are taken away until
none of them can go.  The result is a recipe, a model as text that every command here reads, or, if the name
behind -o ends so, a .circle or .tflite file."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(_parser, argv, _run)


def _parser() -> Parser:
    parser = Parser("circle-reduce", DESCRIPTION, "model -- command ...")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="a circle or TFLite model, or one as text")
    parser.add_argument("command", nargs="+", help="says by its exit code 0 that a model still shows it")
    parser.add_argument(
        "-o", dest="output", metavar="FILE", help="where to write the result (default: MODEL.reduced.ck)"
    )
    parser.add_argument(
        "--tries", type=counted, default=2000, metavar="N", help="runs of COMMAND, at most (default: 2000)"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=60,
        metavar="SECONDS",
        help="for one run; longer means no (default: 60)",
    )
    add_limits(parser)
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"a number of seconds above 0 is wanted, not {text[:40]!r}")
    return seconds


def _run(arguments: argparse.Namespace) -> int:
    import tempfile
    from pathlib import Path

    from circlekit.api import load
    from circlekit.api.checks import check_target
    from circlekit.cli.progress import ProgressLine
    from circlekit.equivalence.delta_debugging import reduce_model
    from circlekit.equivalence.interestingness import Command, write_model
    from circlekit.errors import CirclekitError

    output = arguments.output or f"{arguments.model}.reduced.ck"
    check_target(output)
    model = load(arguments.model)
    with tempfile.TemporaryDirectory() as folder, ProgressLine() as progress:
        suffix = Path(arguments.model).suffix
        command = Command(arguments.command, Path(folder), suffix, arguments.timeout, progress)
        if not command(model):
            raise CirclekitError(f"{' '.join(arguments.command)} does not say 0 for {arguments.model} itself")
        smallest = reduce_model(model, command, arguments.tries - command.runs)
    write_model(smallest, Path(output))
    print(f"{len(model.main)} operators became {len(smallest.main)} in {command.runs} runs: {output}")
    return 0
