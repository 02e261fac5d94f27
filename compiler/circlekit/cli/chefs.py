# SPDX-License-Identifier: Apache-2.0
"""circlechef, tflchef and their variants: make models from recipes, and recipes from models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from circlekit.api import load, save
from circlekit.api.options import check_apart, check_target, target_format
from circlekit.cli.arguments import Parser, add_limits
from circlekit.cli.process import run_command
from circlekit.errors import FileError
from circlekit.io.file_map import read_all
from circlekit.io.write.save import encoded
from circlekit.passes.engine.legalize import legalize
from circlekit.recipes.load import load_recipe, recipe_in
from circlekit.recipes.recipe_export import write_recipe

Argv = Sequence[str] | None
"""The arguments of a command; None for those of the process."""


def circlechef(argv: Argv = None) -> int:
    """Read a recipe from the standard input and write a circle model to the standard output."""
    return _stream("circlechef", "circle", argv)


def tflchef(argv: Argv = None) -> int:
    """Read a recipe from the standard input and write a TFLite model to the standard output."""
    return _stream("tflchef", "tflite", argv)


def circlechef_file(argv: Argv = None) -> int:
    """Make a circle file from a recipe file."""
    return _file("circlechef-file", "circle", argv)


def tflchef_file(argv: Argv = None) -> int:
    """Make a TFLite file from a recipe file."""
    return _file("tflchef-file", "tflite", argv)


def circlechef_reverse(argv: Argv = None) -> int:
    """Make a recipe from a model, with the operators of circle."""
    return _reverse("circlechef-reverse", "circle", argv)


def tflchef_reverse(argv: Argv = None) -> int:
    """Make a recipe from a model, with the operators of TFLite."""
    return _reverse("tflchef-reverse", "tflite", argv)


def _file(name: str, format: str, argv: Argv) -> int:
    def parser() -> Parser:
        parser = Parser(name, f"Make the {format} model that a recipe describes.", "recipe output")
        parser.add_argument("recipe", help="a test.recipe, or a model in the text form (.ck)")
        parser.add_argument("output", help=f"the .{format} file to write")
        add_limits(parser)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        target_format(arguments.output, format)
        check_target(arguments.output)
        save(load_recipe(arguments.recipe, format), arguments.output, format)
        return 0

    return run_command(parser, argv, run)


def _stream(name: str, format: str, argv: Argv) -> int:
    def parser() -> Parser:
        parser = Parser(name, f"Make the {format} model of a recipe: standard input to standard output.", "")
        add_limits(parser)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        if sys.stdin is None:
            raise FileError("expected a recipe on the standard input, which is closed")
        try:
            content = read_all(sys.stdin.buffer, "<stdin>")
        except OSError as error:
            raise FileError(f"<stdin>: cannot be read: {error.strerror}") from None
        if sys.stdout is None:
            raise FileError("cannot write the model: the standard output is closed")
        model = recipe_in(content, "<stdin>", format)
        sys.stdout.buffer.writelines(encoded(legalize(model, format), format).pieces())
        return 0

    return run_command(parser, argv, run)


def _reverse(name: str, format: str, argv: Argv) -> int:
    def parser() -> Parser:
        parser = Parser(name, "Make a recipe from which a model can be made again.", "model recipe")
        parser.add_argument("model", help="a .circle or .tflite file, or a recipe")
        parser.add_argument(
            "recipe",
            help="the recipe to write: .ck in the text form, any other name as test.recipe;"
            " large constants become .npy files beside it",
        )
        parser.add_argument(
            "--gaussian",
            action="store_true",
            help="replace large constants by random numbers of the same mean and deviation",
        )
        add_limits(parser)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        check_target(arguments.recipe)
        check_apart(arguments.model, arguments.recipe)
        write_recipe(load(arguments.model), arguments.recipe, format, arguments.gaussian)
        return 0

    return run_command(parser, argv, run)
