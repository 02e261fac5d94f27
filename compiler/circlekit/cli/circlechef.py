# SPDX-License-Identifier: Apache-2.0
"""circlechef, circlechef-file, circlechef-reverse: recipes to circle models, and back."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.chefs import cook_file, cook_stream, make_recipe


def main(argv: Sequence[str] | None = None) -> int:
    return cook_stream("circlechef", "circle", argv)


def main_file(argv: Sequence[str] | None = None) -> int:
    return cook_file("circlechef-file", "circle", argv)


def main_reverse(argv: Sequence[str] | None = None) -> int:
    return make_recipe("circlechef-reverse", "circle", argv)
