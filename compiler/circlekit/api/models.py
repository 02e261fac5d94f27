# SPDX-License-Identifier: Apache-2.0
"""Load, save, parse, run and compare models; check the paths of files to write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import circlekit.ops  # noqa: F401  # declares the operators that ``parse`` knows
from circlekit.equivalence.layer_comparison import compare_models
from circlekit.equivalence.model_comparison import Comparison
from circlekit.equivalence.reference_runs import Records
from circlekit.equivalence.verify import Verifier
from circlekit.errors import FileError, ModelError, ParseError
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import run as run_model
from circlekit.io.file_map import map_file, read_all, translated
from circlekit.io.read.declare_opaque import declare_opaque
from circlekit.io.read.load import load_bytes
from circlekit.io.schema import EXTENSIONS
from circlekit.io.write.encoded_file import Encoded
from circlekit.io.write.file_writer import require_directory
from circlekit.io.write.save import check_extension, check_format, encoded, format_of, write
from circlekit.ir.graph import Model, check_model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.passes.engine.legalize import legalize
from circlekit.recipes.load import RECIPE_EXTENSIONS, decoded, read_recipe, recipe_in

FilePath = str | os.PathLike[str]
ModelFile = FilePath | bytes | bytearray | memoryview | BinaryIO
"""A source of ``load``: a path, the bytes of a file, or a binary file object."""

_TEXT_PROBE_BYTES = 4096
"""How many of the first bytes of a file decide whether it is text."""


def load(source: ModelFile) -> Model:
    """Load a model from a path, the bytes of a file, or a file object opened in binary mode.

    The format (circle, TFLite, or a recipe in circlekit's or ONE's language) is recognized by the content.
    Constants of a circle or TFLite model are read-only views of the bytes or of a memory map of the file.
    Issue a FormatWarning for each part of a file that is lost.  Raise:

    - FileError if the file, or a file that a recipe names, cannot be read, or if ``source`` has another type
    - FormatError or ParseError if it does not hold a valid model
    - LimitError if its data exceeds the memory limit
    - ShapeError if the operands in a recipe do not fit an operator
    - ModelError or UnsupportedError if a recipe omits the type of a result, and this type cannot be inferred
    - ModelError if a recipe names a file that is not beside it, or any file although ``source`` is not a path
    """
    return read(source)[0]


def read(source: ModelFile) -> tuple[Model, memoryview | None]:
    """Load a model as ``load`` does; return (model, bytes of its file), or (model, None) for a text."""
    name, content = _content(source)
    file: memoryview | None = None
    probe = bytes(content[:_TEXT_PROBE_BYTES])  # text has no control characters but white space
    is_text = probe != b"" and all(byte >= 32 or byte in b"\t\n\r\f" for byte in probe)
    if not is_text:
        model, file = load_bytes(content, name), content
    else:
        model = _recipe(content, name, isinstance(source, str | os.PathLike))
    model.source = name
    return model, file


def _recipe(content: memoryview, name: str, is_path: bool) -> Model:
    """Return the model in the recipe ``content``; raise ParseError if the recipe is invalid.

    Without the extension of a recipe, the error also says that a model was expected.  If ``is_path`` is
    false, the recipe must not name files, because no folder is known.
    """
    try:
        return recipe_in(content, name) if is_path else read_recipe(decoded(content, name), name)
    except ParseError as error:
        if Path(name).suffix not in RECIPE_EXTENSIONS:
            expected = f"a {format} file" if (format := format_of(name)) else "a model or a recipe"
            error.message = f"{name}: expected {expected}, got a text; as a recipe: {error.message}"
        raise


def _content(source: ModelFile) -> tuple[str, memoryview]:
    """Return (name of ``source`` for messages, its bytes); raise FileError if it cannot be read."""
    if isinstance(source, bytes | bytearray | memoryview):
        view = memoryview(source)
        if not view.c_contiguous:
            raise FileError("<bytes>: expected contiguous bytes, got a memoryview with gaps")
        return "<bytes>", view.cast("B").toreadonly()
    if isinstance(source, str | os.PathLike):
        return os.fspath(source), map_file(source)
    name = str(getattr(source, "name", "<file object>"))
    if not hasattr(source, "read"):
        kind = type(source).__name__
        raise FileError(f"cannot load {kind}: expected a path, bytes or a file object opened in binary mode")
    with translated(name or "<file object>", "read"):  # ``source`` may be closed, or opened for writing
        if isinstance(source.read(0), str):  # reads nothing, but shows the type
            raise FileError(f"{name}: the file object is opened in text mode; open it with mode 'rb'")
        return name, read_all(source, name)


def parse(text: str) -> Model:
    """Return the model that ``text`` describes; the types of results that ``text`` omits are inferred.

    ``print(model)`` shows the same form, but shortens large constants; a shortened constant is an error here.
    Raise ParseError, with line and column, for invalid text; ShapeError if operands do not fit an operator;
    ModelError or UnsupportedError if an omitted type cannot be inferred; ModelError if ``text`` is not a
    string.
    """
    if not isinstance(text, str):
        raise ModelError(f"expected a string, got {type(text).__name__}; load reads bytes and files")
    try:
        model = parse_model(text)
    except ParseError as error:
        if "\n" not in text and Path(text).suffix in (*EXTENSIONS, *RECIPE_EXTENSIONS):
            error.message = f"expected the text of a model, got the path {text!r}; load reads files"
        raise
    declare_opaque(model, "text")  # operators written as Opaque get their classes; errors name "text"
    return model


def save(model: Model, path: FilePath, format: str | None = None) -> None:
    """Write ``model`` to the file ``path``, completely or not at all.

    ``format``: circle or tflite.  None: the format that the extension of ``path`` names; if ``path`` has no
    extension, the format of ``model``.
    Operators that the format lacks are replaced in the file; ``model`` is not changed.  Raise:

    - UnsupportedError for something that the format lacks, such as an operator that cannot be replaced, and
      for an unknown ``format``
    - ModelError for something that no file can hold, such as metadata that are not bytes
    - FileError if the file cannot be written, if the file from which ``model`` was loaded has changed since,
      and for an unknown extension if ``format`` is None
    """
    write(encode_file(model, path, format), path, model.source)


def encode_file(model: Model, path: FilePath, format: str | None = None) -> Encoded:
    """Return the file that ``save`` writes to ``path``; raise its errors, except for those of writing."""
    check_model(model)
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"cannot save to {type(path).__name__}: expected a path")
    if format is None:
        check_extension(path, ", or pass a format")
    else:
        check_format(format)
    file_format = format or format_of(path) or model.format
    return encoded(legalize(model, file_format), file_format)


def run(model: Model, inputs: Inputs) -> list[Array]:
    """Run the main graph of ``model``; return a new array for each output of the graph, in their order.

    ``inputs``: a list of arrays in the order of the graph's inputs, or a dict of arrays by input name.  A
    quantized input needs integers, not real numbers.  Where the graph has an unknown dimension, an array may
    have any size.  Raise:

    - ModelError if ``inputs`` is neither a list nor a dict, if an operator reads a value that a later one
      produces, or if a kernel rejects its operands, for example because an index is out of range
    - ShapeError, which is a ModelError, if the number, names, dtypes or shapes of the arrays differ from
      those of the graph, if the shape rule of an operator rejects its operands, or if an operator computes a
      result of another type than the graph declares
    - UnsupportedError if an operator has no kernel for its operands
    - LimitError if the run exceeds a limit of memory or of graph calls
    """
    check_model(model)
    _check_inputs(inputs)
    return run_model(model, inputs)


def _check_inputs(inputs: Inputs) -> None:
    """Raise ModelError unless ``inputs`` is a list, tuple or mapping: an iterator serves for one run only."""
    if not isinstance(inputs, list | tuple | Mapping):
        kind = type(inputs).__name__
        raise ModelError(f"inputs: expected a list of arrays, or a dict by input name, got {kind}")


def compare(a: Model, b: Model, inputs: Inputs | FilePath | None = None) -> Comparison:
    """Compare the interfaces and the values of two models; ``a`` is the reference.

    ``inputs``: as for ``run``, or the path of a file or folder with one or more records (see
    ``circlekit run --help``); None: seeded inputs, such as normal, boundary and zero ones.
    Integers must be equal.  Floats may differ by a fraction of the largest magnitude in the output of ``a``.
    For float32 the fraction is 1e-5 in most cases.  It is larger if ``a`` amplifies rounding errors: up to
    1e-4, or up to 1e-2 on boundary inputs, and more where large terms of an output cancel.  Channels (indices
    of the last axis) of float32 outputs are also compared one by one, each in proportion to its own largest
    magnitude, or to the rounding errors measured in it.
    If an input or output has another dtype, scale or zero point in ``b``, as in a float model and its
    quantized form, values are compared as real numbers; of the seeded inputs, only the normal ones are used.
    Without ``inputs``, other graphs that signatures name are compared, too.
    ``bool`` of the result is True if the models are equal; ``str`` of the result lists what was compared.
    Raise the errors of ``run``, and those of ``records_of`` if ``inputs`` is a path.
    """
    check_model(a)
    check_model(b)
    return compare_models(Verifier(a, records_of(a, inputs)), b)


def records_of(model: Model, inputs: Inputs | FilePath | None) -> Records | None:
    """Return the records {label: inputs} on which to run ``model``; None if ``inputs`` is None.

    A record has one array for each input.  Reports name it by its label.
    ``inputs``: the path of a file or folder with records, or the arrays of a single record.
    Raise the errors of ``read_records`` for a path, ModelError for another type of ``inputs``.
    """
    if inputs is None:
        return None
    if not isinstance(inputs, str | os.PathLike):
        _check_inputs(inputs)
        return {"given": inputs}
    from circlekit.equivalence.data_files.input_files import read_records  # imports zipfile and its codecs

    return read_records(inputs, model)


# -- paths to write -----------------------------------------------------------------------------


def target_format(output: FilePath, format: str | None) -> str:
    """Return the format in which to write the file ``output``.

    It is ``format``; if ``format`` is None, it is the format that the extension of ``output`` names.
    Raise FileError if ``output`` is empty, if its extension names another format than ``format``, or if
    ``format`` is None and the extension names no format.  Raise UnsupportedError if ``format`` is unknown.
    """
    if format is not None:
        check_format(format)
    if not os.fspath(output):
        raise FileError("a file without a name cannot be written")
    named = format_of(output)
    if format is None and named is None:
        raise FileError(
            f"{os.fspath(output)}: expected the extension .circle or .tflite, or a format (--format)"
        )
    if format is not None and named is not None and format != named:
        raise FileError(f"{os.fspath(output)}: the extension is for {named}, but the format is {format}")
    return str(format or named)


def check_output_path(output: FilePath) -> None:
    """Raise FileError unless ``output`` is the path of a file in a directory that exists."""
    with translated(output, "written"):
        path = Path(output)
        if path.is_dir():
            raise FileError(f"expected the name of a file, got the directory {path}")
        require_directory(path)


def check_output_paths(outputs: Iterable[FilePath]) -> None:
    """Call ``check_output_path`` for each of ``outputs``; raise FileError if two are the same file."""
    files: set[str] = set()
    for output in outputs:
        check_output_path(output)
        if (file := os.path.realpath(output)) in files:
            raise FileError(f"expected different files to write, got {os.fspath(output)} twice")
        files.add(file)


def refuse_overwriting(source: FilePath, output: FilePath) -> None:
    """Raise FileError if ``output`` is the input ``source``, which must not be overwritten."""
    with translated(output, "written"):
        is_same = Path(source).exists() and Path(output).exists() and Path(source).samefile(output)
    if is_same:
        raise FileError(f"{os.fspath(output)} is an input; choose another file to write")
