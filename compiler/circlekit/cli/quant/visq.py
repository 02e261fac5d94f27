# SPDX-License-Identifier: Apache-2.0
"""visq: write the error of each tensor of a quantized model, with ONE's flags and files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from circlekit.api.models import check_output_paths, load, refuse_overwriting
from circlekit.cli.arguments import MODEL_HELP, Parser, output_path, positive_count
from circlekit.cli.command import Command, OneCodes
from circlekit.errors import UnsupportedError
from circlekit.io.write.file_writer import write_file
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration.sample_files import RandomSamples, open_samples
from circlekit.quant.calibration.samples import checked_samples
from circlekit.quant.mixed.visq import METRICS, tensor_errors

DESCRIPTION = """Write the error of each tensor of a quantized model, as ONE's visq does.

Give at least one output: a JSON file with the error of each tensor in one metric. MPEIR is the largest error
divided by the range of the tensor, MSE the mean squared error, TAE the sum of the absolute errors, SRMSE the
root of the mean squared error, divided by the scale. Errors are means over all samples; SRMSE takes the root
of this mean.

Without --data there is one seeded random sample, whose errors are not those of real data."""


def _declare(parser: Parser) -> None:
    parser.add_argument("-f", "--fp32_circle", required=True, metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("-q", "--q_circle", required=True, metavar="MODEL", help="the quantized model")
    parser.add_argument("-d", "--data", metavar="DATA", help="the samples, as for circlekit calibrate")
    for metric in METRICS:
        parser.add_argument(
            f"--{metric.lower()}_output", type=output_path, metavar="FILE", help=f"JSON with {metric}"
        )
    parser.add_switch("--dump_dot_graph", help="also draw the graph for Graphviz, as FILE.dot")
    parser.add_argument(
        "-b", "--batch_size", type=positive_count, metavar="N",
        help="has no effect: the samples run one by one",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    outputs = {metric: getattr(arguments, f"{metric.lower()}_output") for metric in METRICS}
    outputs = {metric: path for metric, path in outputs.items() if path is not None}
    if not outputs:
        raise UnsupportedError("At least one output should be given.")
    check_output_paths(outputs.values())
    for path in outputs.values():
        for source in (arguments.fp32_circle, arguments.q_circle):
            refuse_overwriting(source, path)
    model, quantized = load(arguments.fp32_circle), load(arguments.q_circle)
    name = Path(arguments.fp32_circle).name
    for errors in tensor_errors(model, quantized, _samples(model, arguments.data), list(outputs)):
        path = outputs[errors.metric]
        write_file(path, [json.dumps(errors.document(name)).encode()])
        if arguments.dump_dot_graph:
            write_file(f"{path}.dot", [errors.dot(model.main, name).encode()])
    return 0


def _samples(model: Model, data: str | None) -> Iterable[Sequence[Array]]:
    """Return the samples in the file or folder ``data``; for None, return one seeded random sample."""
    source = RandomSamples(model, 1, like_one=True) if data is None else open_samples(data, model)
    return checked_samples(model, source)


visq = Command("visq", DESCRIPTION, "-f MODEL -q MODEL", _declare, _run, one=OneCodes(unread=255, usage=2))
