# SPDX-License-Identifier: Apache-2.0
"""Properties of model files, read from hand-made trees of the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from circlekit.errors import FormatError
from circlekit.io.write.save import to_bytes
from circlekit.ir.text import parse_model
from circlekit.recipes.model_file import ModelFile, data_of, dims_of, hdf5_of, name_of

ANY_MODEL = "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(parse_model(ANY_MODEL), "tflite"))
    return path


def with_tree(path: Path, **tree: Any) -> ModelFile:
    """Return the file at ``path``, with ``tree`` in place of the decoded table Model."""
    facts = ModelFile(path)
    facts.tree = tree
    return facts


def test_file_is_identified(path: Path) -> None:
    facts = ModelFile(path)
    assert (facts.format, facts.size, facts.name) == ("tflite", path.stat().st_size, str(path))
    assert facts.operators() == ["NEG"]
    assert facts.findings() == []
    path.write_bytes(b"nonsense")
    with pytest.raises(FormatError, match=r"model\.tflite: "):
        ModelFile(path)


CODES = [
    {"builtin_code": "CONV_2D", "version": 3},
    {"builtin_code": "CUSTOM", "custom_code": "Erf"},
    {"builtin_code": "CUSTOM"},
    {"builtin_code": "CONV_2D", "version": 5},
    {"builtin_code": "DEPTHWISE_CONV_2D"},
    {"builtin_code": "ADD", "version": 2},
]


def test_operators_have_the_names_and_the_highest_versions_of_their_codes(path: Path) -> None:
    graphs = [
        {"operators": [{"opcode_index": i} for i in (3, 0, 1, 2)]},
        {"operators": [{}, {"opcode_index": 5}, {"opcode_index": 6}]},
    ]
    facts = with_tree(path, operator_codes=CODES, subgraphs=graphs)
    assert facts.operators() == [
        "CONV_2D", "CONV_2D", "CUSTOM(Erf)", "(invalid custom)", "CONV_2D", "ADD", "(invalid: 6)",
    ]  # fmt: skip
    assert list(facts.op_versions().items()) == [
        ("(invalid custom)", 1), ("(invalid: 6)", 0), ("ADD", 2), ("CONV_2D", 5), ("CUSTOM(Erf)", 1),
    ]  # fmt: skip
    assert with_tree(path).operators() == []
    first = with_tree(path, operator_codes=CODES, subgraphs=[{"operators": [{}]}])  # the default index is 0
    assert first.op_versions() == {"CONV_2D": 3}


def test_weights_of_convolutions_have_a_producer(path: Path) -> None:
    tensors: list[dict[str, int]] = [{}, {"buffer": 1}, {"buffer": 2}, {}]
    operators = [
        {"opcode_index": 5, "inputs": [0, 0], "outputs": [3]},
        {"opcode_index": 0, "inputs": [0, 1]},
        {"opcode_index": 4, "inputs": [0, 3]},
        {"opcode_index": 0, "inputs": [0, 2]},
        {"opcode_index": 0, "inputs": [0, 4]},
        {"opcode_index": 0, "inputs": [0, -1]},
        {"opcode_index": 0, "inputs": [1]},
    ]
    facts = with_tree(
        path,
        operator_codes=CODES,
        buffers=[{}, {"data": np.zeros(4, np.uint8)}, {}],
        subgraphs=[{"tensors": tensors, "operators": operators}],
    )
    kinds = [("CONV_2D", "CONST"), ("DEPTHWISE_CONV_2D", "ADD"), *[("CONV_2D", "?")] * 4]
    assert facts.conv2d_weights() == kinds
    tensors[0] = {"buffer": 1}
    operators[:] = [{"opcode_index": 0, "inputs": [3, 0]}]
    assert facts.conv2d_weights() == [("CONV_2D", "CONST")]


def test_constants_are_tensors_with_data_except_variables(path: Path) -> None:
    data = np.arange(4, dtype=np.uint8)
    buffers: list[dict[str, Any]] = [
        {"data": data}, {"data": data}, {"data": data[:0]}, {"offset": 4, "size": 4},
        {"offset": 1, "size": 4},
    ]  # fmt: skip
    tensors: list[dict[str, Any]] = [{"name": f"t{i}", "buffer": i} for i in range(6)]
    tensors += [{"buffer": 1}, {"name": "v", "buffer": 1, "is_variable": True}]
    facts = with_tree(path, buffers=buffers, subgraphs=[{"tensors": tensors[:3]}, {"tensors": tensors[3:]}])
    assert facts.constants() == ["t1", "t3", "(noname)"]
    assert bytes(facts.buffer(3)) == b"TFL3"
    assert [len(facts.buffer(i)) for i in range(6)] == [4, 4, 0, 4, 0, 0]
    assert [facts.buffer_size(tensor) for tensor in tensors[:4]] == [0, 4, 0, 4]


def test_tensors_have_names_dtypes_and_shapes(path: Path) -> None:
    tensors = [
        {"name": "a", "type": "INT8", "shape": np.array([1, 2]), "shape_signature": np.array([-1, 2])},
        {"shape": np.array([3])},
        {},
    ]
    facts = with_tree(path, subgraphs=[{"tensors": tensors}, {}])
    assert facts.tensor_dtypes() == [("a", "INT8"), ("(noname)", "FLOAT32"), ("(noname)", "FLOAT32")]
    assert facts.tensor_shapes() == [("a", "[-1,2]"), ("(noname)", "[3]"), ("(noname)", "[]")]
    assert (name_of({"name": ""}), dims_of({})) == ("(noname)", [])


def test_data_has_the_shape_of_its_tensor_where_it_can(path: Path) -> None:
    data = np.arange(8, dtype=np.uint8)
    facts = with_tree(path, buffers=[{}, {"data": data}], subgraphs=[])

    def found(**tensor: Any) -> Any:
        return data_of(facts, {"buffer": 1, **tensor})

    # the bytes 0 1 2 3 ... as int16: 0x0100, 0x0302, 0x0504, 0x0706
    assert found(type="INT16", shape=np.array([2, 2])).tolist() == [[256, 770], [1284, 1798]]
    assert found(shape=np.array([2])).dtype == np.float32
    for odd in (
        {"type": "INT16", "shape": [3]},
        {"type": "INT4", "shape": [16]},
        {"type": "INT16", "shape": [-4]},
    ):
        assert found(**odd).tolist() == data.tolist()
    assert found(type="UINT8", shape=np.array([-8])).tolist() == data.tolist()
    assert found(type="UNHEARD", shape=[]).tolist() == data.tolist()
    assert data_of(facts, {"shape": [2]}) is None


def test_file_of_tensors_has_a_group_for_each_tensor_with_a_name(path: Path, tmp_path: Path) -> None:
    data = np.arange(4, dtype=np.uint8)
    quantization = {"scale": np.array([0.5]), "zero_point": np.array([3]), "quantized_dimension": 1}
    tensors: list[dict[str, Any]] = [
        {"name": "a/b", "type": "UINT8", "shape": [4], "buffer": 1, "quantization": quantization},
        {"name": "a_b", "quantization": {"min": np.array([-1.0]), "max": np.array([1.0])}},
        {"name": "a/b", "type": "UINT8", "shape": [2, 2], "buffer": 1},
        {},
    ]
    facts = with_tree(path, buffers=[{}, {"data": data}], subgraphs=[{"tensors": tensors}])
    (tmp_path / "t.h5").write_bytes(hdf5_of(facts))
    with h5py.File(tmp_path / "t.h5") as file:
        found = {group: {name: item[()] for name, item in file[group].items()} for group in file}
    assert {group: sorted(items) for group, items in found.items()} == {
        "a_b": ["quantized_dimension", "scale", "weights", "zero_point"],
        "a_b_1": ["max", "min", "quantized_dimension"],
        "a_b_2": ["weights"],
    }
    assert found["a_b"]["weights"].tolist() == [0, 1, 2, 3]
    assert found["a_b"]["quantized_dimension"] == 1
    assert found["a_b_1"]["quantized_dimension"] == 0
    assert found["a_b"]["zero_point"].dtype == np.int64
    assert (found["a_b"]["scale"].dtype, found["a_b_1"]["min"].tolist()) == (np.float32, [-1.0])
    assert found["a_b_2"]["weights"].shape == (2, 2)
