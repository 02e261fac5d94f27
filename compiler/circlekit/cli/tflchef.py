# SPDX-License-Identifier: Apache-2.0
"""tflchef, tflchef-file, tflchef-reverse: recipes to tflite models, and back."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.cli.chefs import cook_file, cook_stream, make_recipe


def main(argv: Sequence[str] | None = None) -> int:
    return cook_stream("tflchef", "tflite", argv)


def main_file(argv: Sequence[str] | None = None) -> int:
    return cook_file("tflchef-file", "tflite", argv)


def main_reverse(argv: Sequence[str] | None = None) -> int:
    return make_recipe("tflchef-reverse", "tflite", argv)
