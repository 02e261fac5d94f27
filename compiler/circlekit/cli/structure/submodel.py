# SPDX-License-Identifier: Apache-2.0
"""circlekit extract and ONE's circle-opselector cut out a submodel; circlekit merge joins models."""

from __future__ import annotations

import argparse

from circlekit.api.models import check_output_path, load, save
from circlekit.api.structure import extract, merge, select
from circlekit.api.structure_checks import check_structure
from circlekit.cli.arguments import (
    MODEL_HELP,
    Parser,
    argument_type,
    comma_separated,
    model_path,
    output_path,
)
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model, save_model
from circlekit.errors import counted
from circlekit.ir.graph import Model
from circlekit.structure.selection import parse_ids


def _summary(model: Model) -> str:
    """Return three lines: the number of operators, the inputs, and the outputs."""
    sides = [", ".join(map(repr, side)) for side in (model.main.inputs, model.main.outputs)]
    return f"{counted(len(model.main), 'operator')}\n  inputs:  {sides[0]}\n  outputs: {sides[1]}"


# -- circle-opselector -------------------------------------------------------------------------

SELECTOR = """Make a model of chosen operators of the main graph.

Values that the chosen operators read but do not compute become inputs, except constants and variables.
Results that other operators read, or that are outputs of the model, become outputs."""


def _declare_selector(parser: Parser) -> None:
    parser.add_argument("input", help=MODEL_HELP)
    parser.add_argument("output", type=output_path, help="file to write")
    parser.add_argument("--by_id", metavar="IDS", help="indices of operators, from 0, such as 1-3,5")
    parser.add_argument(
        "--by_name", metavar="NAMES", help="names of results of operators, separated by commas"
    )


def _select(arguments: argparse.Namespace) -> int:
    if (arguments.by_id is None) == (arguments.by_name is None):
        arguments.refuse("Either option '--by_id' or '--by_name' must be specified")
    ids = parse_ids(arguments.by_id) if arguments.by_id is not None else ()
    check_output_path(arguments.output)
    chosen = select(load_model(arguments.input), ids, comma_separated(arguments.by_name))
    save_model(chosen, arguments.output)
    return 0


circle_opselector = Command(
    "circle-opselector",
    SELECTOR,
    "input output",
    _declare_selector,
    _select,
    one=OneCodes(usage=1),
)


# -- circlekit extract -------------------------------------------------------------------------

EXTRACT = """Cut a submodel out of a model.

With --inputs or --outputs, the submodel has all operators that compute the outputs from the inputs. With
--ops or --names, it has the chosen operators: values that they read but do not compute become inputs, except
constants and variables; results that other operators read, or that are outputs of the model, become
outputs."""


def _declare_extract(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument(
        "-o", "--output", required=True, type=model_path, metavar="MODEL", help="file to write"
    )
    parser.add_argument(
        "--inputs", metavar="NAMES", help="values where the submodel begins (default: the model's inputs)"
    )
    parser.add_argument("--outputs", metavar="NAMES", help="values to compute (default: the model's outputs)")
    parser.add_argument(
        "--ops",
        type=argument_type(parse_ids),
        metavar="IDS",
        help="indices of operators, from 0, such as 1-3,5",
    )
    parser.add_argument("--names", metavar="NAMES", help="operators with results of these names")


def _extract(arguments: argparse.Namespace) -> int:
    by_values = arguments.inputs is not None or arguments.outputs is not None
    by_operators = arguments.ops is not None or arguments.names is not None
    if by_values == by_operators:
        arguments.refuse("expected either --inputs/--outputs or --ops/--names")
    check_output_path(arguments.output)
    model = load(arguments.model)
    if by_values:
        part = extract(model, comma_separated(arguments.inputs), comma_separated(arguments.outputs))
    else:
        part = select(model, arguments.ops or (), comma_separated(arguments.names))
    check_structure(part, arguments.model)  # an error names the model that was read
    save(part, arguments.output)
    print(f"{arguments.output}: {_summary(part)}")
    return 0


extract_command = Command("circlekit extract", EXTRACT, "model -o MODEL", _declare_extract, _extract)


# -- circlekit merge ---------------------------------------------------------------------------

MERGE = """Join several models into one.

An input is connected to the output of the same name in another model, or to the output that --connect gives.
Inputs for which there is no output become inputs of the result."""


def _declare_merge(parser: Parser) -> None:
    parser.add_argument("models", nargs="+", metavar="model", help=MODEL_HELP)
    parser.add_argument(
        "-o", "--output", required=True, type=model_path, metavar="MODEL", help="file to write"
    )
    parser.add_argument(
        "--connect", action="append", default=[], metavar="OUTPUT=INPUT",
        help="connect an output to an input of another name; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--outputs", metavar="NAMES", help="outputs of the result (default: outputs that no model reads)"
    )


def _merge(arguments: argparse.Namespace) -> int:
    pairs = [word.rpartition("=")[::2] for word in arguments.connect]
    if not all(all(pair) for pair in pairs):
        arguments.refuse("--connect: expected OUTPUT=INPUT")
    links = {input: output for output, input in pairs}
    if len(links) < len(pairs):
        arguments.refuse("--connect: expected one output for each input, got an input twice")
    check_output_path(arguments.output)
    models = [load(path) for path in arguments.models]
    merged = merge(models, links, comma_separated(arguments.outputs))
    check_structure(merged, arguments.output)  # several models were read, so an error names the new one
    save(merged, arguments.output)
    print(f"{arguments.output}: {_summary(merged)}")
    return 0


merge_command = Command("circlekit merge", MERGE, "model ... -o MODEL", _declare_merge, _merge)
