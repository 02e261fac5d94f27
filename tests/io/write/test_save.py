# SPDX-License-Identifier: Apache-2.0
"""Saving: round trips keep the model, output is deterministic, a file appears completely or not at all."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import circlekit
import circlekit.ops  # operators are declared by being imported
from circlekit.errors import FileError, ModelError
from circlekit.io.operator_fields import options_plan
from circlekit.io.read.flatbuffer_decoder import identify
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import encoded, save, to_bytes, write
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.model_equality import difference
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import Value, same_array
from tests.io.equal import assert_same_model
from tests.io.models import LIBRARY, File, file_bytes
from tests.io.oracles import CIRCLE, LITERT, Oracle


def oracle_of(data: bytes) -> Oracle:
    return CIRCLE if identify(memoryview(data)) == "circle" else LITERT


def check_round(data: bytes) -> bytes:
    """Assert that load, save, load gives an equal model and equal bytes; return the bytes."""
    model = load_bytes(data)
    saved = to_bytes(model)
    assert to_bytes(model) == saved
    again = load_bytes(saved)
    assert_same_model(model, again)
    assert to_bytes(again) == saved
    return saved


def test_round_trip_of_real_models(model_path: Path) -> None:
    """Files do not grow, except that constants are aligned to 16 bytes."""
    data = model_path.read_bytes()
    file = encoded(load_bytes(data), load_bytes(data).format)
    saved = check_round(data)
    padding = len(saved) - len(file.skeleton) - sum(len(payload.data) for payload in file.payloads)
    assert len(saved) <= len(data) + padding
    # from 8 constants on, the vectors that are shared save more than padding adds
    assert len(saved) <= len(data) or len(file.payloads) < 8


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_round_trip_of_rare_features(name: str) -> None:
    check_round(file_bytes(name))


def test_constants_are_views_of_the_file(model_path: Path) -> None:
    for graph in load(model_path).graphs:
        for value in graph.values():
            if value.data is not None and value.data.size:
                assert not value.data.flags.owndata
                assert not value.data.flags.writeable


@pytest.mark.parametrize("limit", [2**31 - 1, 0])
def test_constants_are_aligned(model_path: Path, limit: int) -> None:
    """Inside of the flatbuffer or behind it (limit 0), all data starts at a multiple of 16 bytes."""
    model = load(model_path)
    data = b"".join(encoded(model, model.format, limit).pieces())
    reader = oracle_of(data).names["Model"].GetRootAs(data)
    places = []
    for i in range(reader.BuffersLength()):
        buffer = reader.Buffers(i)
        if buffer.DataLength():
            places.append(buffer._tab.Vector(buffer._tab.Offset(4)))
        elif buffer.Size():
            places.append(buffer.Offset())
    assert len(places) > 0
    assert all(place % 16 == 0 for place in places)
    again = load_bytes(data)
    for old, new in zip(model.graphs, again.graphs, strict=True):
        for a, b in zip(old.values(), new.values(), strict=True):
            assert same_array(a.data, b.data)
    assert to_bytes(again) == data


# -- saving after changes ---------------------------------------------------------------


def test_unused_values_are_not_written() -> None:
    f = File(LITERT)
    weight = f.tensor("w", [1, 4], buffer=f.buffer(bytes(range(16))))
    f.tensor("kept", [1, 4], buffer=f.buffer(bytes(range(1, 17))))  # in the file, nothing uses it either
    inner = f.tensor("inner", [1, 4])
    f.op("ADD", [0, weight], [inner], f.make("AddOptions"))
    f.op("MUL", [inner, weight], [1], f.make("MulOptions"))
    model = load_bytes(f.pack())
    graph = model.main
    add, mul = graph.ops
    mul.set_input(0, graph.inputs[0])
    mul.set_input(1, graph.inputs[0])
    graph.remove(add)
    again = load_bytes(to_bytes(model))
    assert [v.name for v in again.main.values()] == ["x", "y", "kept"]
    assert [op.code for op in again.ops()] == ["MUL"]
    reader = LITERT.read(to_bytes(model))
    assert len(reader["OperatorCodes"]) == 1
    assert len(reader["Buffers"]) == 2
    assert reader["Subgraphs"][0]["Tensors"][2]["Buffer"] == 1


def test_equal_new_constants_share_a_buffer() -> None:
    graph = Graph("main")
    data = np.arange(6, dtype=np.float32)
    graph.table = [
        Value.constant("a", data),
        Value.constant("b", data.copy()),
        Value.constant("c", data[::-1]),
    ]
    graph.extra["unused"] = list(graph.table)
    tree = LITERT.read(to_bytes(Model([graph]), "tflite"))
    assert [t["Buffer"] for t in tree["Subgraphs"][0]["Tensors"]] == [1, 1, 2]


@pytest.mark.parametrize("number", [np.float32(1.5), np.float16(-2), np.int64(3)])
def test_numpy_scalars_are_constants_of_rank_0(number: np.generic) -> None:
    """Expressions of arrays of rank 0 are numpy scalars."""
    array = np.asarray(number)
    constant = Value.constant("c", array)
    constant.data = number  # type: ignore[assignment]  # as numpy leaves it
    graph = Graph("main", [Value("x", constant.dtype, ())])
    graph.outputs = (constant,)
    graph.table = [*graph.inputs, constant]
    again = load_bytes(to_bytes(Model([graph], format="circle"), "circle")).main.outputs[0]
    assert again.data is not None
    np.testing.assert_array_equal(again.data, array)


@pytest.mark.filterwarnings("ignore:.*the last 4 are not used")
@pytest.mark.parametrize("more", [b"", b"more"])
def test_transposed_view_of_a_buffer_is_new_data(more: bytes) -> None:
    f = File(LITERT)
    data = np.arange(4, dtype=np.float32).reshape(2, 2)
    f.tensor("w", [2, 2], buffer=f.buffer(data.tobytes() + more))
    model = load_bytes(f.pack())
    value = model.main.table[2]
    assert value.data is not None
    value.data = value.data.T
    again = load_bytes(to_bytes(model)).main.table[2].data
    assert np.array_equal(np.asarray(again), data.T)


def test_opaque_operator_keeps_its_version_when_an_operand_changes() -> None:
    f = File(LITERT)
    f.op(310, [0], [1], version=5)
    model = load_bytes(f.pack())
    model.main.ops[0].set_input(0, None)
    assert load_bytes(to_bytes(model)).main.ops[0].version == 5


def test_a_signature_of_another_graph_and_metadata_that_are_not_bytes_are_refused() -> None:
    text = 'signature "s" @main (x: %x) -> (y: %y) graph main(%x: f32[2]) -> %y { %y = Neg(%x) }'
    model = parse_model(text)
    model.signatures[0].graph = parse_model(text).main
    with pytest.raises(
        ModelError, match="signature 's' belongs to the graph main, which is not in the model"
    ):
        to_bytes(model)
    model.signatures.clear()
    model.metadata = [("note", "text")]  # type: ignore[list-item]  # no bytes
    with pytest.raises(ModelError, match="metadata 'note': expected bytes, got str"):
        to_bytes(model)


def test_a_model_without_graphs_is_refused() -> None:
    """``load`` would refuse its file."""
    with pytest.raises(ModelError, match="expected a model with one graph or more, got none"):
        to_bytes(Model([]), "circle")


def test_attached_archive_stays_readable(tmp_path: Path) -> None:
    """The archive of TFLite's metadata tools is appended with offsets from the start of the whole file."""
    target = io.BytesIO(file_bytes("constants.tflite"))
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("labels.txt", "cat\ndog\n")
        archive.writestr("vocabulary.txt", "a b c")
    data = target.getvalue()
    saved = to_bytes(load_bytes(data))
    assert len(saved) != len(data)
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        assert archive.read("labels.txt") == b"cat\ndog\n"
        assert archive.read("vocabulary.txt") == b"a b c"
    assert to_bytes(load_bytes(saved)) == saved
    stream = io.BytesIO()
    assert write(encoded(load_bytes(data), "tflite"), stream, None) == len(saved)
    assert stream.getvalue() == saved
    assert save(load_bytes(data), tmp_path / "saved.tflite") == len(saved)
    assert (tmp_path / "saved.tflite").read_bytes() == saved


def test_model_without_origin() -> None:
    """A model built in memory is written with the defaults of the format."""
    x, y = Value("x", DType.FLOAT32, (None, 2)), Value("y", DType.FLOAT32, None)
    graph = Graph("main", [x])
    graph.append(OpaqueOp(x, code="CUSTOM", results=[y], custom_code="Mine"))
    graph.outputs = [y]
    for oracle in (CIRCLE, LITERT):
        tree = oracle.read(to_bytes(Model([graph], version=3), oracle.format))
        tensor = tree["Subgraphs"][0]["Tensors"][0]
        assert tensor["Shape"].tolist() == [1, 2]
        assert tensor["ShapeSignature"].tolist() == [-1, 2]
        assert tree["OperatorCodes"][0]["CustomCode"] == b"Mine"
        assert tree["Buffers"][0]["Data"] is None


# -- files -------------------------------------------------------------------------------------


def test_input_may_be_output(tmp_path: Path, model_path: Path) -> None:
    path = tmp_path / model_path.name
    path.write_bytes(model_path.read_bytes())
    model = load(path)
    save(model, path)
    assert path.read_bytes() == to_bytes(model)
    assert_same_model(load(path), model)


def test_failed_save_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"before")

    def pieces() -> object:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(path, pieces())  # type: ignore[arg-type]
    assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]
    assert path.read_bytes() == b"before"


def test_full_disk_is_reported_by_fsync(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only a file that replaces another one is flushed."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "m.tflite"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"m\.tflite: cannot be written: No space left"):
        write_file(path, [b"data"])
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"before"]


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.tflite", tmp_path / "link.tflite"
    real.write_bytes(b"before")
    real.chmod(0o640)
    link.symlink_to(real)
    write_file(link, [b"after"])
    assert link.is_symlink()
    assert real.read_bytes() == b"after"
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("where", ["no/such/folder/m.circle", ".", "file/m.circle"])
def test_a_path_where_no_file_can_be_is_refused(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    model = load_bytes(file_bytes("nothing.circle"))
    with pytest.raises(FileError, match="cannot be written") as error:
        save(model, tmp_path / where)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_device_is_written_directly() -> None:
    save(load_bytes(file_bytes("nothing.circle")), "/dev/null")
    assert not Path("/dev/null").is_file()


def test_new_scalar_constant_is_written() -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y {\n%y = Mul(%x, 0.5)\n}")
    factor = model.main.ops[0].inputs[1]
    assert factor is not None
    factor.data = np.asarray(0.25, np.float32)
    (op,) = load_bytes(to_bytes(model, "circle")).main.ops
    again = op.inputs[1]
    assert again is not None
    assert (again.shape, again.array().tolist()) == ((), 0.25)


def test_an_operator_without_options_must_say_so() -> None:
    """An unknown name is not accepted as the options table of a declaration."""

    class Made(Op):
        options = "MadeOptions"

    message = "Made: .* got MadeOptions; an operator without options is declared with options=None"
    with pytest.raises(ModelError, match=message):
        options_plan(Made, "circle")


@pytest.mark.parametrize("options", ["", "{in_data_type: f32, out_data_type: f32}"])
def test_a_cast_without_options_states_its_dtypes(options: str) -> None:
    """ONE removes a CAST whose two attributes are equal, so a CAST without options states its dtypes.

    A CAST of a file that has no options table, or has wrong attributes, stays as it is.
    """
    text = f"graph main(%x: f32[2]) -> %y {{ %y = Cast(%x) {options} : i32[2] }}"
    data = to_bytes(parse_model(text))
    wanted = [("in_data_type", "FLOAT32"), ("out_data_type", "FLOAT32" if options else "INT32")]
    for again in (data, to_bytes(load_bytes(data))):
        attributes = load_bytes(again).main.ops[0].attribute_items()
        assert [(name, dtype.name) for name, dtype in attributes.items()] == wanted
    f = File(CIRCLE)
    f.op("CAST", [0], [1])
    f.main.tensors[1].type = CIRCLE.enums["TensorType"]["INT32"]
    model = load_bytes(f.pack())
    (tree,) = CIRCLE.read(to_bytes(model))["Subgraphs"][0]["Operators"]
    assert tree["BuiltinOptions"] is None
    other = load_bytes(to_bytes(parse_model(print_model(model)))).main.ops[0]
    assert other.attribute_items()["out_data_type"] is DType.INT32
    wrong = load_bytes(data)
    assert difference(wrong, parse_model(print_model(wrong))) is None


def test_the_type_of_options_without_a_table_is_kept() -> None:
    f = File(CIRCLE)
    f.op("QUANTIZE", [0], [1])
    f.main.operators[0].builtinOptionsType = CIRCLE.enums["BuiltinOptions"]["QuantizeOptions"]
    model = load_bytes(f.pack())
    (tree,) = CIRCLE.read(to_bytes(model))["Subgraphs"][0]["Operators"]
    assert tree["BuiltinOptions"] is None
    other = load_bytes(to_bytes(parse_model(print_model(model))))
    assert difference(load_bytes(to_bytes(model)), other) is None


@pytest.mark.parametrize(
    ("source", "target", "flushed"),
    [
        ("a.circle", "b.circle", False),
        ("a.circle", "a.circle", True),
        ("a.circle", "link.circle", True),
        (None, "b.circle", True),
        ("gone.circle", "b.circle", True),
        ("a.circle", "new.circle", False),
    ],
)
def test_replaced_input_is_flushed_to_disk_first(
    source: str | None, target: str, flushed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An output that can be made again from a kept input is not flushed."""
    for name in ("a.circle", "b.circle"):
        (tmp_path / name).write_bytes(file_bytes("nothing.circle"))
    os.link(tmp_path / "a.circle", tmp_path / "link.circle")
    model = load_bytes((tmp_path / "a.circle").read_bytes())
    model.source = None if source is None else str(tmp_path / source)
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    circlekit.save(model, tmp_path / target)
    assert bool(calls) is flushed
