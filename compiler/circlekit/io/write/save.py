# SPDX-License-Identifier: Apache-2.0
"""Save models as files of either format.  The same model always gives the same bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from circlekit.errors import FileError, ModelError, UnsupportedError
from circlekit.io.file_map import FileMap, map_of
from circlekit.io.origin import Origin
from circlekit.io.schema import EXTENSIONS, FORMATS
from circlekit.io.write.encoded_file import Encoded
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.flatbuffer_encoder import MAX_INLINE_BYTES, encode
from circlekit.io.write.save_model import Saver
from circlekit.ir.graph import Model

Destination = str | os.PathLike[str] | BinaryIO
"""The place to write a file to: a path, or a stream that is open in binary mode."""


def save(model: Model, path: str | os.PathLike[str], format: str | None = None) -> int:
    """Write ``model`` to a file; return the size of the file in bytes.

    ``format``: "circle" or "tflite"; by default the format of the extension of ``path``, or else of the
    model.  The file appears whole or not at all, unless ``path`` is a device or a pipe.  ``path`` may be the
    file that the model was loaded from.
    The file is on the disk when this function returns, so a loss of power leaves the old or the new file.  In
    two cases, the system writes the file to the disk later: if there was no file at ``path``, or if the model
    was loaded from a different file, which still exists.
    Raise UnsupportedError if the format is unknown or cannot express the model.  Raise ModelError if no file
    can hold the model, for example because the data of a constant do not have its dtype.  Raise FileError if
    the file cannot be written, or if the file that the model was loaded from has changed since.
    """
    return write(encoded(model, format or format_of(path) or model.format), path, model.source)


def write(file: Encoded, target: Destination, source: str | None) -> int:
    """Write ``file`` as ``save`` does; return its size in bytes.

    ``source``: the path of the file that the model was loaded from, or None.
    """
    if not isinstance(target, str | os.PathLike):
        for piece in file.pieces():
            target.write(piece)
        return file.size
    try:
        durable = source is None or Path(source).samefile(target)
    except OSError:  # one of the files does not exist
        durable = True
    return write_file(target, file.pieces(), durable, file.size)


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return the format that the extension of ``path`` stands for; None for any other extension."""
    return EXTENSIONS.get(Path(path).suffix.lower())


def check_extension(path: str | os.PathLike[str], hint: str = "") -> None:
    """Raise FileError if ``path`` has an extension of no format; a path without extension is allowed.

    ``hint``: the end of the message.
    """
    suffix = Path(path).suffix
    if suffix and format_of(path) is None:
        known = ", ".join(EXTENSIONS)
        raise FileError(f"{os.fspath(path)}: unknown extension {suffix}; expected {known}{hint}")


def check_format(format: str) -> None:
    """Raise UnsupportedError for an unknown format."""
    if format not in FORMATS:
        raise UnsupportedError(f"expected format {' or '.join(FORMATS)}, got {format!r}")


def to_bytes(model: Model, format: str | None = None) -> bytes:
    """Return the bytes of the file that ``save`` would write; raise the errors of ``encoded``.

    ``format``: by default that of the model.
    """
    return b"".join(encoded(model, format or model.format).pieces())


def encoded(model: Model, fmt: str, limit: int = MAX_INLINE_BYTES) -> Encoded:
    """Return the file of ``model``, without copying the constants.

    ``limit``: if the file has this many bytes or more, its constants are external data (behind the
    flatbuffer).  Raise UnsupportedError and ModelError as ``save`` does, and FileError if the input file was
    changed after it was loaded.
    """
    check_format(fmt)
    if not model.graphs:
        raise ModelError("expected a model with one graph or more, got none")
    saver = Saver(model, fmt)
    origin = saver.origin
    sources = _sources(model, origin)
    for source in sources:
        source.check()  # constants are read from these files: raise if one of them changed
    file = encode(saver.tree(), fmt, 0 if origin.has_external_data else limit)
    file.sources, file.tail = sources, origin.archive
    return file


def _sources(model: Model, origin: Origin) -> list[FileMap]:
    """Return the maps of the files that hold data of ``model``: its input file and those of its constants.

    The constants of a model that was cut out of others, or merged from them, are views of their files.
    """
    constants = (v.data for graph in model.graphs for v in graph.values() if v.data is not None)
    return list(dict.fromkeys(m for m in (origin.source, *map(map_of, constants)) if m is not None))
