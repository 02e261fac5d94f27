# SPDX-License-Identifier: Apache-2.0
"""Files of recipes and models: cook one into the other, and back."""

from __future__ import annotations

import os
from pathlib import Path

from circlekit.errors import UnsupportedError
from circlekit.io.read.flatbuffer_decoder import decode, identify
from circlekit.io.read.load import load_bytes
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.text import print_model
from circlekit.ir.value import Value
from circlekit.passes.engine.legalize import legalize
from circlekit.recipes.prototext.filler_selection import Folder
from circlekit.recipes.prototext.recipe_writer import recipe_text

TEXT_FORM = ".ck"
"""The extension of the project's own text form; every other name is one of ``test.recipe``."""


def write_recipe(model: Model, path: str | os.PathLike[str], fmt: str, resample: bool = False) -> None:
    """Write ``model`` as a recipe of format ``fmt`` that makes it again: the text form for ``.ck``, else
    ``test.recipe``.

    Large constants become ``.npy`` files beside the recipe, or with ``resample`` fillers of the same mean and
    deviation (the model is then another one).  What the format lacks is replaced by what it has.
    """
    target = Path(path)
    folder = Folder(target.name.removesuffix(target.suffix))
    model = model if model.format == fmt else load_bytes(to_bytes(legalize(model, fmt), fmt))
    if target.suffix == TEXT_FORM:
        if resample:
            raise UnsupportedError(f"{target}: random numbers for constants are for test.recipe only")
        text = _text_form(model, folder)
    else:
        data = memoryview(to_bytes(model, fmt))
        assert identify(data) == fmt
        text = recipe_text(decode(data, fmt), data, fmt, folder.keep, resample)
    for name, content in folder.files.items():
        write_file(target.parent / name, [content])
    write_file(target, [text.encode("utf-8", "surrogateescape")])


def _text_form(model: Model, folder: Folder) -> str:
    kept: dict[int, tuple[str, int]] = {}

    def locate(value: Value) -> tuple[str, int] | None:
        if value.data is None:
            return None
        if id(value) not in kept:
            name = folder.keep(value.name, value.data)
            kept[id(value)] = (name, folder.offsets[name])
        return kept[id(value)]

    return print_model(model, locate)
