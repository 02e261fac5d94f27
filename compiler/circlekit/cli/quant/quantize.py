# SPDX-License-Identifier: Apache-2.0
"""circlekit quantize: quantize a float model with samples, with a calibration, or by a plan."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from circlekit.api.models import check_output_paths, load, refuse_overwriting, save
from circlekit.api.quantizing import INTERFACES, quantize
from circlekit.cli.arguments import (
    MODEL_HELP,
    Parser,
    argument_type,
    count,
    finite_number,
    model_path,
    output_of,
    output_path,
    positive_count,
    positive_number,
    refusing,
)
from circlekit.cli.command import Command
from circlekit.cli.output.json_text import json_text
from circlekit.cli.output.terminal import printable
from circlekit.cli.result import add_result_flags, source_name, source_of
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.quant.calibration import Calibration
from circlekit.quant.calibration.ranges import ESTIMATORS
from circlekit.quant.calibration.sample_files import RandomSamples, open_samples
from circlekit.quant.fake.grids import take_grids
from circlekit.quant.mixed.raising import Budget
from circlekit.quant.quantization_report import QuantizationReport
from circlekit.quant.scheme import DEFAULT_SCHEME, NO_SCHEME, SCHEMES, find_scheme
from circlekit.quant.technique_search import TECHNIQUES
from circlekit.targets.target import find_target

DESCRIPTION = """Quantize a float model.

DATA are samples, as for circlekit calibrate. PATTERN selects operators: the name of a result, re: and a
regular expression, or a kind such as CONV_2D. Schemes: int8, int8_per_tensor, int16x8, uint8, dynamic_int8,
weight_int8, weight_int4, weight_int4_block32...256, float16, one_uint8, one_uint8_channel, one_int16."""

RANDOM_NOTE = "calibrated on random samples: the ranges of real data differ, and so will the accuracy"
"""The note that ``--random`` adds to the report if an operator gets integer activations."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_output("the file to write, .tflite or .circle", model_path)
    parser.add_argument(
        "--scheme",
        choices=tuple(SCHEMES),
        metavar="NAME",
        help=f"see above (default: {DEFAULT_SCHEME})",
    )
    parser.add_argument("--inputs", metavar="DATA", help="the samples: a file or a folder")
    parser.add_argument(
        "--calibration", metavar="FILE", help="in place of DATA: a file of circlekit calibrate"
    )
    parser.add_argument("--plan", metavar="FILE", help="in place of all choices: a file of --save-plan")
    parser.add_argument("--random", type=positive_count, metavar="N", help="in place of DATA: random samples")
    parser.add_argument("--seed", type=count, metavar="N", help="seed of random samples (default: 0)")
    parser.add_switch("--no-auto", help="do not try techniques: scales follow from ranges alone")
    parser.add_argument(
        "--seconds",
        type=positive_number,
        metavar="N",
        help="about how long to try techniques (default: 60)",
    )
    parser.add_argument(
        "--without", action="append", default=[], choices=tuple(TECHNIQUES), metavar="TECHNIQUE",
        help=f"do not try this technique: {', '.join(TECHNIQUES)}; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--estimator", choices=tuple(ESTIMATORS), metavar="NAME",
        help="how ranges follow from samples (default: min_max)",
    )  # fmt: skip
    _declare_choice_of_operators(parser)
    parser.add_argument("--io", choices=INTERFACES, help="kind of inputs and outputs (default: float)")
    parser.add_switch("--no-optimize", help="do not run O1 first")
    parser.add_argument(
        "--target", type=argument_type(_target), metavar="NAME",
        help="the runtime (default: litert)",
    )  # fmt: skip
    parser.add_argument(
        "--save-plan", type=output_path, metavar="FILE",
        help="write all parameters with reasons, as JSON, for --plan",
    )  # fmt: skip
    add_result_flags(parser)


def _declare_choice_of_operators(parser: Parser) -> None:
    """Add the flags that choose the schemes of single operators, and the flags of mixed precision."""
    parser.add_argument(
        "--float", action="append", default=[], metavar="PATTERN", help="leave these operators float"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATTERN=SCHEME",
        help="use this scheme for these operators",
    )
    parser.add_argument(
        "--target-sqnr", type=finite_number, metavar="DB",
        help="raise operators to a higher precision: few, but enough for this SQNR of every output",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=argument_type(_budget), metavar="SHARE",
        help="raise the most sensitive operators, up to a share of all: "
        "20%% (of the number), '20%% macs' or '20%% bytes'",
    )  # fmt: skip
    parser.add_argument(
        "--raise-to",
        choices=(NO_SCHEME, *SCHEMES),
        metavar="SCHEME",
        help="the scheme of raised operators (default: float)",
    )
    parser.add_argument(
        "--only", action="append", metavar="PATTERN",
        help="quantize only these operators, and those of --set",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    output = output_of(arguments)
    sources = [arguments.inputs, arguments.calibration, arguments.random, arguments.plan]
    if sum(source is not None for source in sources) > 1:
        arguments.refuse("--inputs, --calibration, --random and --plan exclude each other")
    if arguments.seed is not None and arguments.random is None:
        arguments.refuse("--seed needs --random N")
    choices = _choices(arguments)
    if arguments.plan is not None and choices:
        arguments.refuse("--plan decides everything: expected no flag that chooses how to quantize")
    _check_mixed_precision(arguments)
    outputs = [*filter(None, (output, arguments.save_plan))]
    check_output_paths(outputs)
    for path in outputs:
        refuse_overwriting(arguments.model, path)
    model = load(source_of(arguments.model))
    if all(source is None for source in sources):
        _require_ranges(model, choices, arguments)
    given = None if arguments.calibration is None else Calibration.load(arguments.calibration)
    report = quantize(
        model,
        samples=_samples(model, arguments),
        calibration=given,
        plan=arguments.plan,
        **choices,
    )
    plans = [op for graph in report.plan for op in graph.operators.values() if not op.is_float]
    # a scheme with float activations uses no ranges
    if arguments.random is not None and any(SCHEMES[op.scheme].activations is not None for op in plans):
        report.notes.append(RANDOM_NOTE)
    report.source, report.target = source_name(arguments.model), output
    if arguments.save_plan is not None:
        report.plan.save(arguments.save_plan)
    save(model, output)
    _print(report, arguments)
    return 0


def _budget(text: str) -> str:
    """Return ``text`` if it is a budget; raise UnsupportedError if not."""
    Budget.parse(text)
    return text


def _target(text: str) -> str:
    """Return ``text`` if it is the name of a target; raise UnsupportedError if not."""
    return find_target(text).name


def _check_mixed_precision(arguments: argparse.Namespace) -> None:
    """Report wrong usage and exit if mixed precision is asked for without samples, or for a scheme of ONE."""
    if arguments.target_sqnr is None and arguments.budget is None:
        return
    if arguments.inputs is None and arguments.random is None:
        arguments.refuse("--target-sqnr and --budget need samples: expected --inputs or --random")
    if SCHEMES[arguments.scheme or DEFAULT_SCHEME].follows_one:
        arguments.refuse(f"--target-sqnr and --budget: expected a scheme of LiteRT, got {arguments.scheme}")


def _require_ranges(model: Model, choices: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Without samples and calibration: report wrong usage and exit if a scheme needs them.

    With a scheme of LiteRT, scales may also come from operators of ``model`` that round (``take_grids``).
    ``choices``: the result of ``_choices``.
    """
    scheme = SCHEMES[choices.get("scheme", DEFAULT_SCHEME)]
    chosen = [scheme, *map(find_scheme, choices.get("operators", {}).values())]
    needy = [s.name for s in chosen if s is not None and s.activations is not None]
    takes_grids = scheme.activations is not None and not scheme.follows_one
    if needy and not (takes_grids and any(take_grids(clone(model)))):
        wanted = "expected --inputs, --random or --calibration"
        arguments.refuse(f"{needy[0]} needs the ranges of activations: {wanted}")


def _choices(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of ``circlekit.quantize`` for the flags that choose how to quantize.

    A flag that was not given has no argument here; so the default of ``circlekit.quantize`` counts.
    """
    choices = {
        "scheme": arguments.scheme,
        "operators": _schemes(arguments) or None,
        "only": arguments.only,
        "inputs": arguments.io,
        "outputs": arguments.io,
        "estimator": arguments.estimator,
        "passes": [] if arguments.no_optimize else None,
        "target": arguments.target,
        "auto": False if arguments.no_auto else None,
        "seconds": arguments.seconds,
        "without": arguments.without or None,
        "target_sqnr": arguments.target_sqnr,
        "budget": arguments.budget,
        "raise_to": arguments.raise_to,
    }
    return {name: choice for name, choice in choices.items() if choice is not None}


def _schemes(arguments: argparse.Namespace) -> dict[str, str]:
    """Return {pattern: scheme} from ``--float`` and ``--set``; exit for a wrong ``--set``."""
    schemes = dict.fromkeys(arguments.float, NO_SCHEME)
    for item in arguments.set:
        pattern, equals, scheme = item.rpartition("=")
        if not equals:
            arguments.refuse(f"--set: expected PATTERN=SCHEME, got {item}")
        with refusing(arguments):
            find_scheme(scheme)  # raises for an unknown name
        schemes[pattern] = scheme
    return schemes


def _samples(model: Model, arguments: argparse.Namespace) -> Iterable[Any] | None:
    """Return the samples of ``--inputs`` or ``--random``; None without these flags."""
    if arguments.inputs is not None:
        return open_samples(arguments.inputs, model)
    if arguments.random is not None:
        return RandomSamples(model, arguments.random, arguments.seed or 0)
    return None


def _print(report: QuantizationReport, arguments: argparse.Namespace) -> None:
    if arguments.quiet:
        return
    if arguments.json:
        print(json_text(report.document()))
        return
    for line in report.lines():
        print(printable(line))


quantize_command = Command("circlekit quantize", DESCRIPTION, "model output", _declare, _run)
