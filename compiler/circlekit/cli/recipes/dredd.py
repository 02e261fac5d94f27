# SPDX-License-Identifier: Apache-2.0
"""dredd: run tests that are written as recipes; ``recipes.dredd_cases`` describes the lists of tests."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from circlekit.api.models import check_output_paths
from circlekit.cli.arguments import Parser, add_scheduler, output_path, positive_count
from circlekit.cli.circle2circle import parse_passes
from circlekit.cli.command import FAILED, Command
from circlekit.cli.output.json_text import json_text
from circlekit.cli.output.progress_line import results_in_order
from circlekit.cli.output.terminal import paragraph, printable
from circlekit.equivalence.data_files.tensor_files import check_folder
from circlekit.equivalence.fleet import connected
from circlekit.errors import counted
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import write_file
from circlekit.ir.resources.progress import progress
from circlekit.ir.text.columns import cut, format_columns
from circlekit.recipes.dredd_cases import Case, cases_of

if TYPE_CHECKING:
    from circlekit.recipes.dredd import Result

JSON_SCHEMA = 1
"""The version of the JSON document; a change that breaks readers increases it.

``results`` has, for each test, its ``status`` and the fields of ``recipes.dredd.Result``.
"""

MAX_NOTE_CHARACTERS = 400
"""The notes of a test are cut after this many characters.  Notes say what was not compared, and why."""

DESCRIPTION = (
    "Run tests that are written as recipes. Each makes a model, runs passes on it, checks rules, and "
    "compares all values before and after. "
    "Exits with 0 if no test fails."
)


def _declare(parser: Parser) -> None:
    parser.add_argument(
        "sources", nargs="+", metavar="list_or_folder", help="a test.lst or .tsv list, a folder, or a recipe"
    )
    parser.add_argument(
        "--recipes", action="append", default=[], metavar="DIR", help="folder with the recipes of a list"
    )
    parser.add_argument(
        # names may also be separated by spaces
        "--passes", action="extend", type=lambda text: parse_passes(",".join(text.split())), default=[],
        metavar="P,P", help="passes for recipes that name none; without effect on lists",
    )  # fmt: skip
    parser.add_switch("--no-rules", help="for lists: do not check the rules of the recipes")
    parser.add_switch("--no-litert", help="do not compare with LiteRT, nor import it")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the files of each test in DIR/NAME")
    parser.add_argument(
        "-j", dest="jobs", type=positive_count, metavar="N", help="processes (default: one per processor)"
    )
    add_scheduler(parser)
    parser.add_argument("--junit", type=output_path, metavar="FILE", help="write the results as JUnit XML")
    parser.add_argument("--json", type=output_path, metavar="FILE", help="write the results as JSON")
    parser.add_switch("--all", help="list also the tests that passed without notes")


def _run(arguments: argparse.Namespace) -> int:
    from circlekit.equivalence import litert
    from circlekit.recipes.dredd_runs import run_cases  # h5py is slow to import

    if arguments.keep is not None:
        check_folder(arguments.keep)
    check_output_paths(filter(None, (arguments.junit, arguments.json)))
    for source in arguments.sources:
        with translated(source, "read"):  # unlike a recipe that a list names, a source must exist
            Path(source).stat()
    cases = [
        case
        for source in arguments.sources
        for case in cases_of(source, arguments.recipes, arguments.passes, not arguments.no_rules)
    ]
    progress().begin("", len(cases), "recipes")  # "": a step without a name
    with connected(arguments.scheduler) as client:
        runs = run_cases(cases, arguments.keep, not arguments.no_litert, arguments.jobs, client)
        results = results_in_order(runs, lambda result: bool(result.failures))
    if arguments.junit is not None:
        from circlekit.cli.output.junit import junit_xml

        write_file(arguments.junit, [junit_xml(cases, results)])
    if arguments.json is not None:
        results_as_json = [{"status": result.status, **asdict(result)} for result in results]
        document = {"schema": JSON_SCHEMA, "results": results_as_json}
        write_file(arguments.json, [json_text(document).encode()])
    return _report(cases, results, arguments.all, litert.why_not_compared(not arguments.no_litert))


# -- report ------------------------------------------------------------------------------------


def _report(cases: Sequence[Case], results: Sequence[Result], list_all: bool, litert_obstacle: str) -> int:
    """Print the table of tests, the failures and the totals; return the exit code.

    ``results``: the result of each of ``cases``, in the same order.
    ``list_all``: whether the table also has tests that passed without notes.
    ``litert_obstacle``: why nothing was compared with LiteRT; "" if the comparison was possible.
    """
    listed = [r for r in results if list_all or r.status != "passed" or r.notes]
    if listed:
        header = ("status", "operators", "rules", "values", "LiteRT", "test")
        head, *rows = format_columns([header, *map(_row, listed)], left=len(header)).splitlines()
        print(head)
        for row, result in zip(rows, listed, strict=True):
            print(row, *paragraph(cut("; ".join(result.notes), MAX_NOTE_CHARACTERS), "    "), sep="\n")
    for case, result in zip(cases, results, strict=True):
        if result.failures:
            where = case.recipe or case.place  # a list can name a recipe that does not exist
            print(f"\n{result.name} ({where}) {' '.join(result.passes)}".rstrip())
            for failure in result.failures:
                print("  " + failure.replace("\n", "\n  "))
    counts = Counter(result.status for result in results)
    compared = sum(result.compared > 0 for result in results)
    by_litert = f"with LiteRT in {sum(result.litert > 0 for result in results)}"
    print(f"\n{counted(len(results), 'test')}: {counts['passed']} passed, {counts['failed']} failed")
    print(f"values compared in {compared}, {litert_obstacle or by_litert}")
    return FAILED if counts["failed"] else 0


def _row(result: Result) -> tuple[str, ...]:
    """Return the cells of the table for one test.

    Unknown numbers are left out, and so is 0, except in the column of operators.
    """
    after = "" if result.after is None else f" -> {result.after}"
    return (
        result.status,
        "" if result.before is None else f"{result.before}{after}",
        str(result.rules or ""),
        str(result.compared or ""),
        str(result.litert or ""),
        printable(result.name, ""),
    )


main = Command("dredd", DESCRIPTION, "list_or_folder ...", _declare, _run)
