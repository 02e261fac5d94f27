# SPDX-License-Identifier: Apache-2.0
"""The error for a file of another format names the format and says what to do; look-alikes get no name.

Many files are written by the libraries of their formats (zip, HDF5, npy...), or encoded by protobuf's own
library.  All others, such as GGUF and safetensors, are written out as bytes here.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2, wrappers_pb2
from google.protobuf.message import Message

import circlekit
from circlekit.errors import CirclekitError, FileError, FormatError
from circlekit.io.foreign_files import KINDS, _fields, _varint, foreign_file
from circlekit.io.write.save import to_bytes
from circlekit.recipes.model_file import ModelFile

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def message(*fields: tuple[int, Any]) -> bytes:
    """A protobuf message: int fields are varints; bytes, texts and messages have a length."""
    kinds = {int: "TYPE_INT64", bytes: "TYPE_BYTES", str: "TYPE_STRING"}
    proto = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="a.proto")
    item = file.message_type.add(name="M")
    for number, value in fields:
        kind = getattr(proto, kinds[type(value)])
        item.field.add(name=f"f{number}", number=number, type=kind, label=proto.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))()
    for number, value in fields:
        setattr(made, f"f{number}", value)
    return bytes(made.SerializeToString(deterministic=True))


NODE = message((1, "x"), (2, "y"), (4, "Relu"))
ONNX_GRAPH = message((1, NODE), (2, "torch_jit"), (5, message((1, 3))), (10, "a note"), (12, b""), (16, b""))
ONNX = message((1, 8), (2, "pytorch"), (7, ONNX_GRAPH), (8, message((2, 17))))
META_GRAPH = message((1, message((4, "serve"))), (2, b""), (5, b""))
GRAPH_DEF = message((1, message((1, "input"), (2, "Placeholder"))), (4, b""))


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    return stream.getvalue()


def hdf5() -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["model_weights"] = np.zeros(2)
    return stream.getvalue()


def numpy_file(write: Any) -> bytes:
    stream = io.BytesIO()
    write(stream, np.zeros(3))
    return stream.getvalue()


def tarred() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("net.tflite"))
    return stream.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


FILES = {
    "git LFS pointer": (POINTER.encode(), "git lfs pull"),
    "HTML page": (b"\n<!DOCTYPE html>\n<html><head></head></html>", "download may have failed"),
    "OpenVINO": (b'<?xml version="1.0"?>\n<net name="n" version="11">', "convert"),
    "XML file": (b'<?xml version="1.0"?>\n<a/>', "expected a .circle or .tflite file"),
    "JSON file": (json.dumps({"modelTopology": {}}).encode(), "expected a .circle or .tflite file"),
    "UTF-16": ("graph main() {}".encode("utf-16"), "UTF-8"),
    "old schema": (b"\x10\0\0\0TFL2" + bytes(40), "convert the original model again"),
    "ExecuTorch": (b"\x3c\0\0\0ET12" + bytes(60), "export"),
    "HDF5 file": (hdf5(), "Keras"),
    "Keras model (.keras)": (zipped("metadata.json", "config.json", "model.weights.h5"), "Keras"),
    "PyTorch file (.pt": (zipped("net/data.pkl", "net/byteorder", "net/data/0"), "TICO"),
    "npz file": (numpy_file(np.savez), "arrays"),
    "npy file": (numpy_file(np.save), "array"),
    "zip archive": (zipped("net.tflite"), "unpack"),
    "gzip": (gzip.compress(b"TFL3"), "gunzip"),
    "compressed file": (lzma.compress(b"TFL3"), "unpack"),
    "tar archive": (tarred(), "unpack"),
    "pickle": (pickle.dumps({"state": 1}), "export"),
    "safetensors": (safetensors(), "export"),
    "GGUF": (b"GGUF\3\0\0\0" + bytes(30), "export"),
    "MLIR bytecode": (b"ML\xefR\x0dStableHLO_v1\0", "convert"),
    "ONNX": (ONNX, "onnx2tf"),
    "SavedModel": (message((1, 1), (2, META_GRAPH)), "from_saved_model"),
    "Core ML": (message((1, 4), (2, message((1, b"\x0a\1x"))), (500, b"\x0a\1x")), "convert"),
    "frozen graph": (GRAPH_DEF, "from_frozen_graph"),
}


def test_every_kind_has_a_file() -> None:
    named = [next((n for n in FILES if n in kind), None) for kind, _, _ in KINDS]
    assert None not in named
    assert {*named} == {*FILES}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_named_with_what_to_do(kind: str, tmp_path: Path) -> None:
    data, advice = FILES[kind]
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    messages = []
    for read in (circlekit.load, ModelFile):
        with pytest.raises(FormatError) as error:
            read(path)
        messages.append(error.value.message)
    assert messages[0] == messages[1]
    assert messages[0].startswith(f"{path}: not a model that circlekit reads: it is ")
    assert kind in messages[0]
    assert advice in messages[0].split(kind)[1]


def test_bz2_is_compressed_too() -> None:
    assert "a compressed file" in str(foreign_file(memoryview(bz2.compress(b"TFL3"))))


def test_a_truncated_file_is_named_too() -> None:
    """Of a zip archive, 3/4 are enough: each name is also stored before its data, not only at the end."""
    for kind in ("zip archive", "Keras model (.keras)", "PyTorch file (.pt", "ONNX", "SavedModel"):
        data = FILES[kind][0]
        assert kind in str(foreign_file(memoryview(data[: len(data) * 3 // 4])))


NEAR = {
    "a recipe": b"version: 1\noperand { name: 'https://git-lfs' }",
    "HTML in a comment": b"# <html>\ngraph main(%x: f32[1]) -> %x {\n}\n",
    "an element of another name": b"<htmlx>",
    "an unfinished object": b"{ graph",
    "TFL4": b"\x10\0\0\0TFL4" + bytes(40),
    "TFL3": b"\x10\0\0\0TFL3" + bytes(40),
    "half an HDF5 signature": b"\x89HDF\r\n" + bytes(40),
    "tar at another place": bytes(256) + b"ustar" + bytes(40),
    "pickle of protocol 0": pickle.dumps(None, 0),
    "a long header": b"\1" * 8 + b'{"',
    "ONNX without a graph": message((1, 8), (2, "pytorch")),
    "ONNX with an unknown field": message((1, 8), (7, ONNX_GRAPH), (99, 1)),
    "ONNX whose graph is text": message((1, 8), (7, "not a graph")),
    "SavedModel 2": message((1, 2), (2, META_GRAPH)),
    "SavedModel without a graph": message((1, 1), (2, b"")),
    "Core ML without a model": message((1, 4), (2, message((1, b"\x0a\1x"))), (100, b"")),
    "an operator with a blank": message((1, message((1, "input"), (2, "Place holder")))),
    "a wire type that protobuf lacks": b"\x0b" * 40,
    "an endless varint": b"\xff" * 40,
    "zeros": bytes(40),
}


@pytest.mark.parametrize("name", NEAR)
def test_a_file_that_resembles_one_is_not_named(name: str) -> None:
    assert foreign_file(memoryview(NEAR[name])) is None


def test_models_are_never_foreign(model_path: Path) -> None:
    assert foreign_file(memoryview(model_path.read_bytes())) is None


def test_a_model_with_the_bytes_of_another_format_in_it_loads() -> None:
    model = circlekit.parse("graph main(%x: f32[1]) -> %x {\n}\n")
    model.metadata = [("page", b"<html>" + ONNX + zipped("a/data.pkl"))]
    assert circlekit.load(to_bytes(model)).metadata == model.metadata


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("saved_model.pb", "it is a TensorFlow SavedModel; convert the folder with tf.lite.TFLiteConverter"),
        ("Manifest.json", "it is a Core ML package"),
        ("other.pb", "Is a directory"),
    ],
)
def test_the_error_for_a_folder_names_its_kind(file: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(b"")
    for read in (circlekit.load, ModelFile):
        with pytest.raises(FileError, match="cannot be read") as error:
            read(tmp_path)
        assert sentence in error.value.message


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "net.circle").write_bytes(b"")
    with pytest.raises(CirclekitError, match="it is empty; was the download or the copy interrupted"):
        circlekit.load(tmp_path / "net.circle")


@pytest.mark.parametrize(
    ("first", "size"),
    [(wrappers_pb2.DoubleValue(value=1.5), 8), (wrappers_pb2.FloatValue(value=1.5), 4),
     (wrappers_pb2.StringValue(value="text"), 4)],
)  # fmt: skip
def test_fields_of_every_size_are_passed_over(first: Message, size: int) -> None:
    """Two messages in a row are read as one message, with field 1 of ``first`` and field 3 of ``Value``."""
    # the last 7 bytes are the message Value: tag, length 5, "found"; field 1 ends right before them
    content = first.SerializeToString() + struct_pb2.Value(string_value="found").SerializeToString()
    fields = _fields(memoryview(content))
    assert {number: bytes(field) for number, field in fields.items() if not isinstance(field, int)} == {
        1: content[-7 - size : -7],
        3: b"found",
    }


# kind of file: (numbers of all fields of its message, function that makes a file with ``more`` fields)
FIELDS: dict[str, tuple[set[int], Callable[[list[tuple[int, Any]]], bytes]]] = {
    # of ModelProto and GraphProto in onnx.proto
    "ONNX model": ({*range(1, 9), 14, 20, 25, 26}, lambda more: message((1, 8), (7, ONNX_GRAPH), *more)),
    "ONNX graph": ({1, 2, 5, *range(10, 17)}, lambda more: message((1, 8), (7, message((1, NODE), *more)))),
    # of MetaGraphDef in meta_graph.proto, and of GraphDef in graph.proto
    "SavedModel": ({*range(1, 8)}, lambda more: message((1, 1), (2, message((1, b""), *more)))),
    "frozen graph": (
        {1, 2, 3, 4, 5},
        lambda more: message((1, message((1, "input"), (2, "Placeholder"))), *more),
    ),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_file_with_a_field_that_its_message_lacks_is_not_named(kind: str) -> None:
    allowed, make = FIELDS[kind]
    present = {1, 7} if kind == "ONNX model" else {1}
    for number in {*range(1, 41)} - present:
        found = foreign_file(memoryview(make([(number, b"")])))
        assert (found is not None) is (number in allowed), number
    assert foreign_file(memoryview(make([(number, b"") for number in sorted(allowed - present)])))


@pytest.mark.parametrize(("version", "is_onnx"), [(0, False), (1, True), (99, True), (100, False)])
def test_the_version_of_onnx_is_from_1_to_99(version: int, is_onnx: bool) -> None:
    assert (foreign_file(memoryview(message((1, version), (7, ONNX_GRAPH)))) is not None) is is_onnx


@pytest.mark.parametrize("value", [0, 1, 127, 128, 129, 16383, 16384, (1 << 63) - 1])
def test_varints_are_those_of_protobuf(value: int) -> None:
    content = message((1, value))[1:] or b"\0"
    assert _varint(memoryview(content + b"\7"), 0) == (value, len(content))


@pytest.mark.parametrize("content", [b"\0\1", b"\x0b", b"\x0c", b"\x0e", b"\x0f", b"\x80"])
def test_a_malformed_tag_gives_no_fields(content: bytes) -> None:
    """Field 0, groups, wire types that do not exist, and half a tag."""
    assert _fields(memoryview(content)) == {}


@pytest.mark.parametrize(
    ("node", "is_graph"),
    [
        (message((1, "input"), (2, "Placeholder")), True),
        (message((1, 3), (2, "Placeholder")), False),
        (message((2, "Placeholder")), False),
        (message((1, "input"), (2, 3)), False),
        (message((1, "input")), False),
    ],
)
def test_a_node_of_a_frozen_graph_has_a_name_and_an_operator(node: bytes, is_graph: bool) -> None:
    assert (foreign_file(memoryview(message((1, node)))) is not None) is is_graph
