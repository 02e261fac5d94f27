# SPDX-License-Identifier: Apache-2.0
"""circlekit calibrate: the ranges of a model's tensors on samples."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from circlekit.api import load, save
from circlekit.api.models import check_apart, check_target
from circlekit.cli.arguments import MODEL_HELP, Parser, count, output_of, output_path, positive_count
from circlekit.cli.command import Command
from circlekit.cli.result import source_of
from circlekit.equivalence.fleet import connected
from circlekit.io.schema import EXTENSIONS
from circlekit.ir.graph import Model
from circlekit.ir.text.columns import abridged, listed
from circlekit.quant.calibration import Calibration, Runner, collect
from circlekit.quant.calibration.calibration_file import check_path
from circlekit.quant.calibration.engine import ENGINES
from circlekit.quant.calibration.ranges import ESTIMATORS, FROM_NUMBERS
from circlekit.quant.calibration.recorded_ranges import record_ranges
from circlekit.quant.calibration.sample_files import RandomSamples, SampleFile, open_samples

DESCRIPTION = """Write the range of every float tensor on samples.

OUTPUT is a .json file, which a person can read and edit, an .npz file, or a model file, which gets the ranges
of its tensors as ONE's record-minmax writes them.

DATA is an HDF5, npz or npy file, a raw file, a folder with a file for each sample, or a .txt file with the
names of raw files: a line for each sample, with one file for all inputs or one file for each input."""

MAX_NAMES = 5
"""Number of tensors that a note names at most."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_output("a .json, .npz, .circle or .tflite file")
    parser.add_argument("--inputs", metavar="DATA", help="the samples: a file or a folder")
    parser.add_argument(
        "--random", type=positive_count, metavar="N",
        help="N seeded random samples; ranges of real data differ",
    )  # fmt: skip
    parser.add_argument("--seed", type=count, metavar="N", help="seed of random samples (default: 0)")
    parser.add_argument(
        "--engine", choices=tuple(ENGINES), default="circlekit",
        help="litert is faster for large models (default: circlekit)",
    )  # fmt: skip
    parser.add_argument(
        "--processes",
        type=positive_count,
        metavar="N",
        help="processes that run samples (default: 1, for long work all CPUs)",
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="run on the Dask cluster with this scheduler")
    parser.add_switch("--channels", help="also write numbers per channel (last axis) of every tensor")
    parser.add_switch("--histograms", help="also write a histogram of every tensor")
    parser.add_argument(
        "--estimator", choices=tuple(ESTIMATORS), default="min_max", metavar="NAME",
        help=f"what ranges a model file gets: {', '.join(ESTIMATORS)} (default: min_max)",
    )  # fmt: skip
    parser.add_switch(
        "--resume", help="save OUTPUT from time to time; if it exists, continue with its samples"
    )
    parser.add_switch("-q", "--quiet", help="print nothing but errors")


def _run(arguments: argparse.Namespace) -> int:
    output = output_path(output_of(arguments))
    is_model = Path(output).suffix.lower() in EXTENSIONS
    if (arguments.inputs is None) == (arguments.random is None):
        arguments.refuse("expected either --inputs DATA or --random N")
    if arguments.seed is not None and arguments.random is None:
        arguments.refuse("--seed needs --random N")
    if arguments.resume and is_model:
        arguments.refuse("--resume needs a .json or .npz file as the output")
    if not is_model:
        check_path(output)
    check_target(output)
    check_apart(arguments.model, output)
    model = load(source_of(arguments.model))
    calibration = _calibrate(model, arguments, output)
    if is_model:
        missing = record_ranges(model, calibration, arguments.estimator)
        save(model, output)
    else:
        missing = [name for graph in calibration.graphs for name, seen in graph.items() if seen.min is None]
        if not arguments.resume:  # with --resume, ``_calibrate`` has saved it
            calibration.save(output)
    if not arguments.quiet:
        print(*_lines(calibration, arguments.random is not None, missing, output), sep="\n")
    return 0


def _calibrate(model: Model, arguments: argparse.Namespace, output: str) -> Calibration:
    """Return the statistics of the tensors of ``model`` on the samples that the flags name.

    With ``--resume``, also write them to the file ``output``, from time to time and at the end.
    """
    if arguments.random is None:
        samples: SampleFile | RandomSamples = open_samples(arguments.inputs, model)
    else:
        samples = RandomSamples(model, arguments.random, arguments.seed or 0)
    with connected(arguments.dask) as client:
        return collect(
            model,
            samples,
            channels=arguments.channels,
            histograms=arguments.histograms or arguments.estimator in FROM_NUMBERS,
            runner=Runner(arguments.engine, arguments.processes, client),
            source=str(samples),
            state=output if arguments.resume else None,
        )


calibrate_command = Command("circlekit calibrate", DESCRIPTION, "model output", _declare, _run)


def _lines(calibration: Calibration, is_random: bool, missing: list[str], output: str) -> Iterator[str]:
    """Yield the lines to print; ``missing``: the names of tensors without a range."""
    tensors = [(name, seen) for graph in calibration.graphs for name, seen in graph.items()]
    plural = "sample" if calibration.samples == 1 else "samples"
    yield f"{calibration.samples} {plural} ({calibration.source}), {len(tensors)} tensors: {output}"
    if is_random:
        yield "note: the samples are random; ranges of real data differ"
    ignored = [name for name, seen in tensors if seen.ignored]
    if ignored:
        names = _listed(ignored)
        yield f"note: numbers that are not finite, or as large as float32 allows, are in no range: {names}"
    if missing:
        yield f"note: without a range, because no run computed a number: {_listed(missing)}"


def _listed(names: list[str]) -> str:
    return listed([f"%{abridged(name, 60)}" for name in names], MAX_NAMES)
