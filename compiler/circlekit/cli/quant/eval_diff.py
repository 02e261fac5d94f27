# SPDX-License-Identifier: Apache-2.0
"""circle-eval-diff: compare the outputs of two models by metrics, with ONE's flags and lines of output."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import zip_longest

import numpy as np

from circlekit.cli.arguments import MODEL_HELP, Parser, positive_count
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model
from circlekit.equivalence.data_files.tensor_files import write_raw
from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.equivalence.named_results import results_by_name
from circlekit.equivalence.real_numbers import real_numbers
from circlekit.errors import ModelError
from circlekit.ir.graph import Model
from circlekit.ir.text.columns import format_columns
from circlekit.ir.value import Array, Value
from circlekit.quant.calibration.samples import checked_samples
from circlekit.quant.one.sample_data import samples_of
from circlekit.toolchain.evaluation import METRICS, compare_outputs, top_match

DESCRIPTION = """Compare the outputs of two models on samples.

The first model is the reference. The default metric is the mean absolute error; the default samples are three
seeded random ones. ONE's program does not have --print_sqnr, --print_topk_match and --print_layers."""

Pair = tuple[list[Array], list[Array]]
"""The inputs of the first model and the inputs of the second model for one sample."""


def _declare(parser: Parser) -> None:
    for which in ("first", "second"):
        parser.add_argument(f"--{which}_model", required=True, metavar="MODEL", help=MODEL_HELP)
    for which in ("first", "second"):
        parser.add_argument(f"--{which}_input_data", metavar="DATA", help=f"the samples of the {which} model")
    parser.add_argument(
        "--input_data_format", default="h5", metavar="FORMAT",
        help="h5 or hdf5 (default), list or filelist (a text with names of raw files), directory or dir",
    )  # fmt: skip
    parser.add_argument(
        "--dump_output_with_prefix",
        metavar="PREFIX",
        help="write output M of sample N to PREFIX.N.first.outputM and PREFIX.N.second.outputM",
    )
    for metric, (heading, _, _) in METRICS.items():  # the other two fields: a line to print, the formula
        parser.add_switch(f"--print_{metric}", help=heading)
    parser.add_switch("--print_sqnr", help="Signal to Quantization Noise Ratio (SQNR), in dB")
    parser.add_argument(
        "--print_topk_match",
        type=positive_count,
        metavar="K",
        help="Ratio of Matched Indices between Top-K results",
    )
    parser.add_switch("--print_layers", help="errors of each result whose name occurs in both models")


def _run(arguments: argparse.Namespace) -> int:
    if (arguments.first_input_data is None) != (arguments.second_input_data is None):
        raise ModelError(
            "Input data path should be given for both first_model and second_model, or neither must be given."
        )
    models = load_model(arguments.first_model), load_model(arguments.second_model)
    metrics = [metric for metric in METRICS if getattr(arguments, f"print_{metric}")]
    asks_for_others = arguments.print_sqnr or arguments.print_topk_match or arguments.print_layers
    if not metrics and not asks_for_others:
        metrics = ["mae"]
    summary = _Summary(models, arguments)
    for line in compare_outputs(*models, _pairs(models, arguments), metrics, summary.record):
        print(line)
    for line in summary.lines():
        print(line)
    if arguments.print_layers:
        print(format_columns(_layer_rows(*models, _pairs(models, arguments))))
    return 0


def _pairs(models: tuple[Model, Model], arguments: argparse.Namespace) -> Iterator[Pair]:
    """Yield the inputs of both models for each sample.

    Raise ModelError if one model has more samples than the other.
    """
    form, first = arguments.input_data_format, models[0]
    if arguments.first_input_data is None:  # both models get the same random numbers
        for sample in checked_samples(first, samples_of(first, None, form)):
            yield sample, sample
        return
    data = arguments.first_input_data, arguments.second_input_data
    samples = (checked_samples(m, samples_of(m, path, form)) for m, path in zip(models, data, strict=True))
    for first_sample, second_sample in zip_longest(*samples):
        if first_sample is None or second_sample is None:
            raise ModelError("expected as many samples for the second model as for the first")
        yield first_sample, second_sample


class _Summary:
    """Collects two metrics that ONE lacks (SQNR and top-k match) for each output; writes outputs to files.

    ``metrics``: the errors of each output, over all samples.  ``matches``: for each output, a number per
    sample: which share of the k largest elements both models have in common.
    """

    def __init__(self, models: tuple[Model, Model], arguments: argparse.Namespace) -> None:
        self.arguments, self.models = arguments, models
        first, second = models
        # strict=False: ``compare_outputs`` raises the error for different numbers of outputs
        self.outputs = list(zip(first.main.outputs, second.main.outputs, strict=False))
        self.metrics = [ErrorMetrics() for _ in self.outputs]
        self.matches: list[list[float]] = [[] for _ in self.outputs]

    def record(self, number: int, first: list[Array], second: list[Array]) -> None:
        """Add the outputs of both models for the sample ``number`` to the metrics.

        With ``--dump_output_with_prefix``, also write them.  An output has no top-k match if it has fewer
        than k elements, or strings or complex numbers.
        """
        prefix, top = self.arguments.dump_output_with_prefix, self.arguments.print_topk_match
        if prefix:
            for which, model, arrays in zip(("first", "second"), self.models, (first, second), strict=True):
                write_raw(f"{prefix}.{number}.{which}.output", model.main.outputs, arrays)
        for index, (a, b) in enumerate(zip(first, second, strict=True)):
            if self.arguments.print_sqnr:
                left, right = self.outputs[index]
                self.metrics[index].add(real_numbers(left, a), real_numbers(right, b))
            if top and a.size >= top and all(array.dtype.kind in "fiub" for array in (a, b)):
                self.matches[index].append(top_match(top)(a.astype(np.float64), b.astype(np.float64)))

    def lines(self) -> Iterator[str]:
        """Yield the lines to print; call it after all samples were recorded."""
        names = [left.name for left, _ in self.outputs]
        if self.arguments.print_sqnr:
            yield "Signal to Quantization Noise Ratio (SQNR)"
            for name, metrics in zip(names, self.metrics, strict=True):
                yield f"SQNR for {name} is {'-' if metrics.sqnr is None else f'{metrics.sqnr:g} dB'}"
        if top := self.arguments.print_topk_match:
            yield f"Ratio of Matched Indices between Top-{top} results of the models"
            for name, shares in zip(names, self.matches, strict=True):
                if shares:
                    yield f"Mean Top-{top} match ratio for {name} is {sum(shares) / len(shares):g}"


def _layer_rows(first: Model, second: Model, pairs: Iterable[Pair]) -> list[list[str]]:
    """Return a table: a heading, and a row for each result whose name occurs in both models.

    The rows have the order of the results in the second model.  The errors of a result are over the samples
    for which both models compute real numbers of the same shape.  Without such samples, the SQNR is "-", and
    MSE and MAE are NaN.
    """
    left, right = _results(first), _results(second)
    layers = {name: ErrorMetrics() for name in right if name in left}
    for first_inputs, second_inputs in pairs:
        a = results_by_name(first, first_inputs, kernels=None, names=layers)
        b = results_by_name(second, second_inputs, kernels=None, names=layers)
        for name, metrics in layers.items():
            are_numbers = all(results[name].dtype.kind in "fiu" for results in (a, b))
            if a[name].shape == b[name].shape and are_numbers:
                metrics.add(real_numbers(left[name], a[name]), real_numbers(right[name], b[name]))
    codes = {value.name: op.code for op in second.main for value in op.results}
    rows = [["result", "operator", "SQNR dB", "MSE", "MAE"]]
    for name, metrics in layers.items():
        sqnr = "-" if metrics.sqnr is None else f"{metrics.sqnr:.1f}"
        rows.append([name, codes[name], sqnr, f"{metrics.mse:.3g}", f"{metrics.mae:.3g}"])
    return rows


def _results(model: Model) -> dict[str, Value]:
    """Return the results of all operators of the main graph, by name."""
    return {v.name: v for op in model.main for v in op.results}


circle_eval_diff = Command(
    "circle-eval-diff",
    DESCRIPTION,
    "--first_model MODEL --second_model MODEL",
    _declare,
    _run,
    one=OneCodes(unread=255),
)
