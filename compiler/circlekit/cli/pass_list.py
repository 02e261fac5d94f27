# SPDX-License-Identifier: Apache-2.0
"""circlekit passes: list all passes by pipeline and phase, or describe some of them in full."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from circlekit.cli.arguments import Parser
from circlekit.cli.command import Command
from circlekit.cli.output.terminal import text_columns
from circlekit.passes.engine.describe import section, table
from circlekit.passes.engine.registry import every_pass, unknown_name
from circlekit.passes.pipelines import PIPELINES, in_order


def _declare(parser: Parser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="pass", help="passes to describe in full (default: list all)"
    )
    parser.add_switch("--all", help="describe all passes in full")


def _run(arguments: argparse.Namespace) -> int:
    names = [name.replace("-", "_") for name in arguments.names]
    for name in names:
        if name in PIPELINES:
            arguments.refuse(f"{name} is a pipeline; circlekit passes, without names, lists its passes")
        if name not in every_pass():
            arguments.refuse(unknown_name("pass", name, every_pass()))
    print_passes(in_order(every_pass()) if arguments.all else names)
    return 0


def print_passes(names: Sequence[str]) -> None:
    """Print the full descriptions of the passes ``names``; for no names, print a list of all passes."""
    classes = every_pass()
    if not names:
        print(table(classes, text_columns()))
    for name in names:
        print(*section(classes[name]), sep="\n", end="\n\n")


passes = Command(
    "circlekit passes",
    "List the passes in groups, or describe one. A description has conditions, pictures and settings.",
    "[pass ...]",
    _declare,
    _run,
    limits=False,  # no flags that limit memory: no model is read
)
