# SPDX-License-Identifier: Apache-2.0
"""Read recipes (models as texts) in either language: the text form, or ONE's ``test.recipe``.

The text itself, not the name of the file, decides which language it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import circlekit.ops  # noqa: F401  # imported to declare the operators
from circlekit.errors import CirclekitError, FormatError, ModelError
from circlekit.io.file_map import map_file
from circlekit.io.foreign_files import foreign_file
from circlekit.io.read.declare_opaque import declare_opaque
from circlekit.io.read.flatbuffer_decoder import identify
from circlekit.io.read.load import load_bytes, unidentified
from circlekit.io.write.flatbuffer_encoder import MAX_INLINE_BYTES, encode
from circlekit.io.write.save import check_format
from circlekit.ir.graph import Model
from circlekit.ir.resources.resource_limits import counted_memory
from circlekit.ir.text import parse_model
from circlekit.ir.text.lexer import error_at
from circlekit.recipes.prototext.filler_data import Files

RECIPE_EXTENSIONS = (".ck", ".recipe")
"""The usual extensions of recipes; files with others are read, too."""

_FIELD = re.compile(r"(?:\s|#[^\n]*\n)*(?!(?:extra|rules)\b)[A-Za-z_]\w*\s*[:{<]")
"""Matches the beginning of a ``test.recipe``: comments, then a field such as ``operand {`` or ``input: "x"``.

The text form begins otherwise.  Only its statements ``extra`` and ``rules`` look like fields, so they are
excluded.
"""


def load_recipe(path: str | os.PathLike[str], fmt: str | None = None) -> Model:
    """Return the model in a recipe file of either language.

    ``fmt``: the format of the model that a ``test.recipe`` describes, ``circle`` or ``tflite``; the text form
    states its format itself.  None: the first of these that applies:

    - the format that the first line of the recipe states (``# format: circle``)
    - circle, if the recipe has words that only circle has
    - the format that the name of a directory around the file begins with: ``circle``, or ``tensorflowlite``
      for tflite, in upper or lower case; of the three nearest directories, the first such one decides
    - tflite

    Raise UnsupportedError for an unknown format, FileError if a file cannot be read, and FormatError if it is
    not a text.  Raise LimitError if ``path`` is a pipe with more bytes than the memory limit.  For a text
    that is not a valid recipe, raise the errors of ``read_recipe``.
    """
    if fmt is not None:
        check_format(fmt)
    return recipe_in(map_file(path), path, fmt)


def recipe_in(content: memoryview, path: str | os.PathLike[str], fmt: str | None = None) -> Model:
    """Return the model in a recipe file that was read already.

    ``content``: the bytes of the file.  ``path``: its path.  ``fmt`` and errors: see ``load_recipe``.
    """
    name = os.fspath(path)
    text = decoded(content, name)
    assumed = fmt or _format_of_folder(Path(path))
    model = read_recipe(text, name, assumed, Path(path).parent, sure=fmt is not None)
    model.source = name
    return model


def decoded(content: memoryview, name: str) -> str:
    """Return the text in ``content``, the bytes of a file that should be a recipe, a rule file or a list.

    ``name``: the name of the file, for errors.
    Raise FormatError if the file is a model, a file of another program, or not UTF-8.
    """
    if (fmt := identify(content)) is not None:
        advice = "`circlekit dump --text` prints it as a recipe"
        raise FormatError(f"{name}: expected a text, got a {fmt} model; {advice}")
    if foreign_file(content) is not None:
        raise FormatError(f"{name}: {unidentified(content)}")
    try:
        return bytes(content).decode("utf-8-sig")  # editors of Windows write the mark of UTF-8
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: is neither a model nor a text in UTF-8: {error}") from None


def is_test_recipe(text: str) -> bool:
    """Return whether ``text`` is a ``test.recipe`` (protobuf text).  If not, it is the text form."""
    return _FIELD.match(text) is not None


@counted_memory()
def read_recipe(
    text: str, label: str, fmt: str | None = None, folder: Path | None = None, sure: bool = True
) -> Model:
    """Return the model in a text of either language.

    Raise ParseError, with line and column, for an invalid text, or one that names a file by a path, and
    FileError for a file that cannot be read.  The text form also gives the other errors of ``parse_model``,
    such as ShapeError.
    ``label``: the name of the text, for errors.
    ``fmt``: the format of the model of a ``test.recipe``; None: the one that ``recipe_format`` finds in the
    text, otherwise tflite.
    ``folder``: the folder of the files that the text names; None: it must not name any.
    ``sure``: whether ``fmt`` is certain.  If not, a format that ``recipe_format`` finds comes first.
    """
    files = _files_of(folder)
    if not is_test_recipe(text):
        model = parse_model(text, label, lambda name, offset, size: files(name)[offset : offset + size])
        declare_opaque(model, label)
        return model
    from circlekit.recipes.prototext import recipe_reader  # importing protobuf is slow

    if fmt is None or not sure:
        fmt = recipe_reader.recipe_format(text) or fmt or "tflite"
    tree, has_external_data = recipe_reader.read_tree(text, label, fmt, files)
    try:  # the tree becomes a file in memory, which is read like any other file, with the same checks
        inline_limit = 0 if has_external_data else MAX_INLINE_BYTES  # 0: all constants are external data
        pieces = encode(tree, fmt, inline_limit).pieces()
        return load_bytes(b"".join(pieces), label)
    except CirclekitError as error:
        raise error_at(label, text, 0, error.message.removeprefix(f"{label}: ")) from error


def _format_of_folder(path: Path) -> str | None:
    """Return the format that the name of a directory around ``path`` implies, else None.

    ``CircleRecipes`` implies circle, ``TensorFlowLiteRecipes`` implies tflite.  Only the three nearest
    directories are examined, from the nearest on.
    """
    names = [parent.name.lower() for parent in path.absolute().parents]
    prefixes = {"tflite": "tensorflowlite", "circle": "circle"}
    return next((f for name in names[:3] for f, start in prefixes.items() if name.startswith(start)), None)


def _files_of(folder: Path | None) -> Files:
    """Return a function that returns the content of a file in ``folder``, by name, and reads no other files.

    If ``folder`` is None, the function raises ModelError.
    """
    contents: dict[str, bytes] = {}

    def files(name: str) -> bytes:
        """Return the content of the file ``name``; raise ModelError if it is not a plain name."""
        if folder is None:
            raise ModelError("expected a recipe without references to files")
        if not name or Path(name).name != name or name in (".", ".."):
            raise ModelError(f"expected the name of a file beside the recipe, got {name!r}")
        if name not in contents:
            contents[name] = bytes(map_file(folder / name))
        return contents[name]

    return files
