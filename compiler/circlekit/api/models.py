# SPDX-License-Identifier: Apache-2.0
"""Models: from a file, into a file, their values, compared."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from circlekit.equivalence.verify import compare_models
from circlekit.interp.interpreter import run as run_model
from circlekit.io.file_map import map_file
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import format_of
from circlekit.io.write.save import save as save_file
from circlekit.ir.graph import Model
from circlekit.passes.engine.legalize import legalize
from circlekit.recipes.load import recipe_in

if TYPE_CHECKING:
    from circlekit.equivalence.comparison import Comparison
    from circlekit.equivalence.reference_runs import Inputs
    from circlekit.ir.value import Array

FilePath = str | os.PathLike[str]

_TEXT_PROBE = 4096


def load(path: FilePath) -> Model:
    """The model in a file: circle, TFLite, or a recipe in either language, told apart by what is in it.

    Constants are read-only views of a map of the file.  FileError where it cannot be read, FormatError or
    ParseError where it holds no valid model.
    """
    return read(path)[0]


def read(path: FilePath) -> tuple[Model, int | None]:
    """A model, and its size in bytes; None for the size of a text, which is not comparable."""
    name = os.fspath(path)
    content = map_file(path)
    text = _is_text(content)
    model = recipe_in(content, path) if text else load_bytes(content, name)
    model.source = name
    return model, None if text else len(content)


def _is_text(content: memoryview) -> bool:
    """Whether this starts like text: not empty, and no control characters but tabs and line ends."""
    probe = bytes(content[:_TEXT_PROBE])
    return bool(probe) and all(byte >= 32 or byte in b"\t\n\r\f" for byte in probe)


def save(model: Model, path: FilePath, format: str | None = None) -> None:
    """Write ``model``; ``format`` (circle, tflite) follows from the extension, or else from the model.

    What the format lacks is replaced by what it has, in the file only.  The file appears whole or not at
    all.  UnsupportedError for what cannot be replaced, FileError where the file cannot be written.
    """
    target = format or format_of(path) or model.format
    save_file(legalize(model, target), path, target)


def run(model: Model, inputs: Inputs) -> list[Array]:
    """What the main graph computes: one new array for each of its outputs, in its order.

    ``inputs``: arrays in the graph's order, or by the names of its inputs, with its dtypes (quantized
    integers stay as they are) and its shapes; an unknown dimension takes any size.  ShapeError where they
    do not fit, UnsupportedError, with the place, for an operator, a dtype or a form without a kernel.
    """
    return run_model(model, inputs)


def compare(a: Model, b: Model, inputs: Inputs | None = None) -> Comparison:
    """Compare two models by interface and value; ``a`` is the reference.

    ``inputs``: as for ``run``; None for seeded ones: normal, boundary and zero.  Integers must be equal,
    floats to 1e-5 (float32) of the reference's largest magnitude, or to what rounding makes in a model that
    amplifies it.  The result is true where all are equal, and prints what was compared.  The errors are
    those of ``run``.
    """
    return compare_models(a, b, inputs)
