# SPDX-License-Identifier: Apache-2.0
"""record-minmax: write the min and max that a model's tensors have on samples, with ONE's flags."""

from __future__ import annotations

import argparse

from circlekit.api.models import check_output_path
from circlekit.cli.arguments import Parser, add_model_flags, finite_number, positive_count
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model, save_model
from circlekit.errors import UnsupportedError
from circlekit.ir.clone import clone
from circlekit.passes.engine.origin_tables import add_profile
from circlekit.quant.calibration import Runner, collect
from circlekit.quant.calibration.recorded_ranges import record_ranges
from circlekit.quant.one.sample_data import check_percentiles, recording_lines, samples_of

DESCRIPTION = """Write the min and max of float tensors on samples into a model, as ONE's record-minmax does.

Without --input_data the samples are three seeded random ones, whose ranges are not those of real data."""


def _declare(parser: Parser) -> None:
    add_model_flags(parser)
    parser.add_argument("--input_data", metavar="DATA", help="the samples: a file or a folder")
    parser.add_argument(
        "--input_data_format", default="h5", metavar="FORMAT",
        help="h5 or hdf5 (default; also for npz and npy); list or filelist: a text that names raw files; "
        "directory or dir: a folder of raw files",
    )  # fmt: skip
    parser.add_argument("--mode", default="percentile", help="percentile (default) or moving_average")
    for end, ends, default in (("min", "minima", 1.0), ("max", "maxima", 99.0)):
        parser.add_argument(
            f"--{end}_percentile", type=finite_number, default=default, metavar="P",
            help=f"the {end} of a tensor is this percentile, 0 to 100, of its {ends} in all samples "
            f"(default: {default:g})",
        )  # fmt: skip
    parser.add_argument(
        "--moving_avg_batch", type=positive_count, default=16, metavar="N",
        help="number of samples in a batch; each batch adds its min and max to the average (default: 16)",
    )  # fmt: skip
    parser.add_argument(
        "--moving_avg_const", type=finite_number, default=0.1, metavar="C",
        help="weight of a new batch in the moving average, 0 to 1 (default: 0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--num_threads", type=positive_count, metavar="N",
        help="processes that run samples (default: 1, or one per CPU for long work)",
    )  # fmt: skip
    parser.add_switch(
        "--generate_profile_data",
        help="record in the metadata from which operators of the input each operator was made",
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.mode not in ("percentile", "moving_average"):
        raise UnsupportedError(f"Unsupported mode {arguments.mode!r}: expected percentile or moving_average")
    check_percentiles(arguments.min_percentile, arguments.max_percentile)
    check_output_path(arguments.output_model)
    model = load_model(arguments.input_model)
    original = clone(model) if arguments.generate_profile_data else None
    samples = samples_of(model, arguments.input_data, arguments.input_data_format)
    calibration = collect(model, samples, runner=Runner(processes=arguments.num_threads))
    if arguments.mode == "percentile":
        ends = {"low": arguments.min_percentile, "high": arguments.max_percentile}
        record_ranges(model, calibration, "sample_percentile", **ends)
    else:
        average = {"batch": arguments.moving_avg_batch, "constant": arguments.moving_avg_const}
        record_ranges(model, calibration, "moving_average", **average)
    if original is not None:
        add_profile(original, model)
    save_model(model, arguments.output_model)
    remark = "" if arguments.input_data else " (seeded random data: ranges of real data differ)"
    print("\n".join(recording_lines(calibration.samples)) + remark)
    return 0


record_minmax = Command(
    "record-minmax", DESCRIPTION, "--input_model MODEL --output_model MODEL", _declare, _run, one=OneCodes()
)
