# SPDX-License-Identifier: Apache-2.0
"""circle2circle: optimize a model."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable, Sequence

from circlekit.cli.common import Parser, known_name, run_command
from circlekit.passes import all_passes
from circlekit.passes.pipelines import PIPELINES, in_order


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(_parser, argv, _run)


def _parser() -> Parser:
    description = "Optimize a circle or TFLite model; the order of the flags has no effect."
    parser = Parser("circle2circle", description, "input output")
    parser.add_argument("input", nargs="?", help="a .circle or .tflite file, or a model written as text")
    parser.add_argument("output", nargs="?", help="the file to write; its extension says the format")
    parser.add_argument(
        "-o", dest="format", choices=("circle", "tflite"), help="format, if the name says none"
    )
    known = all_passes()
    a_pass = known_name("pass", known)
    for name in PIPELINES:
        parser.add_argument(
            f"--{name}", action="append_const", dest="passes", const=name, help=f"all of {name}"
        )
    parser.add_argument(
        "--disable", type=a_pass, action="append", default=[], metavar="PASS", help="all but this"
    )
    parser.add_argument(
        "--verify", action="store_true", help="run before and after every pass, fail if it differs"
    )
    parser.add_argument(
        "--bisect",
        action="store_true",
        help="verify, and if it differs name the guilty rewrite; OUTPUT.bisect.ck shows it",
    )
    parser.add_argument("--record", metavar="DIR", help="verify, and keep what was compared as HDF5 files")
    parser.add_argument(
        "--explain", type=a_pass, metavar="PASS", help="say why this pass leaves things alone"
    )
    parser.add_argument("--list-passes", action="store_true", help="list the passes and leave")
    group = parser.add_argument_group("passes")
    for name in in_order(known):
        group.add_argument(
            f"--{name}",
            action="append_const",
            dest="passes",
            const=name,
            help=_summary(known[name]).replace("%", "%%"),
        )
    return parser


def _summary(item: type) -> str:
    return inspect.cleandoc(item.__doc__ or "").partition("\n")[0]


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list_passes:
        return _list_passes()
    if arguments.input is None or arguments.output is None:
        _parser().error("an input and an output are wanted")
    from circlekit.api import Options, convert
    from circlekit.cli.progress import ProgressLine
    from circlekit.cli.table import print_refusals, print_report

    with ProgressLine() as progress:
        options = Options(
            passes=_ordered(arguments.passes or ()),
            disable=arguments.disable,
            verify=arguments.verify,
            record=arguments.record,
            explain=arguments.explain,
            bisect=f"{arguments.output}.bisect.ck" if arguments.bisect else None,
            progress=progress,
        )
        report = convert(arguments.input, arguments.output, options, arguments.format)
    if arguments.explain is not None:
        print_refusals(arguments.explain, report.refusals)
    print_report(report)
    return 0


def _ordered(names: Iterable[str]) -> list[str]:
    """Pipelines first, then single passes: the order of the flags has no effect."""
    chosen = set(names)
    pipelines = sorted(chosen & set(PIPELINES))
    return [*pipelines, *in_order(chosen - set(pipelines))]


def _list_passes() -> int:
    known = all_passes()
    width = max(map(len, known), default=0)
    for name in in_order(known):
        member = " ".join(p for p, members in PIPELINES.items() if name in members)
        print(f"{name:{width}}  {member:2}  {_summary(known[name])}".rstrip())
    return 0
