# SPDX-License-Identifier: Apache-2.0
"""An invalid file raises a FormatError of one line with the file and the path of the field."""

from __future__ import annotations

import io
import re
import struct
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.errors import CirclekitError, FileError, FormatError, FormatWarning, UnsupportedError
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from tests.io.check.check_cases import both, put, region
from tests.io.models import LIBRARY, File, file_bytes
from tests.io.oracles import CIRCLE, LITERT

FILES = {name: file_bytes(name) for name in sorted(LIBRARY)}


def message(data: bytes, name: str = "bad.tflite") -> str:
    """Return the error message of loading: one line that begins with the file name."""
    with pytest.raises(FormatError) as error:
        load_bytes(data, name)
    text = str(error.value)
    assert text.startswith(name + ": ")
    assert "\n" not in text
    return text


# -- not a model --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"TFL3",
        b"\0" * 4096,
        b"\x7fELF" + bytes(600),
        b"graph main() {}\n",
        bytes(4) + b"TFL3",
        b"PK\3\4" * 9,
    ],
    ids=["empty", "short", "zeros", "elf", "text", "header", "zip"],
)
def test_data_that_is_not_a_model_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.tflite"
    path.write_bytes(data)
    with pytest.raises(FormatError) as error:
        load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_path_without_a_file_is_refused(tmp_path: Path) -> None:
    for path in (
        tmp_path,
        tmp_path / "absent.tflite",
        tmp_path / "a" / "b.tflite",
        tmp_path / "nul\0.tflite",
    ):
        with pytest.raises(FileError, match="cannot be read") as error:
            load(path)
        assert str(path) in str(error.value)


def test_truncated_file_is_refused(model_path: Path) -> None:
    """Truncate at every length below 1 KiB, then at 200 lengths; the last byte of a file is always data."""
    data = model_path.read_bytes()
    cuts = {*range(min(1024, len(data))), *range(1024, len(data), max(1, len(data) // 200)), len(data) - 1}
    for cut in cuts:
        message(data[:cut])


def test_a_truncated_file_is_called_so() -> None:
    data = FILES["shapes.tflite"]
    assert f"beyond the end of the file of {len(data) // 2} bytes" in message(data[: len(data) // 2])


# -- invalid indices -------------------------------------------------------------------------------


def broken(change: Callable[[File], None]) -> bytes:
    """Return a file with all kinds of references, after ``change``."""
    f = File(LITERT)
    f.buffer(b"0123456789abcdef")
    f.op("WHILE", [0], [1], f.make("WhileOptions"))
    entry = [f.make("TensorMap", name="a", tensorIndex=0)]
    f.model.signatureDefs = [f.make("SignatureDef", signatureKey="s", inputs=entry, outputs=[])]
    f.model.metadata = [f.make("Metadata", name="m", buffer=1)]
    change(f)
    return f.pack()


@pytest.mark.parametrize(
    ("place", "value", "path"),
    [
        ("OP.inputs[0]", 99, "OP.inputs[0]: index 99"),
        ("OP.inputs[0]", -2, "OP.inputs[0]: index -2"),
        ("OP.outputs[0]", -1, "OP.outputs[0]: index -1"),
        ("OP.outputs", [1, 1], "OP.outputs[1]: %y is the result"),
        ("OP.intermediates", [9], "OP.intermediates[0]: index 9"),
        ("OP.opcodeIndex", 5, "OP.opcode_index: index 5"),
        ("subgraphs[0].inputs[0]", 2, "subgraphs[0].inputs[0]: index 2"),
        ("subgraphs[0].outputs[0]", -1, "subgraphs[0].outputs[0]: index -1"),
        ("subgraphs[0].tensors[1].buffer", 7, "subgraphs[0].tensors[1].buffer: index 7"),
        (
            "subgraphs[0].tensors[1].buffer",
            1,
            "subgraphs[0].tensors[1]: expected 16 bytes for f32",
        ),
        (
            "subgraphs[0].tensors[1].shape",
            [-7],
            "subgraphs[0].tensors[1].shape: expected dimensions from -1",
        ),
        (
            "subgraphs[0].tensors[1].shape",
            [1] * 33,
            "subgraphs[0].tensors[1].shape: expected at most 32 dim",
        ),
        ("metadata[0].buffer", 3, "metadata[0].buffer: index 3"),
        ("signatureDefs[0].subgraphIndex", 1, "signature_defs[0].subgraph_index: index 1"),
        ("signatureDefs[0].inputs[0].tensorIndex", 2, "signature_defs[0].inputs[0].tensor_index: index 2"),
        ("buffers[1].offset", 1000, "buffers[1]: "),
        ("subgraphs", [], "subgraphs: expected one graph or more, got none"),
    ],
)
def test_invalid_index_is_refused(place: str, value: Any, path: str) -> None:
    place, path = (text.replace("OP", "subgraphs[0].operators[0]") for text in (place, path))
    change = put(place, value)
    if place == "subgraphs[0].tensors[1].buffer" and value == 1:
        change = both(change, put("buffers[1].data", [1, 2]))  # fewer bytes than the tensor needs
    if place == "buffers[1].offset":
        change = region(value, 9999)
    assert path in message(broken(change))


def test_tensor_of_huge_shape_without_data() -> None:
    f = File(LITERT)
    f.tensor("none", [2**31 - 1, 2**31 - 1, 0, 2**31 - 1])
    assert load_bytes(f.pack()).main.table[2].data is None


def test_invalid_graph_index_of_a_declared_operator_is_refused() -> None:
    data = broken(put("subgraphs[0].operators[0].builtinOptions.condSubgraphIndex", 3))
    assert "operators[0].builtin_options.cond_subgraph_index: index 3, there are 1 graphs" in message(data)


def test_unknown_tensor_type_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"subgraphs\[0\].tensors\[1\].type: the schema has no type 99"
    ):
        load_bytes(broken(put("subgraphs[0].tensors[1].type", 99)))


# -- warnings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [[2], [0]])
def test_constant_with_more_data_than_its_shape_needs(shape: list[int]) -> None:
    """The bytes after the elements are kept until the elements change."""
    f = File(LITERT)
    stored = np.array([1.5, -2.0, 7.0], np.float32)
    constant = f.tensor("w", shape, buffer=f.buffer(stored.tobytes()))
    f.op("ADD", [0, constant], [1])
    used = 4 * shape[0]
    sentence = rf"subgraphs\[0\].tensors\[2\]: expected {used} bytes for f32.*got 12; the last {12 - used} "
    with pytest.warns(FormatWarning, match=sentence):
        model = load_bytes(f.pack())
    value = model.main.table[2]
    assert np.array_equal(value.array(), stored[: shape[0]])
    again = to_bytes(model)
    for fmt in ("circle", "tflite"):
        assert stored.tobytes() in bytes(to_bytes(clone(model), fmt))
    with pytest.warns(FormatWarning, match="got 12"):
        assert to_bytes(load_bytes(again)) == again
    value.data = np.zeros(shape, np.float32)
    assert stored.tobytes() not in bytes(to_bytes(model))


# -- warnings for data that is lost ----------------------------------------------------------------


def test_unknown_field_warns() -> None:
    """As in a newer schema, Model has two more slots in its vtable: 10, which is absent, and 11."""
    data = bytearray(file_bytes("nothing.tflite"))
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    length, size = struct.unpack_from("<HH", data, vtable)
    old = data[vtable + 4 : vtable + length]
    slots = old + bytes(20 - len(old)) + struct.pack("<HH", 0, 4)
    struct.pack_into("<i", data, root, root - len(data))
    data += struct.pack("<HH", 4 + len(slots), size) + slots + bytes(2)
    with pytest.warns(FormatWarning, match=r"bad.tflite: slot_11: the schema has no slot 11 in Model"):
        load_bytes(bytes(data), "bad.tflite")


def test_unknown_union_member_warns() -> None:
    data = broken(put("subgraphs[0].operators[0].builtinOptionsType", 240))
    place = r"subgraphs\[0\].operators\[0\].builtin_options: the schema has no member 240"
    with pytest.warns(FormatWarning, match=place):
        model = load_bytes(data)
    assert model.main.ops[0].code == "WHILE"


def test_repeated_name_in_a_signature_warns() -> None:
    def repeat(f: File) -> None:
        f.model.signatureDefs[0].inputs *= 2

    with pytest.warns(FormatWarning, match=r"signature_defs\[0\].inputs\[1\]: 'a' is listed twice"):
        load_bytes(broken(repeat))


# -- hostile files -----------------------------------------------------------------------------


def bomb(count: int = 4000) -> bytes:
    """Three nested vectors, each of ``count`` references to one table: 6.4e10 tables for 4000."""
    out = bytearray(struct.pack("<I4s", 0, b"TFL3"))

    def table(slot: int) -> int:
        """Append a table whose only field, in ``slot``, refers to the data after it; return its position."""
        vtable, length = len(out), 6 + 2 * slot
        out.extend(struct.pack(f"<{length // 2}H", length, 8, *[0] * slot, 4) + bytes(-length % 4))
        out.extend(struct.pack("<iI", len(out) - vtable, 4))
        return len(out) - 8

    struct.pack_into("<I", out, 0, table(2))
    for slot in (0, 9, 0):  # SubGraph.tensors, Tensor.variant_tensors, VariantSubType.shape
        start = len(out)
        out.extend(bytes(4 + 4 * count))
        target = table(slot)
        offsets = (target - start - 4 - 4 * i for i in range(count))
        struct.pack_into(f"<{count + 1}I", out, start, count, *offsets)
    return bytes(out + bytes(8))


def test_number_of_shared_tables_is_limited() -> None:
    start = time.perf_counter()
    text = message(bomb())
    assert time.perf_counter() - start < 2
    assert re.match(r"bad.tflite: subgraphs\[0\].tensors\[\d\].variant_tensors: .* too often", text)


def mutations() -> Iterator[tuple[str, bytes]]:
    """Yield (name, file) with a value likely to break a reader in one of the first 300 words of 32 bits."""
    for name in ("operator_fields.tflite", "sparsity.circle", "metadata.tflite"):
        data = to_bytes(load_bytes(FILES[name]))
        for at in range(0, min(len(data), 1200), 4):
            for word in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), len(data) - 4):
                yield name, data[:at] + struct.pack("<I", word) + data[at + 4 :]


def archived() -> bytes:
    """A file with a zip archive at its end."""
    target = io.BytesIO(file_bytes("metadata.tflite"))
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("labels.txt", "cat")
    return target.getvalue()


def survive(data: bytes) -> None:
    """Load and save arbitrary data: the result is a CirclekitError or a model, within a second."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        try:
            to_bytes(load_bytes(data))
        except CirclekitError as error:
            assert "\n" not in error.message  # noqa: PT017
    assert time.perf_counter() - start < 1


def test_changed_words_do_not_crash_the_loader() -> None:
    for _, data in mutations():
        survive(data)


def test_changed_archive_does_not_crash_the_loader() -> None:
    data = archived()
    for at in range(len(data) - 120, len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            survive(data[:at] + bytes([value]) + data[at + 1 :])


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(
    name=st.sampled_from(sorted(FILES)),
    flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=8),
    cut=st.none() | st.integers(0, 1 << 20),
)
def test_changed_bytes_do_not_crash_the_loader(
    name: str, flips: list[tuple[int, int]], cut: int | None
) -> None:
    data = bytearray(FILES[name])
    for at, value in flips:
        data[at % len(data)] = value
    survive(bytes(data if cut is None else data[: cut % len(data)]))


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(st.binary(max_size=400), st.sampled_from([b"TFL3", b"CIR0"]))
def test_random_bytes_do_not_crash_the_loader(data: bytes, tag: bytes) -> None:
    survive(struct.pack("<I", 8) + tag + data)


def test_name_that_is_not_utf8_is_kept() -> None:
    f = File(CIRCLE)
    f.tensor(b"\xff\xfe\0\n", [1])
    assert load_bytes(f.pack()).main.table[2].name == "\udcff\udcfe\0\n"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"graph\tmain\r\n~", "not a model file but a text"),
        (b"graph main() {}" * 9 + b"\0", "not a model file but a text"),
        (b"graph m\x7f", "expected b'TFL3' or b'CIR0' in bytes 4 to 7"),
        (b"graph m\x1f", "expected b'TFL3' or b'CIR0' in bytes 4 to 7"),
        (b"graph m", "not a model file but a text"),
        (b"graph ma", "not a model file but a text"),
    ],
)
def test_a_text_is_recognized_by_its_first_bytes(data: bytes, what: str) -> None:
    with pytest.raises(FormatError, match=re.escape(what)):
        load_bytes(data, "net")
