# SPDX-License-Identifier: Apache-2.0
"""circlekit calibrate: run a model on samples and write the range (min and max) of every float tensor."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from circlekit.api.models import check_output_path, load, refuse_overwriting, save
from circlekit.cli.arguments import (
    MODEL_HELP,
    Parser,
    add_scheduler,
    argument_type,
    count,
    output_of,
    output_path,
    positive_count,
)
from circlekit.cli.command import Command
from circlekit.cli.result import source_of
from circlekit.equivalence.fleet import connected
from circlekit.errors import FileError, counted
from circlekit.io.write.save import format_of
from circlekit.ir.graph import Model
from circlekit.ir.text.columns import abridged, listed
from circlekit.quant.calibration import Calibration, Runner, collect
from circlekit.quant.calibration.calibration_file import SUFFIXES
from circlekit.quant.calibration.engine import ENGINES
from circlekit.quant.calibration.ranges import ESTIMATORS, FROM_NUMBERS
from circlekit.quant.calibration.recorded_ranges import record_ranges
from circlekit.quant.calibration.sample_files import RandomSamples, SampleFile, open_samples

DESCRIPTION = """Run a model on samples; write the tensors' ranges.

OUTPUT is a .json file, which a person can read and edit; an .npz file; or a model file. A model file is the
model itself, with the range of each tensor written into it as ONE's record-minmax does.

DATA is an HDF5, npz or npy file, a raw file, a folder with a file for each sample, or a .txt file. Each line
of a .txt file is a sample: it names one raw file with all inputs, or one raw file for each input."""

MAX_NAMES = 5
"""A note names at most this many tensors."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_output("a .json, .npz, .circle or .tflite file", argument_type(_output))
    parser.add_argument("--inputs", metavar="DATA", help="the samples: a file or a folder")
    parser.add_argument(
        "--random", type=positive_count, metavar="N",
        help="use N seeded random samples; ranges of real data differ",
    )  # fmt: skip
    parser.add_argument("--seed", type=count, metavar="N", help="seed of random samples (default: 0)")
    parser.add_argument(
        "--engine", choices=tuple(ENGINES), default="circlekit",
        help="what runs the model; litert is faster for large models (default: circlekit)",
    )  # fmt: skip
    parser.add_argument(
        "--processes",
        type=positive_count,
        metavar="N",
        help="processes that run samples (default: 1, or one per CPU for long work)",
    )
    add_scheduler(parser, "--dask")
    parser.add_switch(
        "--channels",
        help="also write statistics per index of the last axis, if its size is known",
    )
    parser.add_switch("--histograms", help="also write a histogram of every tensor")
    parser.add_argument(
        "--estimator", choices=tuple(ESTIMATORS), default="min_max", metavar="NAME",
        help="how the ranges in a model file follow from the samples: "
        f"{', '.join(ESTIMATORS)} (default: min_max)",
    )  # fmt: skip
    parser.add_switch(
        "--resume",
        help="save OUTPUT from time to time; if an interrupted run left OUTPUT, skip the samples that it has",
    )
    parser.add_switch("-q", "--quiet", help="print nothing but errors")


def _output(word: str) -> str:
    """Return the path in the argument OUTPUT; raise an error of argparse or FileError if it is unusable."""
    if format_of(output_path(word)) is None and Path(word).suffix.lower() not in SUFFIXES:
        expected = f"{', '.join(SUFFIXES)}, .circle or .tflite"
        raise FileError(f"{word}: expected the extension {expected}")
    return word


def _run(arguments: argparse.Namespace) -> int:
    output = output_of(arguments)
    is_model = format_of(output) is not None
    if (arguments.inputs is None) == (arguments.random is None):
        arguments.refuse("expected either --inputs DATA or --random N")
    if arguments.seed is not None and arguments.random is None:
        arguments.refuse("--seed needs --random N")
    if arguments.resume and is_model:
        arguments.refuse("--resume needs a .json or .npz file as the output, which it can continue")
    check_output_path(output)
    refuse_overwriting(arguments.model, output)
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
    The estimators in FROM_NUMBERS compute a range from a histogram.  With one of them, histograms are
    collected even without ``--histograms``.
    """
    if arguments.random is None:
        samples: SampleFile | RandomSamples = open_samples(arguments.inputs, model)
    else:
        samples = RandomSamples(model, arguments.random, arguments.seed or 0)
    with connected(arguments.scheduler) as client:
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
    """Yield the lines to print: a summary, and notes about the ranges.

    ``missing``: the names of tensors without a range.
    """
    tensors = [(name, seen) for graph in calibration.graphs for name, seen in graph.items()]
    samples = counted(calibration.samples, "sample")
    yield f"{samples} ({calibration.source}), {counted(len(tensors), 'tensor')}: {output}"
    if is_random:
        yield "note: the samples are random; ranges of real data differ"
    ignored = [name for name, seen in tensors if seen.ignored]
    if ignored:
        names = _listed(ignored)
        yield f"note: ranges leave out infinite numbers, NaN and the largest float32; found in {names}"
    if missing:
        yield f"note: without a range, because no run computed a finite number: {_listed(missing)}"


def _listed(names: list[str]) -> str:
    """Return the first MAX_NAMES names, each cut to 60 characters, and how many others there are."""
    return listed([f"%{abridged(name, 60)}" for name in names], MAX_NAMES)
