# SPDX-License-Identifier: Apache-2.0
"""circlekit run-all: run a pipeline on all models of a folder, in local processes or on a Dask cluster."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from circlekit.api.models import check_output_path, refuse_overwriting
from circlekit.cli.arguments import Parser, add_scheduler, argument_type, count, output_path, positive_count
from circlekit.cli.circle2circle import parse_passes
from circlekit.cli.command import FAILED as EXIT_FAILED
from circlekit.cli.command import Command
from circlekit.cli.model_tasks import DONE, Task, TaskResult, lost_task, run_task
from circlekit.cli.output.json_text import json_text
from circlekit.cli.output.progress_line import results_in_order
from circlekit.equivalence.fleet import RETRIES, connected, run_jobs
from circlekit.errors import FileError, counted
from circlekit.io.file_map import map_file, translated
from circlekit.io.schema import EXTENSIONS
from circlekit.io.write.file_writer import made_folders, write_file
from circlekit.ir.resources.progress import progress
from circlekit.ir.text.columns import cut, format_columns

JSON_SCHEMA = 1
"""The version of the JSON document; a change that breaks readers increases it."""

MAX_MESSAGE_CHARACTERS = 300
"""The printed message of a failed model is cut after this many characters; the JSON document is complete."""

CFG_SUFFIXES = (".cfg", ".ini")
"""The extensions of configuration files of onecc."""

DESCRIPTION = """Run a pipeline or a command on all models of a folder.

PIPELINE is O1, a list of passes, a .toml file with passes, a .cfg file of onecc, or a command line. In a .cfg
file and in a command line, {model} stands for the path of a model, {name} for its file name, {stem} for this
name without extension, and {out} for the folder of its results:

    circlekit run-all O1 zoo -o zoo.O1 --json results.json
    circlekit run-all "circle2circle {model} {out}/{name}" zoo -o copies

If the process or the cluster worker of a model dies, the model runs again. For local processes, the flag
--retries says how often. For a Dask cluster, the setting distributed.scheduler.allowed-failures of its
scheduler says how often."""


def _declare(parser: Parser) -> None:
    parser.add_argument(
        "pipeline",
        type=argument_type(_pipeline_words),
        help="passes, a .toml or .cfg file, or a command line with {model}",
    )
    parser.add_argument("folder", help=f"all {', '.join(EXTENSIONS)} files in it and below are run")
    parser.add_argument(
        "-o", "--output", required=True, type=output_path, metavar="DIR", help="folder of results"
    )
    add_scheduler(parser)
    parser.add_argument(
        "-j",
        dest="jobs",
        type=positive_count,
        metavar="N",
        help="local processes (default: one per processor)",
    )
    parser.add_argument(
        "--retries", type=count, default=RETRIES, metavar="N",
        help=f"how often a model whose local process dies runs again (default: {RETRIES})",
    )  # fmt: skip
    parser.add_argument("--json", type=output_path, metavar="FILE", help="write the results as JSON")


def _run(arguments: argparse.Namespace) -> int:
    kind, pipeline = _pipeline(arguments.pipeline)
    folder, output = Path(arguments.folder), Path(arguments.output)
    models = _models(folder, output)
    for path in models if arguments.json is not None else ():
        refuse_overwriting(path, arguments.json)
    tasks = [_task(path, folder, output, kind, pipeline) for path in models]
    progress().begin("", len(tasks), "models")  # "": a step without a name
    with made_folders(*(Path(task.folder) for task in tasks)), connected(arguments.scheduler) as client:
        if arguments.json is not None:  # its folder may be one of those that were just made
            check_output_path(arguments.json)
        runs = run_jobs(
            run_task,
            tasks,
            lost_task,  # makes the result of a task whose process died at every attempt
            client=client,
            processes=arguments.jobs,
            retries=arguments.retries,
        )
        results = results_in_order(runs, lambda result: result.status != DONE)
    for path, result in zip(models, results, strict=True):
        result.model = str(path.relative_to(folder))
    if arguments.json is not None:
        document = {
            "schema": JSON_SCHEMA,
            "pipeline": arguments.pipeline,
            "results": list(map(asdict, results)),
        }
        write_file(arguments.json, [json_text(document).encode()])
    _print(results)
    return EXIT_FAILED if any(result.status != DONE for result in results) else 0


def _pipeline_words(words: str) -> str:
    """Return the argument PIPELINE; raise an error of argparse or ValueError if it is wrong for every model.

    Files are not read.
    """
    if "{model}" in words:
        shlex.split(words)  # raises ValueError for a quote that is not closed
    elif Path(words).suffix not in (*CFG_SUFFIXES, ".toml"):
        parse_passes(words)
    return words


def _pipeline(words: str) -> tuple[str, str]:
    """Return (kind, pipeline) for the argument PIPELINE, the fields of ``Task`` that say what to do.

    - "command": the command line
    - "cfg": the text of a .cfg or .ini file
    - "passes": the path of a .toml file, or the names of passes

    Raise FileError if PIPELINE is a file that cannot be read, or a cfg file without {model}.
    """
    if "{model}" in words:
        return "command", words
    if Path(words).suffix in CFG_SUFFIXES:
        text = bytes(map_file(words)).decode(errors="replace")
        if "{model}" not in text:
            raise FileError(f"{words}: expected {{model}} where the path of the model belongs")
        return "cfg", text
    if Path(words).suffix == ".toml":
        map_file(words)  # raises the error for a file that cannot be read
        return "passes", str(Path(words).absolute())
    return "passes", words


def _models(folder: Path, output: Path) -> list[Path]:
    """Return the paths of the models in ``folder`` and below, sorted, without those in ``output``.

    Raise FileError if ``folder`` does not exist, has no models, or is the same folder as ``output``.
    """
    with translated(folder, "read"):
        if not folder.is_dir():
            raise FileError(f"{folder}: no such folder")
        if output.resolve() == folder.resolve():
            raise FileError(f"{output}: expected another folder than that of the models")
        found = sorted(path for path in folder.rglob("*") if path.suffix in EXTENSIONS and path.is_file())
    models = [path for path in found if output.resolve() not in path.resolve().parents]
    if not models:
        besides = f" outside of {output}" if found else ""
        raise FileError(f"{folder}: expected {', '.join(EXTENSIONS)} files in it{besides}, found none")
    return models


def _task(path: Path, folder: Path, output: Path, kind: str, pipeline: str) -> Task:
    """Return the task for the model at ``path``."""
    # a model in a subfolder has its results in a subfolder of the same name
    place = (output / path.relative_to(folder)).parent.absolute()
    return Task(str(path.absolute()), str(place), kind, pipeline)


def _print(results: Sequence[TaskResult]) -> None:
    """Print a table of all models, the messages of those that failed, and the number of models by status."""
    rows = [["model", "status", "seconds", "operators"]]
    for result in results:
        after = "" if result.after is None else f" -> {result.after}"
        operators = "" if result.before is None else f"{result.before}{after}"
        rows.append([result.model, result.status, f"{result.seconds:.1f}", operators])
    print(format_columns(rows, left=2))
    for result in results:
        if result.status != DONE:
            print(f"\n{result.model}: {cut(result.message, MAX_MESSAGE_CHARACTERS)}")
    counts = Counter(result.status for result in results)
    states = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    print(f"\n{counted(len(results), 'model')}: {states}")


run_all = Command("circlekit run-all", DESCRIPTION, "pipeline folder -o DIR", _declare, _run)
