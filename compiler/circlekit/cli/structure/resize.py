# SPDX-License-Identifier: Apache-2.0
"""circlekit resize, and ONE's circle-resizer: give the inputs of a model other shapes."""

from __future__ import annotations

import argparse

from circlekit.api.models import check_output_path, load, save
from circlekit.api.structure import resize
from circlekit.api.structure_checks import check_structure
from circlekit.cli.arguments import MODEL_HELP, Parser, argument_type, integer, model_path, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model, save_model
from circlekit.errors import CirclekitError, ModelError
from circlekit.ir.graph import Model
from circlekit.ir.value import Shape, Value
from circlekit.structure.input_shapes import parse_shapes

RESIZER = """Give the inputs of a model other shapes; the shapes of all results follow."""


def _declare_resizer(parser: Parser) -> None:
    parser.add_argument("--input_path", required=True, metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--output_path", required=True, metavar="MODEL", type=output_path, help="file to write"
    )
    parser.add_argument(
        "--input_shapes",
        required=True,
        metavar="SHAPES",
        help="a shape for each input, such as [1,2],[3,4]; -1 is an unknown dimension",
    )


def _resizer(arguments: argparse.Namespace) -> int:
    try:
        model = load_model(arguments.input_path)
        _print_interface(model, "before")
        resized = resize(model, parse_shapes(arguments.input_shapes))
        _print_interface(resized, "after")
        save_model(resized, arguments.output_path)
    except CirclekitError as error:
        error.message = f"Exception during resizing: {error.message}"
        raise
    print(f"Resizing complete, the model saved to: {arguments.output_path}")
    return 0


def _print_interface(model: Model, when: str) -> None:
    """Print the shapes of inputs and outputs, in ONE's words; ``when``: "before" or "after" the resizing."""
    for kind, values in (("inputs", model.main.inputs), ("outputs", model.main.outputs)):
        print(f"Shapes of {kind} {when} resizing:")
        for index, value in enumerate(values):
            print(f"{index} -> {_text(value.shape)}")


def _text(shape: Shape | None) -> str:
    """Return ``shape`` as ONE prints it: -1 for an unknown dimension, [] for a scalar or an unknown rank."""
    return "[" + ", ".join("-1" if d is None else str(d) for d in shape or ()) + "]"


circle_resizer = Command(
    "circle-resizer",
    RESIZER,
    "--input_path MODEL --output_path MODEL --input_shapes SHAPES",
    _declare_resizer,
    _resizer,
    one=OneCodes(failed=1, usage=1),
)


# -- circlekit resize --------------------------------------------------------------------------

RESIZE = """Give the inputs of a model other shapes.

The shapes of all results change with them, and so do constants that state a shape, such as the new shape of a
RESHAPE."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument(
        "-o", "--output", required=True, type=model_path, metavar="MODEL", help="file to write"
    )
    parser.add_argument(
        "--shapes",
        type=argument_type(parse_shapes),
        metavar="SHAPES",
        help="a shape for each input, such as [1,2],[3,4]; -1 is an unknown dimension",
    )
    parser.add_argument(
        "--input",
        type=argument_type(_named_shape),
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help="the shape of one input, the others stay; may be repeated",
    )
    parser.add_argument(
        "--batch", type=integer, metavar="N", help="a new first dimension of all inputs; -1: unknown"
    )


def _resize(arguments: argparse.Namespace) -> int:
    given = [arguments.shapes is not None, bool(arguments.input), arguments.batch is not None]
    if sum(given) != 1:
        arguments.refuse("expected one of --shapes, --input and --batch")
    if len(dict(arguments.input)) < len(arguments.input):
        arguments.refuse("--input: expected one shape for each input, got an input twice")
    check_output_path(arguments.output)
    model = load(arguments.model)
    resized = resize(model, _shapes(arguments, model))
    check_structure(resized, arguments.model)  # an error names the model that was read
    save(resized, arguments.output)
    for before, after in zip(
        (*model.main.inputs, *model.main.outputs), (*resized.main.inputs, *resized.main.outputs), strict=True
    ):
        print(_change(before, after))
    return 0


def _named_shape(word: str) -> tuple[str, list[int]]:
    """Return (name, shape) from the value of ``--input``; raise ValueError or ShapeError if it is wrong."""
    name, _, text = word.rpartition("=")
    shapes = parse_shapes(text) if name else []
    if len(shapes) != 1:
        raise ValueError(f"expected NAME=SHAPE, got {word!r}")
    return name, shapes[0]


def _shapes(
    arguments: argparse.Namespace, model: Model
) -> list[list[int]] | list[list[int | None]] | dict[str, list[int]]:
    """Return the new shapes: a list with one for each input, or a dict with some of them by input name.

    None and -1 stand for an unknown dimension.
    Raise ModelError if an input has no dimension for ``--batch``.
    """
    if arguments.shapes is not None:
        shapes: list[list[int]] = arguments.shapes
        return shapes
    if arguments.batch is not None:
        unfit = next((v for v in model.main.inputs if not v.shape), None)  # a scalar, or of unknown rank
        if unfit is not None:
            raise ModelError(f"input %{unfit.name} has no first dimension; give shapes with --input")
        return [[arguments.batch, *(v.shape or ())[1:]] for v in model.main.inputs]
    return dict(arguments.input)


def _change(before: Value, after: Value) -> str:
    """Return a line with the name and the shape of a value, and its new shape if the two differ."""
    change = "" if before.shape == after.shape else f" -> {_text(after.shape)}"
    return f"{before.name}: {_text(before.shape)}{change}"


resize_command = Command("circlekit resize", RESIZE, "model -o MODEL", _declare, _resize)
