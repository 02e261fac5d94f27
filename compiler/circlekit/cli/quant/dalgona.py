# SPDX-License-Identifier: Apache-2.0
"""dalgona: run a model and call a user's Python functions at every operator, with ONE's flags and hooks."""

from __future__ import annotations

import argparse

from circlekit.api.one_tools import analyze
from circlekit.cli.arguments import MODEL_HELP, Parser
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model
from circlekit.equivalence.analysis_hooks import HOOKS

_OWN_HOOKS = "\n".join(f"  {operator}: {arguments}" for operator, arguments in HOOKS.items())

DESCRIPTION = f"""Run a model and call Python functions of the user, the hooks, at each operator.

FILE is NAME.py and defines a class NAME. The hooks are its methods, all of them optional:
StartAnalysis(args), EndAnalysis(), StartNetworkExecution(inputs), EndNetworkExecution(outputs),
DefaultOpPre(name, opcode, inputs), DefaultOpPost(name, opcode, inputs, outputs).

The operators below may have hooks of their own, such as Conv2DPre and Conv2DPost. Where such a hook is
defined, it is called in place of the default hook. Its arguments are the name and those listed here, in this
order; Pre hooks do not get output and outputs.

{_OWN_HOOKS}"""


def _declare(parser: Parser) -> None:
    parser.add_argument("--input_model", required=True, metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--input_data", metavar="DATA", help="the samples (default: one seeded random sample)"
    )
    parser.add_argument("--analysis", required=True, metavar="FILE", help="the Python file with the hooks")
    parser.add_argument("--analysis_args", default="", metavar="TEXT", help="the argument of StartAnalysis")


def _run(arguments: argparse.Namespace) -> int:
    model = load_model(arguments.input_model)
    if arguments.input_data is None:
        print("--input_data was not specified. Run with a random input.")
    sample_count = analyze(model, arguments.analysis, arguments.input_data, arguments.analysis_args)
    what = f"{sample_count}'th data" if arguments.input_data is not None else "a random input"
    print(f"Finished executing {what}")
    return 0


dalgona = Command(
    "dalgona", DESCRIPTION, "--input_model MODEL --analysis FILE", _declare, _run, one=OneCodes(usage=1)
)
