# SPDX-License-Identifier: Apache-2.0
"""circlekit optimize and circlekit convert: write one model to a file, or several models to a folder."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from circlekit.api.models import load, refuse_overwriting
from circlekit.api.options import Options
from circlekit.api.rewriting import convert
from circlekit.cli.arguments import Parser
from circlekit.cli.circle2circle import (
    DESCRIPTION,
    add_optimization_flags,
    add_verify,
    options_of,
    print_passes_if_asked,
)
from circlekit.cli.command import FAILED, Command, for_each_file
from circlekit.cli.output.json_text import json_of_each
from circlekit.cli.result import PIPE, add_result_flags, print_results, run_conversion, run_quietly
from circlekit.equivalence.data_files.tensor_files import check_folder
from circlekit.errors import FileError, counted
from circlekit.io.file_map import map_file
from circlekit.io.read.flatbuffer_decoder import identify
from circlekit.io.write.file_writer import made_folders
from circlekit.ir.resources.progress import Forwarder, watched
from circlekit.passes.engine.optimization_report import Report

MakeOptions = Callable[[str], Options]
"""A function that returns the options for an output path."""


def _declare_files(parser: Parser) -> None:
    parser.add_argument(
        "models", nargs="*", metavar="input",
        help="model files, or models as text; - is stdin; without -o, the second is the file to write",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="the file to write; for several models a folder; - is stdout",
    )  # fmt: skip
    parser.add_format("format of the output (default: that of PATH; in a folder, that of each model)")
    add_result_flags(parser)


def _declare_optimize(parser: Parser) -> None:
    _declare_files(parser)
    add_optimization_flags(parser, list_flags=False)


def _declare_convert(parser: Parser) -> None:
    _declare_files(parser)
    add_verify(parser)


def _optimize(arguments: argparse.Namespace) -> int:
    return 0 if print_passes_if_asked(arguments) else _run(arguments, partial(options_of, arguments))


def _convert(arguments: argparse.Namespace) -> int:
    options = Options(verify=arguments.verify, inputs=arguments.inputs, target=arguments.target)
    return _run(arguments, lambda _: options)


def _run(arguments: argparse.Namespace, make_options: MakeOptions) -> int:
    """Convert one model to a file, or all models into a folder; return the exit code."""
    paths, output = arguments.models, arguments.output
    if output is None and len(paths) == 2:
        *paths, output = paths  # as in ONE's commands, the last argument is the output
    if not paths or output is None:
        arguments.refuse("expected one or more models, and -o PATH for the result")
    if len(paths) == 1 and not _is_folder(output):
        run_conversion(arguments, paths[0], output, make_options(output))
        return 0
    return _run_many(arguments, paths, output, make_options)


def _is_folder(path: str) -> bool:
    return path != PIPE and (path.endswith(("/", os.sep)) or Path(path).is_dir())


# -- several models ----------------------------------------------------------------------------


def _run_many(
    arguments: argparse.Namespace, paths: Sequence[str], output: str, make_options: MakeOptions
) -> int:
    """Convert each model into the folder ``output``, even if other models fail; return the exit code."""
    if PIPE in (*paths, output):
        arguments.refuse("expected files and an output folder, got - (a standard stream)")
    if len(set(paths)) < len(paths):
        arguments.refuse("expected different models, got a model twice")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        arguments.refuse(f"expected a folder for {counted(len(paths), 'model')}, got the file {folder}")
    check_folder(folder)
    reports: dict[str, Report] = {}

    def convert_into_folder(path: str) -> dict[str, Any]:
        output_path, format = _output_of(folder, path, arguments.format)
        for source, report in reports.items():
            if report.target == output_path:
                written = f"{source} was written to {output_path}"
                raise FileError(f"{path}: {written}; expected different file names")
        options = make_options(output_path)
        if options.record is not None:
            options = replace(options, record=Path(options.record) / Path(output_path).stem)
        with watched(Forwarder(f"of {Path(path).name} ({paths.index(path) + 1} of {len(paths)})")):
            reports[path] = run_quietly(arguments, lambda: convert(path, output_path, options, format))
        return reports[path].document()

    with made_folders(folder):
        documents = for_each_file(paths, convert_into_folder)
    if arguments.json and not arguments.quiet:
        print(json_of_each(documents))
    elif not arguments.quiet:
        print_results(paths, [reports.get(path) for path in paths], arguments.hint)
    return FAILED if len(reports) < len(paths) else 0


def _output_of(folder: Path, path: str, format: str | None) -> tuple[str, str]:
    """Return the path and the format of the output for the model at ``path``.

    The output has the name of the model, with the extension of its format, in ``folder``.  Raise FileError if
    the output would replace the model itself.
    """
    format = format or identify(map_file(path)) or load(path).format
    output_path = str(folder / f"{Path(path).stem}.{format}")
    refuse_overwriting(path, output_path)
    return output_path, format


SYNOPSIS = "input output | input ... -o PATH"
optimize = Command("circlekit optimize", DESCRIPTION, SYNOPSIS, _declare_optimize, _optimize)
convert_command = Command(
    "circlekit convert",
    "Write a model in another format. Operators that this format lacks are replaced by others.",
    SYNOPSIS,
    _declare_convert,
    _convert,
)
