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
from circlekit.errors import FileError, ModelError, UnsupportedError
from circlekit.io.operator_fields import options_plan
from circlekit.io.read.flatbuffer_decoder import identify
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import encoded, save, to_bytes, write
from circlekit.io.write.saved_format import assume_format
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
    """Assert that load, save, load gives an equal model and equal bytes; return these."""
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
    """Inline or by position (files beyond 2 GiB), all data starts at a multiple of 16 bytes."""
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


def test_transposed_view_of_a_buffer_is_new_data() -> None:
    f = File(LITERT)
    data = np.arange(4, dtype=np.float32).reshape(2, 2)
    f.tensor("w", [2, 2], buffer=f.buffer(data.tobytes()))
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


# -- the other format --------------------------------------------------------------------------


def test_tflite_to_circle_and_back(model_path: Path) -> None:
    model = load(model_path)
    other = {"tflite": "circle", "circle": "tflite"}[model.format]
    changed = load_bytes(to_bytes(model, other))
    assert changed.format == other
    for a, b in zip(model.ops(), changed.ops(), strict=True):
        assert (a.code, a.attribute_values) == (b.code, b.attribute_values) or a.called_graphs()
        assert b.version == max(a.version or 1, a.required_version())
    for g, h in zip(model.graphs, changed.graphs, strict=True):
        for v, w in zip(g.values(), h.values(), strict=True):
            assert (v.name, v.dtype, v.shape, v.quantization) == (w.name, w.dtype, w.shape, w.quantization)
    assert to_bytes(changed, model.format) == to_bytes(load_bytes(to_bytes(changed, model.format)))


@pytest.mark.parametrize("name", ["constants", "custom", "shapes", "variants", "unknown_code", "graphs"])
def test_a_model_can_assume_the_format_of_its_file(name: str) -> None:
    """Its operators then have the codes and versions that loading the file gives, and it is saved alike."""
    model = load_bytes(file_bytes(f"{name}.tflite"))
    assert bool(model.extra["origin"].unused_codes) == (name == "constants")
    data = to_bytes(model, "circle")
    assume_format(model, "circle")
    loaded = load_bytes(data)
    stored = [[(op.extra["stored_code"], op.version) for op in m.ops()] for m in (model, loaded)]
    assert stored[0] == stored[1]
    assert to_bytes(model) == to_bytes(loaded)


def test_uint4_has_a_different_enum_value_in_each_format() -> None:
    for name, other, number in (("constants.tflite", CIRCLE, -1), ("constants.circle", LITERT, 20)):
        model = load_bytes(file_bytes(name))
        tree = other.read(to_bytes(model, other.format))
        kinds = {t["Name"]: t["Type"] for t in tree["Subgraphs"][0]["Tensors"]}
        assert kinds[b"u4"] == number


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("own_operators.circle", "no operator INSTANCE_NORM\n  at main > op 0 InstanceNorm\n"),
        ("own_tensors.circle", "no tensors of GGML_Q4_0\n  at main > %q4"),
        ("newest_types.tflite", "no tensors of INT2\n  at main > %i2"),
        ("external.tflite", "external_buffer"),
    ],
)
def test_what_the_other_format_lacks_is_named_in_the_error(name: str, what: str, tmp_path: Path) -> None:
    model = load_bytes(file_bytes(name))
    other = "tflite" if model.format == "circle" else "circle"
    with pytest.raises(UnsupportedError) as error:
        save(model, tmp_path / f"out.{other}")
    assert what in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_extension_selects_the_format(tmp_path: Path) -> None:
    model = load_bytes(file_bytes("nothing.circle"))
    for name, fmt, tag in (
        ("a.tflite", None, b"TFL3"),
        ("a.circle", None, b"CIR0"),
        ("a.bin", "tflite", b"TFL3"),
    ):
        save(model, tmp_path / name, fmt)
        assert (tmp_path / name).read_bytes()[4:8] == tag
    with pytest.raises(UnsupportedError, match="onnx"):
        save(model, tmp_path / "a.bin", "onnx")


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
def test_missing_folder_is_refused(where: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("format", ["circle", "tflite"])
def test_unknown_rank_is_not_a_scalar(format: str) -> None:
    text = "graph main(%x: f32[?,1,3]) -> %z { %y = Squeeze(%x)\n %z = Relu(%y) }"
    again = load_bytes(to_bytes(parse_model(text), format))
    assert [v.shape for op in again.main for v in op.results] == [None, None]
    assert again.main.inputs[0].shape == (None, 1, 3)


@pytest.mark.parametrize("format", ["circle", "tflite"])
@pytest.mark.parametrize(("dims", "shape"), [("*", None), ("", ())])
def test_unknown_ranks_and_scalars_stay_apart_if_no_tensor_has_a_dimension(
    format: str, dims: str, shape: tuple[()] | None
) -> None:
    """A file has [] for both.  HasRank marks known ranks, but if all are unknown, no tensor can have it."""
    data = to_bytes(
        parse_model(f"graph main(%x: f32[{dims}]) -> %y {{ %y = Relu(%x): f32[{dims}] }}"), format
    )
    again = load_bytes(data)
    assert [v.shape for v in again.main.values()] == [shape, shape]
    assert to_bytes(again) == data


def test_unknown_rank_of_the_only_tensor_that_was_marked() -> None:
    """Only %scalar has HasRank.  When its rank becomes unknown, tensors of known rank must get HasRank."""
    f = File(CIRCLE)
    f.tensor("scalar", [], hasRank=True)
    f.op("RELU", [0], [1])
    f.op("RELU", [1], [2])
    model = load_bytes(f.pack())
    x, y, scalar = model.main.table
    assert [x.shape, y.shape, scalar.shape] == [(1, 4), (1, 4), ()]
    assert to_bytes(load_bytes(to_bytes(model))) == to_bytes(model), "the fields HasRank stay as they are"
    scalar.shape = None
    data = to_bytes(model)
    assert [v.shape for v in load_bytes(data).main.table] == [(1, 4), (1, 4), None]
    tensors = CIRCLE.read(data)["Subgraphs"][0]["Tensors"]
    assert [tensor["HasRank"] for tensor in tensors] == [True, True, False]


def test_the_field_has_rank_survives_the_text_form() -> None:
    f = File(CIRCLE)
    f.tensor("unranked", [])
    f.main.tensors[1].hasRank = True
    f.op("RELU", [0], [1])
    f.op("RELU", [1], [2])
    model = load_bytes(f.pack())
    assert [v.shape for v in model.main.table] == [(1, 4), (1, 4), None]
    other = parse_model(print_model(model))
    for read in (model, other):
        tensors = CIRCLE.read(to_bytes(read))["Subgraphs"][0]["Tensors"]
        assert [tensor["HasRank"] for tensor in tensors] == [False, True, False]


def test_a_version_that_a_text_states_is_written() -> None:
    """A low version is kept in the same format, as that of a file is, but raised in the other format."""
    text = (
        "model circle\ngraph main(%x: f32[1,2,4], %w: f32[3,4]) -> %y {\n"
        "  %y = FullyConnected(%x, %w, none) {keep_num_dims: true, version: 1}\n}\n"
    )
    model = parse_model(text)
    required = model.main.ops[0].required_version()
    assert required > 1
    for fmt, version in (("circle", 1), ("tflite", required)):
        assert load_bytes(to_bytes(model, fmt)).main.ops[0].version == version


def test_an_operator_without_options_must_say_so() -> None:
    """An unknown name is not accepted as the options table of a declaration."""

    class Made(Op):
        options = "MadeOptions"

    message = "Made: .* got MadeOptions; an operator without options is declared with options=None"
    with pytest.raises(ModelError, match=message):
        options_plan(Made, "circle")


@pytest.mark.parametrize("options", ["", "{in_data_type: f32, out_data_type: f32}"])
def test_a_cast_without_options_states_its_dtypes(options: str) -> None:
    """ONE takes a CAST of which both attributes are equal for one that converts nothing.

    A file without an options table, or with wrong attributes, keeps them.
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


def test_unknown_dimension_in_a_shape_signature_is_kept_in_the_other_format() -> None:
    """Any negative number marks an unknown dimension."""
    model = parse_model("graph main(%x: f32[?]) -> %y {\n%y = Neg(%x)\n}")
    model.main.inputs[0].extra["shape_signature"] = np.array([-128], np.int32)
    assert load_bytes(to_bytes(model, "tflite")).main.inputs[0].shape == (None,)
