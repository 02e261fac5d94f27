# SPDX-License-Identifier: Apache-2.0
"""Write models as recipes (texts), in the text form (``.ck``) or in ONE's language (``test.recipe``)."""

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
from circlekit.recipes.prototext.filler_data import Folder
from circlekit.recipes.prototext.recipe_writer import recipe_text

TEXT_FORM = ".ck"
"""The extension of the text form; any other extension stands for ONE's language."""


def write_recipe(model: Model, path: str | os.PathLike[str], fmt: str, resample: bool = False) -> None:
    """Write a recipe of ``model`` in the format ``fmt``; operators that the format lacks are replaced.

    ``path``: with the extension ``.ck`` for the text form, any other for the language of ``test.recipe``.
    ``resample``: True: the recipe replaces large constants by random numbers with the same mean and standard
    deviation; only ONE's language has that.  False: large constants become ``.npy`` files beside the recipe,
    and reading the recipe gives an equal model.
    Raise UnsupportedError for a model that the format or the language cannot express, and FileError if a file
    cannot be written.
    """
    target = Path(path)
    folder = Folder(target.name.removesuffix(target.suffix))
    model = model if model.format == fmt else load_bytes(to_bytes(legalize(model, fmt), fmt))
    if target.suffix == TEXT_FORM:
        if resample:
            raise UnsupportedError(f"{target}: expected a recipe in ONE's language for resampled constants")
        text = _text_form(model, folder)
    else:
        data = memoryview(to_bytes(model, fmt))
        assert identify(data) == fmt
        text = f"# format: {fmt}\n{recipe_text(decode(data, fmt), data, fmt, folder, resample)}"
    for name, content in folder.files.items():
        write_file(target.parent / name, [content])
    write_file(target, [text.encode("utf-8", "surrogateescape")])


def _text_form(model: Model, folder: Folder) -> str:
    """Return the text of ``model``; add to ``folder`` the constants whose elements the text does not list."""
    added: dict[int, tuple[str, int]] = {}  # by id of the value: name of its file, offset of its data

    def locate(value: Value) -> tuple[str, int] | None:
        """Add the constant ``value`` to ``folder``, once; return (name of its file, offset of its data).

        Return None if ``value`` has no data.  ``print_model`` calls this for constants that it does not list.
        """
        if value.data is None:
            return None
        if id(value) not in added:
            name = folder.add(value.data)
            added[id(value)] = (name, folder.offsets[name])
        return added[id(value)]

    return print_model(model, locate)
