# SPDX-License-Identifier: Apache-2.0
"""circlekit explain: why passes did not rewrite a model, or an operator of it."""

from __future__ import annotations

import argparse
import sys

from circlekit.api.explaining import explain_op
from circlekit.api.models import load
from circlekit.api.rewriting import optimize
from circlekit.cli.arguments import MODEL_HELP, Parser, add_target
from circlekit.cli.circle2circle import parse_pass_or_all, parse_passes
from circlekit.cli.command import Command
from circlekit.cli.output.explanations import print_explanations
from circlekit.cli.output.json_text import json_text
from circlekit.cli.result import source_of
from circlekit.passes.engine.explain import ALL_PASSES

OP_HELP = "%%NAME of a result, a code (TRANSPOSE), a class (Transpose), or a custom code"
"""How to name operators; argparse prints ``%%`` as one percent sign."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--pass", dest="name", type=parse_pass_or_all, default=ALL_PASSES, metavar="PASS",
        help="explain this pass (default: all; first those that came nearest to one more rewrite)",
    )  # fmt: skip
    which.add_argument("--op", metavar="OP", help=f"explain these operators: {OP_HELP}")
    parser.add_argument(
        "--after", type=parse_passes, default=[], metavar="P,P", help="run these passes and pipelines first"
    )
    parser.add_format("explain for this format of the output file (default: that of MODEL)")
    add_target(parser)
    parser.add_switch("--json", help="print a JSON document with all refusals")


def _run(arguments: argparse.Namespace) -> int:
    model = load(source_of(arguments.model))
    is_op = arguments.op is not None
    explained = None if is_op else arguments.name
    format, target = arguments.format, arguments.target
    report = optimize(model, arguments.after, explain=explained, format=format, target=target)
    operators = explain_op(model, arguments.op, format, target=target) if is_op else []
    if is_op and not operators:
        print(f"there is no operator {arguments.op} to explain", file=sys.stderr)
    if arguments.json:
        explanations = operators if is_op else report.explanations
        print(json_text([explanation.document() for explanation in explanations]))
    else:
        print_explanations(report.explanations, operators)
    return 0


main = Command(
    "circlekit explain",
    "Say why passes did not rewrite a model, or an operator of it. For each pass: how much it would rewrite, "
    "which operators it almost rewrote, and why it refused them. The model stays as it is.",
    "model",
    _declare,
    _run,
)
