# SPDX-License-Identifier: Apache-2.0
"""What the commands that cook recipes, and make them, have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from circlekit.cli.common import Parser, add_limits, run_command
from circlekit.errors import FileError

RECIPE = "a test.recipe, or a model in the project's own text form (.ck)"


def cook_file(name: str, format: str, argv: Sequence[str] | None) -> int:
    """Command ``name``: a recipe file becomes a model file."""

    def run(arguments: argparse.Namespace) -> int:
        from circlekit.api import save
        from circlekit.api.checks import check_target, target_format
        from circlekit.recipes.load import load_recipe

        target_format(arguments.output, format)
        check_target(arguments.output)
        save(load_recipe(arguments.recipe, format), arguments.output, format)
        return 0

    def parser() -> Parser:
        parser = Parser(name, f"Make the {format} model that a recipe describes.", "recipe output")
        parser.add_argument("recipe", help=RECIPE)
        parser.add_argument("output", help=f"the .{format} file to write")
        add_limits(parser)
        return parser

    return run_command(parser, argv, run)


def cook_stream(name: str, format: str, argv: Sequence[str] | None) -> int:
    """Command ``name``: a recipe on the standard input, the model on the standard output."""

    def run(arguments: argparse.Namespace) -> int:
        from circlekit.io.write.save import encoded
        from circlekit.passes.legal.legalize import legalize
        from circlekit.recipes.load import recipe_in

        content = _standard_input()
        if sys.stdout is None:
            raise FileError("there is no standard output, the model goes there")
        model = recipe_in(content, "<stdin>", format)
        sys.stdout.buffer.writelines(encoded(legalize(model, format), format).pieces())
        return 0

    def parser() -> Parser:
        parser = Parser(name, f"Make the {format} model of a recipe: standard input to standard output.", "")
        add_limits(parser)
        return parser

    return run_command(parser, argv, run)


def _standard_input() -> memoryview:
    """All of it; FileError where there is none."""
    from circlekit.io.files import read_all

    if sys.stdin is None:
        raise FileError("there is no standard input, a recipe is wanted there")
    try:
        return read_all(sys.stdin.buffer, "<stdin>")
    except OSError as error:
        raise FileError(f"<stdin>: cannot be read: {error.strerror}") from None


def make_recipe(name: str, format: str, argv: Sequence[str] | None) -> int:
    """Command ``name``: a model file becomes a recipe."""

    def run(arguments: argparse.Namespace) -> int:
        from circlekit.api import load
        from circlekit.api.checks import check_apart, check_target
        from circlekit.recipes.chef import reverse_model

        check_target(arguments.recipe)
        check_apart(arguments.model, arguments.recipe)
        reverse_model(load(arguments.model), arguments.recipe, format, arguments.gaussian)
        return 0

    def parser() -> Parser:
        parser = Parser(name, "Make the recipe that a model can be made of again.", "model recipe")
        parser.add_argument("model", help="a .circle or .tflite file, or a recipe")
        parser.add_argument(
            "recipe",
            help="the recipe to write: .ck in the project's own text form, any other name as test.recipe;"
            " large constants become .npy files beside it",
        )
        parser.add_argument(
            "--gaussian",
            action="store_true",
            help="large constants become random numbers of their mean and deviation: another model",
        )
        add_limits(parser)
        return parser

    return run_command(parser, argv, run)
