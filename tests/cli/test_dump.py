# SPDX-License-Identifier: Apache-2.0
"""circledump and tfldump print ONE's lines or the text form; circle-tensordump prints or writes tensors."""

from __future__ import annotations

import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
import tflite

import circlekit
from circlekit.cli import dump, inspection
from circlekit.io.read.load import load
from circlekit.io.write.flatbuffer_encoder import encode
from circlekit.io.write.save import to_bytes
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model

TEXT = """
model circle {version: 3}
metadata "ONE_op_table" base64("AQAAAAcAAAACAAAAAQAAAAIAAAA=")
metadata "other" "text"
signature "serve" @main (image: %x) -> (result: %y)
graph main(%x: u8[1,?,2] quant(scale: 0.5, zero_point: 127)) -> %y {
  %w = const i8[5,2] quant(scale: [1,2,3,4,0.125], zero_point: [0,0,0,0,0], axis: 0) [0,1,-1,2,3,4,5,6,7,8]
  %s: f32[2] variable
  %"a/b" = FullyConnected(%x, %w) {act: RELU} : u8[1,5]
  %y = Softmax(%"a/b") {beta: 0.1}            : u8[1,5]
  %r = Relu(%s)                               : f32[2]
}
"""

Output = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.circle"
    path.write_bytes(to_bytes(parse_model(TEXT)))
    return path


# a dot at the end of a line stands for a trailing blank
LINES = """\
Model version: 3
 # sub graphs: 1
[0] FULLY_CONNECTED (code: 9, dep_code: 9, version: 6)
[1] SOFTMAX (code: 25, dep_code: 25, version: 1)
    [node_id : origin_ids]
    [7 : 1, 2]
S(0) signature_key(serve), sub_graph(0)
    I(0) T(0:0) image
    O(0) T(0:3) result
Sub-Graph: #0 main
CHANNEL_LAST (NHWC for 2d, NDHWC for 3d data)
T(0:0) UINT8 (1, 1, 2) (1, -1, 2) B(0) x
    Quantization: scale(0.5) zeropt(127) quantized_dimension(0)
    Quantization: scale((5) 1, 2, 3, 4 ... ).
                  zeropt((5) 0, 0, 0, 0 ... ).
                  quantized_dimension(0)
T(0:4) FLOAT32 (2) B(0) (variable) s
O(0:0) FULLY_CONNECTED.
    I T(0:0) x
    O T(0:2) a/b
O(0:1) SOFTMAX.
    Beta(0.1).
I T(0:0) x
O T(0:3) y""".replace(".\n", " \n").splitlines()


def test_dump_prints_the_lines_of_one(path: Path, capsys: Output) -> None:
    assert dump.circledump([str(path)]) == 0
    found = capsys.readouterr().out.splitlines()
    rest = iter(found)
    for line in LINES:
        assert line in rest, f"{line!r} is missing or out of order"
    (options,) = [line for line in found if "WeightFormat" in line]
    assert options.startswith("    WeightFormat(DEFAULT) Activation(RELU) keep_num_dims(0) ")
    assert [line for line in found if line.endswith(" (10) 00 0x1 0xff 0x2 0x3 0x4 0x5 0x6 0x7 0x8 ...")]


def test_tflite_files_have_no_data_format(path: Path, tmp_path: Path, capsys: Output) -> None:
    other = tmp_path / "model.tflite"
    other.write_bytes(to_bytes(load(path), "tflite"))
    assert dump.tfldump([str(other)]) == 0
    text = capsys.readouterr().out
    assert "Data Format" not in text
    assert "O(0:1) SOFTMAX \n" in text


def test_text_form_survives_a_round_trip(path: Path, capsys: Output) -> None:
    assert dump.circledump(["--text", str(path)]) == 0
    assert difference(circlekit.load(path), parse_model(capsys.readouterr().out)) is None


def test_every_shared_model_can_be_printed(model_path: Path, capsys: Output) -> None:
    command = dump.circledump if model_path.suffix == ".circle" else dump.tfldump
    assert command([str(model_path)]) == 0
    text = capsys.readouterr().out
    assert text.count("\nO(") == sum(1 for _ in load(model_path).ops())


def test_truncated_tables_are_reported(path: Path, capsys: Output) -> None:
    model = load(path)
    model.metadata = [
        ("ONE_op_table", b"\x02\0\0\0\x01\0\0\0"),
        ("ONE_source_table", b"\x01\0\0\0" + b"\xff" * 8),
    ]
    path.write_bytes(to_bytes(model))
    assert dump.circledump([str(path)]) == 0
    assert capsys.readouterr().out.count("(the table is truncated after ") == 2


# -- circle-tensordump -------------------------------------------------------------------------


def test_tensordump_prints_lines(path: Path, capsys: Output) -> None:
    assert inspection.circle_tensordump(["--tensors", str(path)]) == 0
    blocks = capsys.readouterr().out.split("-" * 70 + "\n")
    assert [b.partition("\n")[0] for b in blocks[1:]] == ["[x]", "[w]", "[a/b]", "[y]", "[s]", "[r]"]
    assert blocks[2].splitlines() == [
        "[w]",
        " ├── shape : (5, 2)",
        " ├── quantization",
        " │   ├── min        : ",
        " │   ├── max        : ",
        " │   ├── scale      : 1, 2, 3, 4, 0.125",
        " │   ├── zero_point : 0, 0, 0, 0, 0",
        " │   └── quantized_dimension : 0",
        " └── buffer",
        "     ├── index : 1",
        "     ├── size  : 10",
        "     └── data  : 0, 1, -1, 2, 3, 4, 5, 6, 7, 8, ",
        "",
    ]
    assert blocks[5].splitlines() == ["[s]", " └── shape : (2)", ""]


def test_tensordump_writes_hdf5_groups(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "tensors.h5"
    assert inspection.circle_tensordump([str(path), "--tensors_to_hdf5", str(target)]) == 0
    with h5py.File(target) as file:
        assert sorted(file) == ["a_b", "r", "s", "w", "x", "y"]
        weights = file["w/weights"][()]
        np.testing.assert_array_equal(weights, np.array([[0, 1], [-1, 2], [3, 4], [5, 6], [7, 8]], np.int8))
        assert weights.dtype == np.int8
        assert file["w/scale"][()].tolist() == [1, 2, 3, 4, 0.125]
        assert (file["x/zero_point"].dtype, file["x/zero_point"][()].tolist()) == (np.int64, [127])
        assert file["w/quantized_dimension"].shape == ()
        assert list(file["s"]) == []


def test_tensordump_requires_one_target(path: Path, capsys: Output) -> None:
    assert inspection.circle_tensordump([str(path)]) == 255
    assert inspection.circle_tensordump([str(path), "--tensors", "--tensors_to_hdf5", "x"]) == 255
    assert "--tensors" in capsys.readouterr().err


@pytest.mark.parametrize(
    "size", [1, dump.MAX_ELEMENTS, dump.MAX_ELEMENTS + 1, dump.MAX_BYTES, dump.MAX_BYTES + 1]
)
def test_the_first_bytes_of_long_data_are_shown(size: int) -> None:
    """As in ONE, "..." follows more than MAX_ELEMENTS bytes, even if all of them are shown."""
    words = dump._bytes(memoryview(bytes(range(size)))).split()
    shown = ["00", *(hex(byte) for byte in range(1, min(size, dump.MAX_BYTES)))]
    assert words == [*shown, *["..."] * (size > dump.MAX_ELEMENTS)]


def test_tables_of_one_and_metadata_without_a_buffer(path: Path, tmp_path: Path, capsys: Output) -> None:
    model = load(path)
    model.metadata = [("ONE_source_table", struct.pack("<III4sII2s", 2, 3, 4, b"abc", 5, 2, b"d"))]
    path.write_bytes(to_bytes(model))
    assert dump.circledump([str(path)]) == 0
    assert "    [3 : abc]\n    [5 : d]\n" in capsys.readouterr().out
    tree = {"subgraphs": [], "buffers": [{"data": np.ones(3, np.uint8)}], "metadata": [{"name": "m"}]}
    (tmp_path / "empty.circle").write_bytes(b"".join(encode(tree, "circle").pieces()))
    assert dump.circledump([str(tmp_path / "empty.circle")]) == 0
    assert "\nB(0) m\n" in capsys.readouterr().out


def test_lines_on_sparse_dimensions_are_aligned() -> None:
    tree = {"traversal_order": np.arange(2), "dim_metadata": [{"dense_size": 2}, {"format": "SPARSE_CSR"}]}
    first, *lines = dump._sparsity(tree)
    assert first.startswith("    Sparsity: traversal_order(0, 1)")
    columns = [len(line) - len(line.lstrip()) for line in lines]
    inner = lines[0].index("format(")
    assert columns == [14, *[inner] * 5, 14, *[inner] * 5]


def test_absent_fields_have_the_defaults_of_the_schema(tmp_path: Path, capsys: Output) -> None:
    """Nearly all fields are absent from the file; the tflite package says what they stand for."""
    path = tmp_path / "absent.tflite"
    ports = {"inputs": [{"name": "i"}], "outputs": [{"name": "o"}]}
    graph = {
        "tensors": [
            {
                "name": "a",
                "quantization": {"scale": np.ones(1, np.float32), "zero_point": np.zeros(1, np.int64)},
            },
            {},
        ],
        "operators": [{"inputs": np.array([-1, 0, 1, 2]), "outputs": np.array([1])}],
        "inputs": np.array([0]),
        "outputs": np.array([1]),
    }
    tree = {
        "operator_codes": [{}], "subgraphs": [graph], "buffers": [{}], "metadata": [{"name": "m"}],
        "signature_defs": [{"signature_key": "s", **ports}],
    }  # fmt: skip
    path.write_bytes(b"".join(encode(tree, "tflite").pieces()))
    model = tflite.Model.GetRootAs(path.read_bytes())
    code, signature, tensor = model.OperatorCodes(0), model.SignatureDefs(0), model.Subgraphs(0).Tensors(0)
    assert dump.tfldump([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = (
        f"code: {code.BuiltinCode()}, dep_code: {code.DeprecatedBuiltinCode()}, version: {code.Version()}"
    )
    index, axis = signature.SubgraphIndex(), tensor.Quantization().QuantizedDimension()
    expected = [
        f"Model version: {model.Version()}",
        f"[0] ADD ({numbers})",
        "B(0) (0) ",
        f"B({model.Metadata(0).Buffer()}) m",
        f"S(0) signature_key(s), sub_graph({index})",
        f"    I(0) T({index}:{signature.Inputs(0).TensorIndex()}) i",
        f"    O(0) T({index}:{signature.Outputs(0).TensorIndex()}) o",
        f"T(0:0) FLOAT32 (-1) B({tensor.Buffer()}) a",
        f"    Quantization: scale(1) zeropt(0) quantized_dimension({axis})",
        "T(0:1) FLOAT32 (-1) B(0) (noname)",
        "O(0:0) ADD ",
        "    I T(0:-1) ",
        "    I T(0:0) a",
        "    I T(0:1) (noname)",
        "    I T(0:2) ",
        "    O T(0:1) (noname)",
    ]
    assert [line for line in lines if line in expected] == expected


def test_a_model_without_metadata_and_signatures_has_no_lists_of_them(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "small.circle"
    path.write_bytes(b"".join(encode({"subgraphs": [{}], "buffers": [{}]}, "circle").pieces()))
    assert dump.circledump([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith(("metadata", "SignatureDef"))]
    assert lines[0] == lines[-1] == 67 * "="
    assert 67 * "-" in lines


def test_long_buffers_are_shortened_as_in_one(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "buffer.circle"
    tree = {"subgraphs": [{}], "buffers": [{}, {"data": np.arange(20, dtype=np.uint8)}]}
    path.write_bytes(b"".join(encode(tree, "circle").pieces()))
    assert dump.circledump([str(path)]) == 0
    shown = "00 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9 0xa 0xb 0xc 0xd 0xe 0xf ..."
    assert f"B(1) (20) {shown}" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("size", [1, dump.MAX_ELEMENTS, dump.MAX_ELEMENTS + 1, 9])
def test_long_vectors_begin_with_their_length(size: int) -> None:
    elements = [str(n) for n in range(size)]
    shown = ", ".join(elements[: dump.MAX_ELEMENTS])
    expected = shown if size <= dump.MAX_ELEMENTS else f"({size}) {shown} ... "
    assert dump._vector(np.arange(size)) == expected
