# SPDX-License-Identifier: Apache-2.0
"""Recognize files that are not circle or TFLite models by their bytes; say how to get a model from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

HEAD_BYTES = 4096
"""Patterns, and names in a zip archive, are searched for in this many bytes at the beginning of a file."""

ZIP_TAIL_BYTES = 1 << 16
"""Names in a zip archive are also searched for in this many bytes at its end."""

MAX_FIELDS = 64
"""At most this many fields of a protobuf message are read."""

VARINT, COUNTED = 0, 2
"""Two wire types of protobuf, which say how a field is stored: a varint; a length and that many bytes."""

FIXED_BYTES = {1: 8, 5: 4}
"""{wire type: its size in bytes} for those of fixed size.  (3 and 4, the deprecated groups, are not read.)"""

Fields = dict[int, memoryview | int]
"""The fields of a protobuf message by number: the bytes of a field, or its value if it is a varint.

Of several fields with the same number, only the first is kept.
"""

# advice: how to get a model from such a file
TORCH = "export the module again with litert-torch (.tflite) or TICO (.circle)"
KERAS = "load it with Keras, and convert it with tf.lite.TFLiteConverter.from_keras_model"
FROZEN_GRAPH = "convert it with tf.compat.v1.lite.TFLiteConverter.from_frozen_graph"
SAVED_MODEL = "convert the folder with tf.lite.TFLiteConverter.from_saved_model"
UNPACK = "unpack it, the model may be in it"


# -- protobuf ----------------------------------------------------------------------------------


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the varint at position ``at`` and the position after it; raise ValueError if there is none.

    A varint is an integer of at most 10 bytes with 7 bits each, the lowest first.  The highest bit of a byte
    says that another byte follows.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError


def _fields(data: memoryview | int | None) -> Fields:
    """Return the first MAX_FIELDS fields of a protobuf message; {} for other data.

    A field is a tag (its number and wire type) and its content.  The content of the last field may be cut
    off.  A message that ends within a tag, a length or a varint gives {}.
    """
    fields: Fields = {}
    if not isinstance(data, memoryview):
        return fields
    at = 0
    try:
        for _ in range(MAX_FIELDS):
            if at >= len(data):
                break
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if not number or wire not in (VARINT, COUNTED, *FIXED_BYTES):
                return {}
            if wire in FIXED_BYTES:
                size = FIXED_BYTES[wire]
            else:
                size, at = _varint(data, at)  # for a VARINT, this is the value
            if wire == VARINT:
                fields.setdefault(number, size)
                continue
            fields.setdefault(number, data[at : at + size])
            at += size
    except ValueError:
        return {}
    return fields


def _is_onnx(data: memoryview) -> bool:
    """Return whether ``data`` is a ModelProto of ONNX: it has a version and a graph, and no unknown fields.

    Field 1 is the version, field 7 the graph.  The two sets have the numbers of all fields of ModelProto and
    of GraphProto.
    """
    model = _fields(data)
    version = model.get(1)
    graph = _fields(model.get(7))
    has_version = isinstance(version, int) and 0 < version < 100
    is_model = has_version and model.keys() <= {*range(1, 9), 14, 20, 25, 26}
    return is_model and bool(graph) and graph.keys() <= {1, 2, 5, *range(10, 17)}


def _is_saved_model(data: memoryview) -> bool:
    """Return whether ``data`` is a SavedModel of TensorFlow.

    It has two fields: field 1 is the version, 1; field 2 has graphs with fields 1 to 7.
    """
    model = _fields(data)
    graph = _fields(model.get(2))
    return model.get(1) == 1 and model.keys() == {1, 2} and bool(graph) and graph.keys() <= {*range(1, 8)}


def _is_frozen_graph(data: memoryview) -> bool:
    """Return whether ``data`` is a GraphDef of TensorFlow.

    Field 1 has the nodes.  A node has the fields 1 (name) and 2 (operator).
    """
    graph = _fields(data)
    node = _fields(graph.get(1))
    code = node.get(2)
    is_graph = graph.keys() <= {1, 2, 3, 4, 5} and isinstance(node.get(1), memoryview)
    return is_graph and isinstance(code, memoryview) and re.fullmatch(rb"\w+", code) is not None


def _is_core_ml(data: memoryview) -> bool:
    """Return whether ``data`` is a Core ML Model.

    Its fields: 1 version, 2 description, and the model itself, whose number says its kind.  This number is
    from 200 to 3000, and no field has a higher one.
    """
    model = _fields(data)
    return isinstance(model.get(1), int) and bool(_fields(model.get(2))) and max(model) in range(200, 3001)


# -- other formats -----------------------------------------------------------------------------


def _starts(*prefixes: bytes) -> Callable[[memoryview], bool]:
    """Return a test for bytes that begin with one of ``prefixes``."""
    return lambda data: bytes(data[:HEAD_BYTES]).startswith(prefixes)


def _zip_with(*names: bytes) -> Callable[[memoryview], bool]:
    """Return a test for a zip archive with an entry whose path contains one of ``names``.

    Each path stands before its zipped file; all paths stand again at the end of the archive.
    """

    def test(data: memoryview) -> bool:
        entries = bytes(data[:HEAD_BYTES]) + bytes(data[-ZIP_TAIL_BYTES:])
        return bytes(data[:4]) == b"PK\3\4" and any(name in entries for name in names)

    return test


def _text(pattern: bytes) -> Callable[[memoryview], bool]:
    """Return a test for a text that begins with a match of ``pattern``, a regular expression.

    A byte order mark of UTF-8 and white space may stand before it.
    """
    compiled = re.compile(rb"(?:\xef\xbb\xbf)?\s*" + pattern, re.IGNORECASE)
    return lambda data: compiled.match(data[:HEAD_BYTES]) is not None


def _at(offset: int, pattern: bytes) -> Callable[[memoryview], bool]:
    """Return a test for bytes that match the regular expression ``pattern`` at ``offset``."""
    compiled = re.compile(pattern, re.DOTALL)
    return lambda data: compiled.match(data[offset:HEAD_BYTES]) is not None


KINDS: list[tuple[str, Callable[[memoryview], bool], str]] = [
    ("a git LFS pointer, not the file itself", _text(rb"version https://git-lfs"), "run `git lfs pull`"),
    ("an HTML page", _text(rb"<(!doctype html|html|head)\b"), "the download may have failed"),
    ("a model of OpenVINO", _text(rb"(<\?xml[^>]*>\s*)?<net\b"), "convert the model that it was made from"),
    ("a text in UTF-16", _starts(b"\xff\xfe", b"\xfe\xff"), "save it in UTF-8"),
    ("an XML file", _text(rb"<\?xml\b"), "expected a .circle or .tflite file"),
    ("a JSON file", _text(rb"\{\s*[\"}]"), "expected a .circle or .tflite file"),
    ("a TFLite model of an old schema", _at(4, rb"TFL[0-2]"), "convert the original model again"),
    ("a program of ExecuTorch (.pte)", _at(4, rb"ET\d\d"), TORCH),
    ("an HDF5 file, such as a Keras model (.h5)", _starts(b"\x89HDF\r\n\x1a\n"), KERAS),
    ("a Keras model (.keras)", _zip_with(b"model.weights.h5"), KERAS),
    ("a PyTorch file (.pt2)", _zip_with(b"exported_program.json", b"archive_format"), TORCH),
    ("a PyTorch file (.pt)", _zip_with(b"data.pkl"), TORCH),
    ("an npz file of arrays", _zip_with(b".npy"), "expected a model; arrays are inputs of models"),
    ("an npy file with an array", _starts(b"\x93NUMPY"), "expected a model; arrays are inputs of models"),
    ("a zip archive", _starts(b"PK\3\4", b"PK\5\6"), UNPACK),
    ("a gzip file", _starts(b"\x1f\x8b"), "unpack it with gunzip, or with tar -xzf if it is an archive"),
    ("a compressed file", _starts(b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"7z\xbc\xaf\x27\x1c"), UNPACK),
    ("a tar archive", _at(257, rb"ustar"), UNPACK),
    ("a pickle of Python, such as an old PyTorch file", _at(0, rb"\x80[\2-\5][c}\x8a\x8c\x95]"), TORCH),
    ("a file of weights (safetensors), without a graph", _at(0, rb".{5}\0{3}\{\""), TORCH),
    ("a file of weights (GGUF), without a graph", _starts(b"GGUF"), TORCH),
    ("MLIR bytecode, such as StableHLO", _starts(b"ML\xefR"), "convert the original model to .tflite"),
    ("an ONNX model", _is_onnx, "convert it with onnx2tf (.tflite) or one-import-onnx of ONE (.circle)"),
    ("the file of a TensorFlow SavedModel", _is_saved_model, SAVED_MODEL),
    ("a Core ML model", _is_core_ml, "convert the model that it was made from"),
    ("a frozen graph of TensorFlow", _is_frozen_graph, FROZEN_GRAPH),
]
"""For each kind of file: its name, a test of its bytes, and advice.

The first test that is true decides, so special kinds (Keras, npz) stand before general ones (zip).
"""

FOLDERS = [
    ("saved_model.pb", f"a TensorFlow SavedModel; {SAVED_MODEL}"),
    ("Manifest.json", "a Core ML package; convert the model that it was made from"),
]
"""For each kind of folder: a file in it, and a text that says what the folder is and what to do."""


def foreign_file(data: memoryview) -> str | None:
    """Return what kind of file has the bytes ``data``, and what to do; None if the kind is not known."""
    return next((f"{name}; {advice}" for name, test, advice in KINDS if test(data)), None)


def foreign_folder(path: Path) -> str | None:
    """Return what kind of model the folder ``path`` is, and what to do; None if the kind is not known."""
    return next((text for file, text in FOLDERS if (path / file).is_file()), None)
