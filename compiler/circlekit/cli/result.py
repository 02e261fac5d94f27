# SPDX-License-Identifier: Apache-2.0
"""Print the result of optimizing or converting a model, as text or JSON; read and write standard streams."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from circlekit.api.models import ModelFile, target_format
from circlekit.api.options import Options
from circlekit.api.rewriting import convert
from circlekit.cli.arguments import Parser, refusing
from circlekit.cli.output.explanations import print_explanations
from circlekit.cli.output.json_text import json_text
from circlekit.cli.output.terminal import is_terminal, paragraph, printable, printing_to_stderr
from circlekit.errors import FileError
from circlekit.io.write.save import format_of
from circlekit.ir.resources.progress import Progress, watched
from circlekit.ir.text.columns import format_columns
from circlekit.passes.engine.model_summary import Port
from circlekit.passes.engine.optimization_report import Report
from circlekit.toolchain.one_words import one_words
from circlekit.toolchain.pass_log import log_lines

MAX_PORTS = 12
"""The result lists at most this many inputs, and at most this many outputs."""

PIPE = "-"
"""The path that stands for the standard input or output."""

NO_PASS_HINT = "no pass was asked for: --O1 runs the default pipeline"
"""The ``hint`` of a command that runs passes only if flags name them."""


def add_result_flags(parser: Parser) -> None:
    """Add ``--json`` and ``--quiet``, which the functions of this file read from the parsed arguments.

    These functions also read the following attributes, which other flags or ``set_defaults`` may set.

    - ``mute_warnings``: whether to drop warnings and notes; by default False
    - ``hint``: a line to print if no pass ran; by default ""
    - ``format``: circle, tflite or None; only ``converted`` and its callers need it, and it has no default
    - ``verbose``: only ``run_conversion_as_one_does`` needs it, and it has no default
    """
    parser.add_switch("--json", help="print the result as one JSON document")
    parser.add_switch("-q", "--quiet", help="print nothing but errors")
    parser.set_defaults(mute_warnings=False, hint="")


def source_of(path: str) -> ModelFile:
    """Return the source for ``load``: the standard input if ``path`` is ``-``, else ``path`` itself.

    Raise FileError if the standard input is closed.
    """
    if path != PIPE:
        return path
    if sys.stdin is None:
        raise FileError("expected a model on the standard input, which is closed")
    return sys.stdin.buffer


def source_name(path: str) -> str:
    """Return ``path`` as messages show it: "<stdin>" for ``-``."""
    return "<stdin>" if path == PIPE else path


def run_conversion(arguments: argparse.Namespace, source: str, target: str, options: Options) -> None:
    """Convert the file ``source`` to the file ``target``, and print the result; ``-`` is a standard stream.

    ``arguments``: see ``add_result_flags``.  ``options``: the passes and the checks of the conversion.
    Report wrong usage and exit if the extension of ``target`` does not fit ``arguments.format``.
    """
    if target != PIPE:
        with refusing(arguments):
            target_format(target, arguments.format)
    with output_to(target) as output:
        report = converted(arguments, source, output, options)
        if arguments.json and not arguments.quiet:
            print(json_text(report.document()))
        elif not arguments.quiet:
            _print_explanations(report)
            print(*result_lines(report, arguments.hint), sep="\n")


def run_conversion_as_one_does(
    arguments: argparse.Namespace, source: str, target: str, options: Options, failed: str
) -> None:
    """Convert ``source`` to ``target``, and print as ONE's commands do: nothing, unless a flag asks for it.

    The format is ``arguments.format``, or else that of the target's extension, or else circle.  ``--quiet``
    prints nothing; otherwise ``--json`` prints only the JSON document.  Without these two, print the
    explanations; with ``--verbose``, or if the environment variable LUCI_LOG is neither empty nor 0, also
    print the log of passes.
    ``failed``: the first words of the error if the output cannot be written.
    """
    arguments.format = arguments.format or (None if target == PIPE else format_of(target)) or "circle"
    with one_words(source, target, failed), output_to(target) as output:
        report = converted(arguments, source, output, options, is_strict=False)
        if arguments.quiet:
            return
        if arguments.json:
            print(json_text(report.document()))
            return
        _print_explanations(report)
        if arguments.verbose or os.environ.get("LUCI_LOG", "0") not in ("", "0"):
            print(*map(printable, log_lines(report)), sep="\n")


def converted(
    arguments: argparse.Namespace,
    source: str,
    output: str | BinaryIO,
    options: Options,
    is_strict: bool = True,
) -> Report:
    """Convert ``source`` to ``output`` and return the report.

    ``is_strict``: whether to refuse an output path whose extension is that of another format.
    """
    return run_quietly(
        arguments, lambda: convert(source_of(source), output, options, arguments.format, is_strict=is_strict)
    )


def _print_explanations(report: Report) -> None:
    """Print the explanations of ``report`` and an empty line, or nothing if there are none."""
    if report.explanations or report.op_explanations:
        print_explanations(report.explanations, report.op_explanations)
        print()


def run_quietly(arguments: argparse.Namespace, work: Callable[[], Report]) -> Report:
    """Return the report that ``work`` returns.

    With --quiet or --mute_warnings, show no warnings and remove the notes from the report.  With --quiet,
    show no progress, either.
    """
    is_mute = arguments.quiet or arguments.mute_warnings
    with quietly(arguments.quiet), warnings.catch_warnings():
        if is_mute:
            warnings.simplefilter("ignore")
        report = work()
    if is_mute:
        report.notes.clear()
    return report


@contextlib.contextmanager
def quietly(is_quiet: bool) -> Iterator[None]:
    """Return a context that shows neither progress nor warnings if ``is_quiet``."""
    # the base class ``Progress`` ignores all reports
    with warnings.catch_warnings(), watched(Progress()) if is_quiet else contextlib.nullcontext():
        if is_quiet:
            warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def output_to(path: str) -> Iterator[str | BinaryIO]:
    """Return a context whose value is ``path``, or for ``-`` the standard output as a binary stream.

    For ``-``, all text that is printed in the context goes to stderr.  Raise FileError if the standard output
    is closed or a terminal.
    """
    if path != PIPE:
        yield path
        return
    if sys.stdout is None:
        raise FileError("cannot write to the standard output: it is closed")
    if is_terminal(sys.stdout):
        raise FileError("the standard output is a terminal; redirect it to a file or a pipe, or name a file")
    stream = sys.stdout.buffer
    with printing_to_stderr():
        yield stream


def result_lines(report: Report, hint: str) -> list[str]:
    """Return the lines of the result: inputs, outputs, operators, sizes, passes that fired, conclusions.

    ``hint``: the line that is added if no pass ran.
    """
    lines = [f"{report.source} -> {report.target}"]
    for side, ports in (("input", report.after.inputs), ("output", report.after.outputs)):
        lines += _port_lines(side, ports)
    lines += ["", report.table()]
    if report.changes:
        lines += ["", format_columns([("passes that fired", "changes"), *report.changes.items()])]
    lines += ["", *report.verdicts()]
    notes = [f"note: {note}" for note in report.notes]
    for text in (*map(str, report.targets), *notes, report.growth, *_conclusion(report, hint)):
        lines += paragraph(text)
    return [printable(line) for line in lines]


def _port_lines(side: str, ports: Sequence[Port]) -> Iterator[str]:
    """Yield a line for each of the first MAX_PORTS inputs or outputs; ``side``: "input" or "output"."""
    for port in ports[:MAX_PORTS]:
        yield f"{side:6}  {printable(str(port), '')}"
    if len(ports) > MAX_PORTS:
        yield f"{side:6}  ... and {len(ports) - MAX_PORTS} more"


def _conclusion(report: Report, hint: str) -> Iterator[str]:
    """Yield sentences that say what was done; ``hint``: as in ``result_lines``."""
    if hint and not report.passes:
        yield hint
    elif report.passes and not report.changes:
        nothing = "nothing to do: " if report.unchanged else ""
        yield f"{nothing}no pass found anything to change"
    if report.legalizations:
        found = ", ".join(f"{name} {count}" for name, count in report.legalizations.items())
        yield f"replaced what .{report.after.format} or its target lacks: {found}"
    yield f"{'copied unchanged' if report.unchanged else 'written'} in {report.seconds:.2f} s"


# -- several models ----------------------------------------------------------------------------


def print_results(paths: Sequence[str], reports: Sequence[Report | None], hint: str) -> None:
    """Print the explanations and notes on several models, and a table with a row for each model.

    ``paths``: the models.  ``reports``: a report for each of them, or None for a model that failed.
    ``hint``: the line that is added if no pass ran on any model.
    """
    named = [(Path(path).name, report) for path, report in zip(paths, reports, strict=True)]
    for name, report in named:
        if report is not None and (report.explanations or report.op_explanations):
            print(f"{name}:")
            _print_explanations(report)
        # ``growth`` is "" if the file did not grow
        for text in [] if report is None else [*report.notes, *filter(None, [report.growth])]:
            print(*paragraph(f"note: {name}: {text}"), sep="\n")
    print(_table(named))
    if hint and not any(report is not None and report.passes for report in reports):
        print(hint)


def _table(named: Sequence[tuple[str, Report | None]]) -> str:
    """Return a table with a row for each pair of a file name and its report; None: the model failed.

    A model that was read from a text (a recipe) has no size in bytes: its row shows "text" instead.
    """
    rows = [("model", "operators", "bytes", "seconds", "result")]
    for name, report in named:
        if report is None:
            rows.append((name, "", "", "", "FAILED"))
            continue
        before, after = report.before, report.after
        size = f"{'text' if before.file_size is None else f'{before.file_size:,}'} -> {after.file_size:,}"
        result = "unchanged" if report.unchanged else "verified" if report.verified else "written"
        rows.append((name, f"{before.op_count} -> {after.op_count}", size, f"{report.seconds:.2f}", result))
    return format_columns(rows)
