# SPDX-License-Identifier: Apache-2.0
"""circlekit report: write an HTML page about a model, or about a model before and after a change."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from circlekit.api.models import check_output_path, read, records_of, refuse_overwriting
from circlekit.cli.arguments import MODEL_HELP, Parser, add_inputs, add_target
from circlekit.cli.circle2circle import parse_passes
from circlekit.cli.command import Command
from circlekit.cli.result import PIPE, output_to, quietly, source_name, source_of
from circlekit.io.write.file_writer import write_file
from circlekit.passes.pipelines import PIPELINES

if TYPE_CHECKING:
    from circlekit.report.content import Source

DESCRIPTION = """Show a model, or what a change did to it, as an HTML page.

    circlekit report net.circle                  one model
    circlekit report net.circle --O1             before and after passes
    circlekit report net.tflite small.tflite     two models

The page needs no network.  It shows operators, a drawing of the graph, cost, activation memory and, for two
models, what changed and how far their values are apart."""


def _declare(parser: Parser) -> None:
    parser.add_argument("before", help=MODEL_HELP)
    parser.add_argument("after", nargs="?", help="a second model, to compare with the first")
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="FILE",
        help="the page to write; - is stdout (default: report.html)",
    )  # fmt: skip
    for name in PIPELINES:
        parser.add_argument(
            f"--{name}", action="append_const", dest="pipelines", const=name,
            help=f"compare with the result of {name}",
        )  # fmt: skip
    parser.add_argument(
        "--passes", action="extend", type=parse_passes, default=[], metavar="P,P",
        help="compare with the result of these passes",
    )  # fmt: skip
    add_inputs(parser, "compare the values on the inputs")
    add_target(parser, "list the operators that these runtimes cannot run (default: as for circlekit check)")
    parser.add_switch("--no-values", help="do not run the models to compare their values")
    parser.add_switch("-q", "--quiet", help="print nothing but errors")


def _run(arguments: argparse.Namespace) -> int:
    from circlekit.report.content import collect
    from circlekit.report.page import render, require_jinja

    passes = [*(arguments.pipelines or ()), *arguments.passes]
    paths = [path for path in (arguments.before, arguments.after) if path is not None]
    if len(paths) == 2 and passes:
        arguments.refuse("expected a second model or passes, got both")
    if paths == [PIPE, PIPE]:
        arguments.refuse("expected at most one model from the standard input, got two")
    require_jinja()  # before the work: raises an error if jinja2 is not installed
    if arguments.output != PIPE:
        check_output_path(arguments.output)
        for path in paths:
            refuse_overwriting(path, arguments.output)
    with output_to(arguments.output) as output, quietly(arguments.quiet):
        sources = [_source(path) for path in paths]
        records = records_of(sources[0].model, arguments.inputs)
        second = sources[1] if len(sources) == 2 else None
        content = collect(
            sources[0], second, passes, records, with_values=not arguments.no_values, target=arguments.target
        )
        page = render(content)
        if isinstance(output, str):  # a path, not the standard output
            write_file(output, [page])
        else:
            output.write(page)
        if not arguments.quiet:
            written = "<stdout>" if arguments.output == PIPE else arguments.output
            print(f"wrote {written}: {len(page):,} bytes")
            if content.values is not None:
                print(f"values: {content.values.verdict}")
    return 0


def _source(path: str) -> Source:
    """Return the model at ``path``, for the report, with its name and the size of its file."""
    from circlekit.report.content import Source

    model, file = read(source_of(path))
    return Source(source_name(path), model, None if file is None else len(file))


main = Command("circlekit report", DESCRIPTION, "before [after]", _declare, _run)
