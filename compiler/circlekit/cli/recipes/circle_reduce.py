# SPDX-License-Identifier: Apache-2.0
"""circle-reduce: find the smallest model on which a command still succeeds."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from circlekit.api.models import check_output_path, load, refuse_overwriting
from circlekit.cli.arguments import MODEL_HELP, Parser, output_path, positive_count, positive_number
from circlekit.cli.command import Command
from circlekit.equivalence.delta_debugging import ShowsFault, reduce_model, write_model
from circlekit.errors import CirclekitError, counted

DESCRIPTION = """Find the smallest model on which a command still succeeds.

    %(prog)s net.circle -- ./shows_the_fault.sh

COMMAND is run again and again, each time on a smaller model, the candidate: a file with the extension of the
model.  The path of the candidate is the last argument of COMMAND, or replaces {} in its arguments.  Exit code
0 means that the candidate still shows the fault.  The output of COMMAND is not shown.  Operators and outputs
are removed, attributes reset, sizes and constants made simpler, as long as the fault remains.  The result is
a recipe (a model as text), or a file in the format of the extension after -o."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument("command", nargs="+", help="command that exits with 0 if a model shows the fault")
    parser.add_argument(
        "-o",
        "--output",
        type=output_path,
        metavar="FILE",
        help="where to write the result (default: MODEL.reduced.ck)",
    )
    parser.add_argument(
        "--tries",
        type=positive_count,
        default=2000,
        metavar="N",
        help="maximum runs of COMMAND (default: 2000)",
    )
    parser.add_argument(
        "--timeout", type=positive_number, default=60, metavar="SECONDS",
        help="limit for one run of COMMAND, after which it counts as failed (default: 60)",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    output = arguments.output or f"{arguments.model}.reduced.ck"
    check_output_path(output)
    refuse_overwriting(arguments.model, output)
    model = load(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder, f"candidate{Path(arguments.model).suffix}")
        command = ShowsFault(arguments.command, candidate, arguments.timeout)
        # fail now, not at the end, if the output's format lacks an operator
        write_model(model, Path(folder, Path(output).name))
        if not command(model):
            words = " ".join(arguments.command)
            raise CirclekitError(f"{words} fails on {arguments.model} itself: expected exit code 0")
        smallest = reduce_model(model, command, arguments.tries - command.runs)  # one run was just made
    write_model(smallest, Path(output))
    before, runs = counted(len(model.main), "operator"), counted(command.runs, "run")
    print(f"{before} became {len(smallest.main)} in {runs}: {output}")
    return 0


main = Command("circle-reduce", DESCRIPTION, "model -- command ...", _declare, _run)
