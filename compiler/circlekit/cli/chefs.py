# SPDX-License-Identifier: Apache-2.0
"""circlechef, tflchef and their variants: make models from recipes, and recipes from models."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from circlekit.api import load, save
from circlekit.api.options import check_apart, check_target, target_format
from circlekit.cli.command import Parser, add_limits, run_command
from circlekit.errors import FileError
from circlekit.io.file_map import read_all
from circlekit.io.write.save import encoded
from circlekit.passes.engine.legalize import legalize
from circlekit.recipes.load import load_recipe, recipe_in
from circlekit.recipes.recipe_export import write_recipe


def _file(name: str, format: str) -> partial[int]:
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

    return partial(run_command, parser, run)


def _stream(name: str, format: str) -> partial[int]:
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

    return partial(run_command, parser, run)


def _reverse(name: str, format: str) -> partial[int]:
    def parser() -> Parser:
        parser = Parser(name, "Make a recipe from which a model can be made again.", "model recipe")
        parser.add_argument("model", help="a .circle or .tflite file, or a recipe")
        parser.add_argument(
            "recipe",
            help="the recipe to write: .ck in the text form, any other name as test.recipe;"
            " large constants become .npy files beside it",
        )
        parser.add_switch(
            "--gaussian", help="replace large constants by random numbers of the same mean and deviation"
        )
        add_limits(parser)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        check_target(arguments.recipe)
        check_apart(arguments.model, arguments.recipe)
        write_recipe(load(arguments.model), arguments.recipe, format, arguments.gaussian)
        return 0

    return partial(run_command, parser, run)


circlechef = _stream("circlechef", "circle")
tflchef = _stream("tflchef", "tflite")
circlechef_file = _file("circlechef-file", "circle")
tflchef_file = _file("tflchef-file", "tflite")
circlechef_reverse = _reverse("circlechef-reverse", "circle")
tflchef_reverse = _reverse("tflchef-reverse", "tflite")
