# SPDX-License-Identifier: Apache-2.0
"""circlechef, tflchef and their variants: make models from recipes, and recipes from models."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from circlekit.api.models import check_output_path, load, refuse_overwriting, save, target_format
from circlekit.cli.arguments import Parser, output_of, output_path, refusing
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.result import PIPE, output_to, source_of
from circlekit.errors import FileError
from circlekit.io.file_map import read_all
from circlekit.io.write.save import encoded, write
from circlekit.ir.graph import Model
from circlekit.passes.engine.legalize import legalize
from circlekit.recipes.load import decoded, load_recipe, read_recipe
from circlekit.recipes.recipe_export import write_recipe


def _declare_file(parser: Parser) -> None:
    parser.add_argument("recipe", help="a test.recipe, or a model in the text form (.ck)")
    format = parser.get_default("format")  # each of these commands has a fixed format
    parser.add_argument("output", type=output_path, help=f"the .{format} file to write")


def _make_from_file(arguments: argparse.Namespace) -> int:
    format = target_format(arguments.output, arguments.format)
    check_output_path(arguments.output)
    save(load_recipe(arguments.recipe, format), arguments.output, format)
    return 0


def _make_on_streams(arguments: argparse.Namespace) -> int:
    _write_stream(_recipe_on_stdin(arguments.format), arguments.format)
    return 0


def _recipe_on_stdin(format: str | None) -> Model:
    """Return the model that the recipe on the standard input describes.

    ``format``: the format of the model; None: as in ``read_recipe``.  It matters only for a recipe in ONE's
    language, because a recipe in the text form names its format, or is for circle.
    Raise FileError if the standard input cannot be read, and the errors of ``load_recipe``.
    """
    if sys.stdin is None:
        raise FileError("expected a recipe on the standard input, which is closed")
    try:
        content = read_all(sys.stdin.buffer, "<stdin>")
    except OSError as error:
        raise FileError(f"<stdin>: cannot be read: {error.strerror}") from None
    model = read_recipe(decoded(content, "<stdin>"), "<stdin>", format, Path())
    model.source = "<stdin>"
    return model


def _write_stream(model: Model, format: str) -> None:
    """Write ``model`` to the standard output; raise FileError if the output is closed or a terminal."""
    with output_to(PIPE) as stream:
        write(encoded(legalize(model, format), format), stream, model.source)


RECIPE_TO_WRITE = (
    "the recipe to write: in the text form if its name ends in .ck, else in ONE's language (test.recipe),"
    " with large constants in .npy files beside it"
)
"""The help text of an argument for a recipe."""


def _declare_reverse(parser: Parser) -> None:
    parser.add_argument("model", help="a .circle or .tflite file, or a recipe")
    parser.add_argument("recipe", type=output_path, help=RECIPE_TO_WRITE)
    _add_gaussian(parser)


def _add_gaussian(parser: Parser) -> None:
    parser.add_switch(
        "--gaussian",
        help="write large constants as random numbers with the same mean and deviation; not in the text form",
    )


def _reverse(arguments: argparse.Namespace) -> int:
    check_output_path(arguments.recipe)
    refuse_overwriting(arguments.model, arguments.recipe)
    model = load(source_of(arguments.model))
    write_recipe(model, arguments.recipe, arguments.format or model.format, arguments.gaussian)
    return 0


def _declare_recipe(parser: Parser) -> None:
    parser.add_argument(
        "input",
        help="a recipe (.ck in the text form, or test.recipe); with --reverse, a model; - is stdin",
    )
    parser.add_output(f"the .circle or .tflite file to write, - is stdout; with --reverse, {RECIPE_TO_WRITE}")
    parser.add_switch("--reverse", help="make a recipe from a model")
    _add_gaussian(parser)
    parser.add_format("format of the model")


def _recipe(arguments: argparse.Namespace) -> int:
    """Run ``circlekit recipe``: name its arguments as the other commands do, and call their functions."""
    arguments.output = output_of(arguments)
    if arguments.reverse:
        arguments.model, arguments.recipe = arguments.input, arguments.output
        if arguments.output == PIPE:
            arguments.refuse("expected a file for the recipe, got -; circlekit dump --text prints a recipe")
        return _reverse(arguments)
    if arguments.gaussian:
        arguments.refuse("--gaussian is for --reverse, which writes a recipe")
    arguments.recipe = arguments.input
    if arguments.output != PIPE:
        with refusing(arguments):
            target_format(arguments.output, arguments.format)
    if PIPE not in (arguments.input, arguments.output):
        return _make_from_file(arguments)
    return _make_with_pipe(arguments)


def _make_with_pipe(arguments: argparse.Namespace) -> int:
    """Make a model from a recipe; ``-`` as input or output is a standard stream.  Return the exit code."""
    format = arguments.format
    if arguments.output != PIPE:
        format = target_format(arguments.output, format)
        check_output_path(arguments.output)
    is_stdin = arguments.input == PIPE
    model = _recipe_on_stdin(format) if is_stdin else load_recipe(arguments.input, format)
    if arguments.output != PIPE:
        save(model, arguments.output, format)
    else:
        _write_stream(model, format or model.format)
    return 0


CODES = OneCodes(unread=255)
"""The exit codes of ONE's circlechef and tflchef; 255 also for a file that cannot be read."""


def _commands(prefix: str, format: str) -> tuple[Command, Command, Command]:
    """Return the commands PREFIX (recipe to model on standard streams), PREFIX-file, and PREFIX-reverse."""
    file = f"Make the {format} model that a recipe describes."
    stream = f"Read a recipe from the standard input; write its {format} model to the standard output."
    reverse = "Make a recipe that describes a model."
    return (
        Command(prefix, stream, "", lambda parser: None, _make_on_streams, format, one=CODES),
        Command(f"{prefix}-file", file, "recipe output", _declare_file, _make_from_file, format, one=CODES),
        Command(f"{prefix}-reverse", reverse, "model recipe", _declare_reverse, _reverse, format, one=CODES),
    )


circlechef, circlechef_file, circlechef_reverse = _commands("circlechef", "circle")
tflchef, tflchef_file, tflchef_reverse = _commands("tflchef", "tflite")

recipe = Command(
    "circlekit recipe",
    "Make a model from a recipe, or a recipe from a model.",
    "input output",
    _declare_recipe,
    _recipe,
)
