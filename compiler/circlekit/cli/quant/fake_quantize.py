# SPDX-License-Identifier: Apache-2.0
"""circlekit fake-quantize: insert FAKE_QUANT operators where TensorFlow's contrib.quantize does."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from circlekit.api.fake_quantizing import fake_quantize
from circlekit.api.models import check_output_path, load, refuse_overwriting, save
from circlekit.cli.arguments import (
    MODEL_HELP,
    Parser,
    finite_number,
    integer,
    model_path,
    output_of,
    refusing,
)
from circlekit.cli.command import Command
from circlekit.cli.output.json_text import json_text
from circlekit.cli.output.terminal import printable
from circlekit.cli.result import add_result_flags, quietly, source_name, source_of
from circlekit.ir.text.columns import format_columns
from circlekit.quant.calibration import Calibration
from circlekit.quant.calibration.sample_files import open_samples
from circlekit.quant.fake.insert import (
    BITS,
    TRAINING_OPTIONS,
    FakeQuantOptions,
    Inserted,
    refuse_training_options,
)

DESCRIPTION = """Put FAKE_QUANT operators into a float model.

They stand where TensorFlow's contrib.quantize puts them: after weights and after activations. The result is
a float model with the rounding errors of integers. The command circlekit quantize makes an integer model of
it, with the same ranges.

DATA are samples on which the ranges of activations are observed, as for circlekit calibrate."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_output("the file to write, .tflite or .circle", model_path)
    parser.add_argument("--inputs", metavar="DATA", help="the samples: a file or a folder")
    parser.add_argument(
        "--calibration", metavar="FILE",
        help="instead of --inputs: ranges that circlekit calibrate wrote for the model after O1 "
        "(with --no-optimize: for the model itself)",
    )  # fmt: skip
    for name, what in (("weight", "weights"), ("activation", "activations")):
        parser.add_argument(
            f"--{name}-bits", type=integer, default=8, metavar="N",
            help=f"bits of {what}, {BITS[0]} to {BITS[-1]} (default: 8)",
        )  # fmt: skip
    parser.add_switch("--symmetric", help="ranges are centered at 0")
    parser.add_switch("--narrow-range", help="activations leave out the lowest integer, as weights do")
    parser.add_switch("--per-channel", help="weights have a range for each channel")
    parser.add_argument(
        "--ema-decay", type=finite_number, metavar="D",
        help="ranges of activations are moving averages over the samples, with the decay D, 0 to below 1 "
        "(default: min and max of all samples)",
    )  # fmt: skip
    parser.add_argument(
        "--init-range",
        type=finite_number,
        nargs=2,
        metavar=("MIN", "MAX"),
        help="the range with which the moving average of --ema-decay starts",
    )
    parser.add_argument(
        "--scope",
        metavar="REGEX",
        help="round only values whose name has a match of REGEX; for weights, the name of the layer's result",
    )
    parser.add_switch("--quantize-inputs", help="also round the inputs of the model")
    parser.add_switch("--no-optimize", help="do not run O1 first; O1 folds batch norms")
    # these options of contrib.quantize are declared so that ``_options`` can say why they are refused
    for name in TRAINING_OPTIONS:
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, dest=name, nargs="?", const=True, help=argparse.SUPPRESS)
    add_result_flags(parser)


def _run(arguments: argparse.Namespace) -> int:
    output = output_of(arguments)
    options = _options(arguments)
    if (arguments.inputs is None) == (arguments.calibration is None):
        arguments.refuse("expected either --inputs DATA or --calibration FILE")
    check_output_path(output)
    refuse_overwriting(arguments.model, output)
    model = load(source_of(arguments.model))
    with quietly(arguments.quiet):
        inserted = fake_quantize(
            model,
            samples=None if arguments.inputs is None else open_samples(arguments.inputs, model),
            calibration=None if arguments.calibration is None else Calibration.load(arguments.calibration),
            optimize=not arguments.no_optimize,
            **vars(options),
        )
    save(model, output)
    source = source_name(arguments.model)
    if arguments.json and not arguments.quiet:
        print(json_text(_document(inserted, source, output)))
    elif not arguments.quiet:
        print(*map(printable, _lines(inserted, source, output)), sep="\n")
    return 0


def _options(arguments: argparse.Namespace) -> FakeQuantOptions:
    """Return where and how to round; report wrong usage and exit for a wrong value or a training option."""
    with refusing(arguments):
        refuse_training_options([name for name in TRAINING_OPTIONS if getattr(arguments, name) is not None])
        return FakeQuantOptions(
            weight_bits=arguments.weight_bits,
            activation_bits=arguments.activation_bits,
            symmetric=arguments.symmetric,
            narrow_range=arguments.narrow_range,
            per_channel=arguments.per_channel,
            ema_decay=arguments.ema_decay,
            init_range=None if arguments.init_range is None else tuple(arguments.init_range),
            scope=arguments.scope,
            inputs=arguments.quantize_inputs,
        )


def _document(inserted: Sequence[Inserted], source: str, target: str) -> dict[str, Any]:
    """Return the document that ``--json`` prints: the two files, and an entry for each inserted operator.

    ``Inserted`` explains the keys of an entry: ``tensor`` is its ``value``, ``min`` and ``max`` are its
    ``low`` and ``high``.
    """
    entries = [
        {"rule": one.rule, "tensor": one.value, "min": one.low, "max": one.high, "channels": one.channels}
        for one in inserted
    ]
    return {"source": source, "target": target, "inserted": entries}


def _lines(inserted: Sequence[Inserted], source: str, target: str) -> Iterator[str]:
    """Yield the lines to print: files, a table of inserted operators, counts by rule."""
    yield f"{source} -> {target}"
    if not inserted:
        yield "nothing to do: no value has to be rounded, or all of them are rounded already"
        return
    yield ""
    rows = [("rule", "tensor", "min", "max")]
    rows += [(one.rule, f"%{one.value}", f"{one.low:.6g}", f"{one.high:.6g}") for one in inserted]
    yield from format_columns(rows).splitlines()
    yield ""
    counts = Counter(one.rule for one in inserted)
    yield f"inserted {len(inserted)}: " + ", ".join(f"{count} {rule}" for rule, count in counts.items())


fake_quantize_command = Command("circlekit fake-quantize", DESCRIPTION, "model output", _declare, _run)
