# SPDX-License-Identifier: Apache-2.0
"""Operators on dtypes for which they may have no kernel: they give results or raise CirclekitError."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import circlekit

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "ops").glob("*.ck"))
DTYPES = ("f32", "i32", "u8", "bool", "c64")


def outcome(text: str) -> str:
    """Return the dtypes of the outputs for inputs of zeros, or the sentence of the error."""
    try:
        model = circlekit.parse(text)
        arrays = [np.zeros([d or 1 for d in v.static_shape], v.dtype.numpy) for v in model.main.inputs]
        return " ".join(str(array.dtype) for array in circlekit.run(model, arrays))
    except circlekit.CirclekitError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_wrong_dtype(path: Path) -> None:
    """Each dtype of DTYPES in a recipe is replaced by the others.  Any error must be a CirclekitError."""
    text = path.read_text()
    for match in re.finditer(r"\b(\w+)\[", text):
        for dtype in set(DTYPES) - {match[1]} if match[1] in DTYPES else ():
            assert outcome(text[: match.start(1)] + dtype + text[match.end(1) :])


def test_a_convolution_of_integers_with_a_float_filter_is_refused() -> None:
    text = """graph main(%x: i32[1,2,2,1]) -> %y {
                %y = Conv2D(%x, [[[[0.5]]]], [1.0]) {padding: VALID} : f32[1,2,2,1]
              }"""
    assert outcome(text).startswith("CONV_2D on float32, int32 has no kernel, only f32 and f64 have")
