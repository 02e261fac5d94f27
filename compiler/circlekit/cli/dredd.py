# SPDX-License-Identifier: Apache-2.0
"""dredd: test recipes, with passes, rules and values."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from circlekit.cli.common import FAILED, Parser, add_limits, run_command

if TYPE_CHECKING:
    from circlekit.recipes.dredd import Result
    from circlekit.recipes.dredd_cases import Case


WIDEST = 110
"""Characters of notes in the table; the operands of some operators fill a screen."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(_parser, argv, _run)


def _parser() -> Parser:
    description = (
        "Cook recipes, run passes on them, check rules, and compare all values before and after. "
        "Leaves with 0 if no test fails."
    )
    parser = Parser("dredd", description, "list_or_folder ...")
    parser.add_argument(
        "sources", nargs="+", metavar="list_or_folder", help="test.lst, a .tsv list, a folder, or a recipe"
    )
    parser.add_argument(
        "--recipes", action="append", default=[], metavar="DIR", help="where a list's recipes are"
    )
    parser.add_argument(
        "--passes", type=_names, default=[], metavar="P,P", help="what to run on recipes that do not say"
    )
    parser.add_argument("--no-rules", action="store_true", help="for lists: values only, no test.rule")
    parser.add_argument("--no-litert", action="store_true", help="do not ask LiteRT")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the files of each test in DIR/NAME")
    parser.add_argument("-j", dest="jobs", type=_jobs, metavar="N", help="processes (default: processors)")
    parser.add_argument("--all", action="store_true", help="list the tests that passed, too")
    add_limits(parser)
    return parser


def _names(text: str) -> list[str]:
    from circlekit.cli.pass_flags import names

    return names(",".join(text.split()))


def _jobs(text: str) -> int:
    if not text.isdigit() or text == "0":
        raise argparse.ArgumentTypeError(f"a number of processes is wanted, not {text!r}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    from circlekit.cli.progress import ProgressLine
    from circlekit.equivalence.recorded_values import check_folder
    from circlekit.recipes.dredd_cases import cases_of
    from circlekit.recipes.process_pool import Settings, run_cases

    if arguments.keep is not None:
        check_folder(arguments.keep)
    cases = [
        case
        for source in arguments.sources
        for case in cases_of(source, arguments.recipes, arguments.passes, not arguments.no_rules)
    ]
    settings = Settings(arguments.keep, not arguments.no_litert)
    results: dict[int, Result] = {}
    with ProgressLine() as progress:
        for index, result in run_cases(cases, settings, arguments.jobs):
            results[index] = result
            progress(f"{len(results)} of {len(cases)} {result.name}")
    ordered = [results[index] for index in range(len(cases))]
    return _report(cases, ordered, arguments.all)


# -- report ------------------------------------------------------------------------------------


def _report(cases: Sequence[Case], results: Sequence[Result], everything: bool) -> int:
    """The tests worth a line, then what failed, then the numbers."""
    rows = [_row(r) for r in results if everything or r.status != "passed" or r.notes]
    if rows:
        _print_table([("test", "status", "operators", "rules", "values", "LiteRT", "notes"), *rows])
    for case, result in zip(cases, results, strict=True):
        if result.failures:
            print(f"\n{result.name} ({case.recipe or case.place}) {' '.join(result.passes)}")
            for failure in result.failures:
                print("  " + failure.replace("\n", "\n  "))
    counts = Counter(result.status for result in results)
    compared = sum(result.compared > 0 for result in results)
    by_litert = sum(result.litert > 0 for result in results)
    print(
        f"\n{len(results)} tests: {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['missing']} with passes that do not exist; values compared in {compared}, "
        f"with LiteRT in {by_litert}"
    )
    return FAILED if counts["failed"] else 0


def _row(result: Result) -> tuple[str, ...]:
    notes = [f"there is no pass {', '.join(result.missing)}"] if result.missing else []
    after = "" if result.after is None else f" -> {result.after}"
    operators = "" if result.before is None else f"{result.before}{after}"
    return (
        result.name,
        result.status,
        operators,
        str(result.rules or ""),
        str(result.compared or ""),
        str(result.litert or ""),
        _cut("; ".join([*notes, *result.notes])),
    )


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [f"{cell:{width}}" for cell, width in zip(row[:-1], widths, strict=True)]
        print("  ".join([*cells, row[-1]]).rstrip())
