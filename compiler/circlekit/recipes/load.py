# SPDX-License-Identifier: Apache-2.0
"""Recipes of either language -> models: a file, or a text that says in which language it is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import circlekit.ops  # noqa: F401  operators are known by their declarations
from circlekit.errors import CirclekitError, FormatError, ModelError
from circlekit.io.file_map import map_file
from circlekit.io.read.load import load_bytes
from circlekit.io.write.flatbuffer_encoder import INLINE_LIMIT, encode
from circlekit.ir.graph import Model
from circlekit.ir.resource_limits import adding_up
from circlekit.ir.text import parse_model
from circlekit.recipes.prototext.filler_data import Files
from circlekit.recipes.prototext.prototext_parser import TextSource
from circlekit.recipes.prototext.recipe_reader import read_tree, recipe_format

_FIELD = re.compile(r"(?:\s|#[^\n]*\n)*(?!extra\b)[A-Za-z_]\w*\s*[:{<]")
"""How ``test.recipe`` starts: a field.  No statement of the text form does, ``extra`` excepted."""


def load_recipe(path: str | os.PathLike[str], fmt: str | None = None) -> Model:
    """The model of a recipe file in either language.

    ``fmt``: what ``test.recipe`` describes, "circle" or "tflite"; None where the text or the name of a
    folder above says it (TFLite where neither does).  FileError, or ParseError with line and column.
    """
    return recipe_in(map_file(path), path, fmt)


def recipe_in(content: memoryview, path: str | os.PathLike[str], fmt: str | None = None) -> Model:
    """``load_recipe`` of a file whose content is at hand; ``path`` is for errors, and where its files are."""
    name = os.fspath(path)
    text = decoded(content, name)
    model = read_recipe(text, name, fmt or _format_of_folder(Path(path)), Path(path).parent, fmt is not None)
    model.source = name
    return model


def decoded(content: memoryview, name: str) -> str:
    """Decode the text of a recipe; FormatError if it is not UTF-8."""
    try:
        return bytes(content).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is neither a model nor a text in UTF-8: {error}") from None


def is_test_recipe(text: str) -> bool:
    """Whether a text is ``test.recipe`` (protobuf), not the project's own text form."""
    return _FIELD.match(text) is not None


@adding_up()
def read_recipe(
    text: str, label: str, fmt: str | None = None, folder: Path | None = None, sure: bool = True
) -> Model:
    """The model of a text in either language; ``label`` is for errors, ``folder`` where its files are.

    ``fmt``: the format of ``test.recipe``; unless ``sure``, words that only circle has go before it.
    """
    files = _files_of(folder)
    if not is_test_recipe(text):
        return parse_model(text, label, lambda name, offset, size: _slice(files(name), offset, size))
    source = TextSource(text, label)
    if fmt is None or not sure:
        fmt = recipe_format(source) or fmt or "tflite"
    tree, is_far = read_tree(source, fmt, files)
    try:
        pieces = encode(tree, fmt, 0 if is_far else INLINE_LIMIT).pieces()
        return load_bytes(b"".join(pieces), label)
    except CirclekitError as error:
        raise source.error_at(0, error.message.removeprefix(f"{label}: ")) from error


def _format_of_folder(path: Path) -> str | None:
    """What the names of the folders above say, such as the peer's ``CircleRecipes``."""
    names = [parent.name.lower() for parent in path.absolute().parents]
    return next((fmt for name in names[:3] for fmt in ("tflite", "circle") if _says(name, fmt)), None)


def _says(name: str, fmt: str) -> bool:
    return name.startswith({"tflite": "tensorflowlite", "circle": "circle"}[fmt])


def _files_of(folder: Path | None) -> Files:
    """The bytes of the files beside a recipe, and of no others."""
    read: dict[str, bytes] = {}

    def files(name: str) -> bytes:
        if folder is None:
            raise ModelError("this recipe refers to a file, which is not allowed here")
        if not name or Path(name).name != name or name in (".", ".."):
            raise ModelError(f"a recipe can name files beside it, {name!r} is elsewhere")
        if name not in read:
            read[name] = bytes(map_file(folder / name))
        return read[name]

    return files


def _slice(data: bytes, offset: int, size: int) -> bytes:
    return data[offset : offset + size]
