# SPDX-License-Identifier: Apache-2.0
"""Limits of what load accepts, and what save writes of the fields that the IR does not represent."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.errors import FileError, FormatError, ModelError, UnsupportedError
from circlekit.io.check.check_file import check_bytes
from circlekit.io.file_map import map_file
from circlekit.io.read import flatbuffer_decoder as decoder
from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.read.load import load_bytes
from circlekit.io.schema import Tree
from circlekit.io.write.flatbuffer_encoder import encode
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import MAX_RANK
from circlekit.ops.constant_operands import constant_elements

TAIL = bytes(range(100, 132))
"""Bytes after the flatbuffer."""


def tensor(name: str | None, shape: list[int], **more: Any) -> Tree:
    return {"name": name, "shape": shape, **more}


def content(tensors: list[Tree], fmt: str = "circle", **more: Any) -> bytes:
    """Return a file with one graph, whose first tensor is its input, and TAIL."""
    graph = {"tensors": tensors, "inputs": [0], "outputs": [0], "operators": more.pop("operators", [])}
    more.setdefault("buffers", [{}])
    tree = {"version": 3, "subgraphs": [graph], "operator_codes": [], **more}
    return b"".join(encode(tree, fmt).pieces()) + TAIL


def external(offset: int, size: int) -> Model:
    """Load a model whose second tensor has external data; ``offset`` counts from the flatbuffer's end."""
    tensors = [tensor("x", [1]), tensor("w", [size], type="UINT8", buffer=1)]
    end = len(content(tensors, buffers=[{}, {"offset": 1 << 40, "size": size}])) - len(TAIL)
    return load_bytes(content(tensors, buffers=[{}, {"offset": end + offset, "size": size}]))


def test_external_data_up_to_the_end_of_the_file() -> None:
    assert external(2, 30).main.table[1].array().tobytes() == TAIL[2:]
    with pytest.raises(FormatError, match=r"buffers\[1\]: 31 bytes at \d+ end beyond the file"):
        external(2, 31)


@pytest.mark.parametrize("offset", [0, 1])
def test_offsets_of_0_and_1_mean_no_external_data(offset: int) -> None:
    tensors = [tensor("x", [1]), tensor("w", [4], buffer=1)]
    model = load_bytes(content(tensors, buffers=[{}, {"offset": offset, "size": 1 << 40}]))
    assert model.main.table[1].data is None
    code = {"builtin_code": "CUSTOM", "deprecated_builtin_code": 32, "custom_code": "Mine"}
    op = {"inputs": [0], "large_custom_options_offset": offset, "large_custom_options_size": 1 << 40}
    model = load_bytes(content(tensors[:1], operators=[op], operator_codes=[code]))
    assert "custom_options" not in model.main.ops[0].extra


@pytest.mark.parametrize(("size", "fits"), [(31, True), (32, True), (33, False)])
def test_external_custom_options_end_with_the_file(size: int, fits: bool) -> None:
    code = {"builtin_code": "CUSTOM", "deprecated_builtin_code": 32, "custom_code": "Mine"}

    def data(offset: int) -> bytes:
        op = {"inputs": [0], "large_custom_options_offset": offset, "large_custom_options_size": size}
        return content([tensor("x", [1])], operators=[op], operator_codes=[code])

    whole = data(len(data(1 << 40)) - len(TAIL))
    if fits:
        assert load_bytes(whole).main.ops[0].extra["custom_options"].tobytes() == TAIL[:size]
    else:
        with pytest.raises(FormatError, match=r"operators\[0\]\.large_custom_options_offset: 33 bytes at"):
            load_bytes(whole)


def test_buffers_that_overlap_are_refused() -> None:
    """Copies of overlapping buffers could be larger than the file.  Equal ranges are one buffer."""
    size = 200
    buffers = [{"offset": 2 + index, "size": size} for index in range(3)]
    with pytest.raises(FormatError, match="buffers: expected buffers that do not overlap"):
        load_bytes(content([tensor("x", [1])], buffers=buffers))
    same = [{"offset": 2, "size": size}] * 3
    assert load_bytes(content([tensor("x", [1])], buffers=same)).main.inputs[0].name == "x"


def test_names_of_tensors_without_a_name_are_new() -> None:
    data = content([tensor("tensor_1", [1]), tensor(None, [1]), tensor("", [1]), tensor("tensor_1_", [1])])
    model = load_bytes(data)
    # the second tensor is number 1; tensor_1 and tensor_1_ are taken
    assert [v.name for v in model.main.table] == ["tensor_1", "tensor_1__", "tensor_2", "tensor_1_"]
    model.main.table[2].name = "given"
    tensors = decode(memoryview(to_bytes(model)), "circle")["subgraphs"][0]["tensors"]
    assert [t.get("name") for t in tensors] == ["tensor_1", None, "given", "tensor_1_"]


def test_tensors_without_elements_are_constants() -> None:
    shapes = [[1], [0], [2, 0], [0, -1], [0, 1 << 30, 1 << 28], [0, 1 << 30, (1 << 28) - 1], [2]]
    tensors = [tensor(f"t{i}", shape) for i, shape in enumerate(shapes)]
    tensors += [tensor("text", [0], type="STRING"), tensor("state", [0], is_variable=True)]
    tensors += [tensor("packed", [0, 3], type="INT4")]
    table = load_bytes(content(tensors)).main.table
    # t3 has an unknown dimension; the nonzero dimensions of t4 have a product of 2^58, which is too much
    assert [v.name for v in table if v.data is not None] == ["t1", "t2", "t5", "packed"]
    assert constant_elements(table[-1]).shape == (0, 3)


def test_only_the_first_lost_fields_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(content([tensor("x", [1])]))
    monkeypatch.setattr(decoder, "MAX_WARNINGS", 2)
    told: list[str] = []
    run = decoder.Decoder(memoryview(data), "circle", "m", lambda path, what: told.append(path))
    for number in range(4):
        run.lose("it is lost", f"f{number}")
    assert told == ["f0", "f1"]


def test_devices_are_not_read() -> None:
    with pytest.raises(FileError, match="/dev/zero: cannot be read: expected a file or a pipe, got a device"):
        map_file("/dev/zero")


# -- saving ------------------------------------------------------------------------------------


def coded(fmt: str, **code: Any) -> Model:
    """A model with one operator of this code."""
    op = {"inputs": [0], "outputs": [1]}
    tensors = [tensor("x", [1]), tensor("y", [1])]
    return load_bytes(content(tensors, fmt, operators=[op], operator_codes=[code]))


def test_negative_numbers_of_unknown_operators_belong_to_circle() -> None:
    model = coded("circle", builtin_code=-77)
    assert model.main.ops[0].code == "UNKNOWN_-77"
    assert load_bytes(to_bytes(model)).main.ops[0].code == "UNKNOWN_-77"
    with pytest.raises(UnsupportedError, match=r"\.tflite has no operator UNKNOWN_-77"):
        to_bytes(model, "tflite")
    model = coded("circle", builtin_code=310)
    assert load_bytes(to_bytes(model, "tflite")).main.ops[0].code == "UNKNOWN_310"


def test_enum_values_without_a_name_stay_in_their_format() -> None:
    options = {"": "AddOptions", "fused_activation_function": 77}
    op = {"inputs": [0, 0], "outputs": [1], "builtin_options": options}
    tensors = [tensor("x", [1]), tensor("y", [1])]
    model = load_bytes(content(tensors, operators=[op], operator_codes=[{"builtin_code": "ADD"}]))
    stored = decode(memoryview(to_bytes(model)), "circle")["subgraphs"][0]["operators"][0]
    assert stored["builtin_options"] == options
    with pytest.raises(UnsupportedError, match=r"is 77, a number without a name in \.circle: it may mean"):
        to_bytes(model, "tflite")
    model.format = "tflite"  # the number is still one of circle
    with pytest.raises(UnsupportedError, match=r"is 77, a number without a name in \.circle: it may mean"):
        to_bytes(model)


def test_data_of_another_type_is_refused() -> None:
    buffers = [{}, {"data": np.zeros(8, np.uint8)}]
    tensors = [tensor("x", [1]), tensor("w", [2], buffer=1)]
    model = load_bytes(content(tensors, buffers=buffers))
    model.main.table[1].data = np.zeros(2, np.int32)
    with pytest.raises(ModelError, match="%w: expected data of type f32, got int32"):
        to_bytes(model)


def test_numbers_of_metadata_buffers_follow_their_buffers() -> None:
    """Buffer 1 is dropped with its tensor; buffer 2 becomes buffer 1."""
    buffers = [{}, {"data": np.zeros(4, np.uint8)}, {"data": np.ones(4, np.uint8)}]
    tensors = [tensor("x", [1]), tensor("w", [1], buffer=1)]
    model = load_bytes(content(tensors, buffers=buffers, metadata_buffer=[2, 1]))
    model.main.table.pop()
    model.main.extra.pop("unused")
    tree = decode(memoryview(to_bytes(model)), "circle")
    assert len(tree["buffers"]) == 2
    assert tree["metadata_buffer"].tolist() == [1]


def test_options_table_that_the_file_lacks_stays_absent_until_an_attribute_changes() -> None:
    op = {"inputs": [0, 0], "outputs": [1]}
    tensors = [tensor("x", [1]), tensor("y", [1])]
    model = load_bytes(content(tensors, operators=[op], operator_codes=[{"builtin_code": "ADD"}]))

    def options() -> Any:
        tree = decode(memoryview(to_bytes(model)), "circle")
        return tree["subgraphs"][0]["operators"][0].get("builtin_options")

    assert options() is None
    add: Any = model.main.ops[0]
    add.act = type(add.act).RELU
    assert options() == {"": "AddOptions", "fused_activation_function": "RELU"}


def test_options_without_an_attribute_are_kept() -> None:
    options = {"": "ResizeBilinearOptions", "new_height": 5, "align_corners": True}
    op = {"inputs": [0, 1], "outputs": [2], "builtin_options": options}
    tensors = [tensor("x", [1, 2, 2, 1]), tensor("size", [2], type="INT32"), tensor("y", [1, 5, 5, 1])]
    codes = [{"builtin_code": "RESIZE_BILINEAR", "deprecated_builtin_code": 23}]
    model = load_bytes(content(tensors, operators=[op], operator_codes=codes))
    resize: Any = model.main.ops[0]
    assert (resize.align_corners, resize.extra["options"]) == (True, {"new_height": 5})
    stored = decode(memoryview(to_bytes(model)), "circle")["subgraphs"][0]["operators"][0]
    assert stored["builtin_options"] == options


def test_no_warning_without_lost_fields() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_bytes(content([tensor("x", [1])]))


def test_fields_that_a_file_lacks_have_their_defaults() -> None:
    tree = {"subgraphs": [{"tensors": [tensor("x", [1])], "inputs": [0], "outputs": [0], "operators": []}]}
    model = load_bytes(
        b"".join(encode({**tree, "buffers": [{}], "metadata": [{"name": "m"}]}, "circle").pieces())
    )
    assert model.version == 0
    assert model.metadata == [("m", b"")]
    origin = model.extra["origin"]
    assert (origin.rest, origin.unused_buffers, origin.metadata) == ({}, frozenset(), (0,))


def test_an_empty_buffer_holds_no_constant() -> None:
    buffers = [{}, {"data": np.zeros(0, np.uint8)}, {"data": np.ones(4, np.uint8)}]
    tensors = [tensor("x", [1]), tensor("a", [1], buffer=1), tensor("b", [1], buffer=2)]
    _, a, b = load_bytes(content(tensors, buffers=buffers)).main.table
    assert (a.data, a.extra["buffer"]) == (None, 1)
    assert b.data is not None


@pytest.mark.parametrize("rank", [MAX_RANK, MAX_RANK + 1])
def test_the_rank_is_limited(rank: int) -> None:
    data = content([tensor("x", [1] * rank)])
    if rank == MAX_RANK:
        assert load_bytes(data).main.inputs[0].rank == rank
    else:
        with pytest.raises(FormatError, match=f"expected at most {MAX_RANK} dimensions, got {rank}"):
            load_bytes(data)


@pytest.mark.parametrize(
    ("code", "rules"), [({"deprecated_builtin_code": 19}, []), ({"builtin_code": "RELU"}, ["code-fields"])]
)
def test_an_operator_code_may_be_in_either_of_its_fields(code: Tree, rules: list[str]) -> None:
    """Without the older field, readers differ: ONE's take the operator for an ADD."""
    op = {"inputs": [0], "outputs": [1]}
    data = content([tensor("x", [1]), tensor("y", [1])], operators=[op], operator_codes=[code])
    assert load_bytes(data).main.ops[0].code == "RELU"
    assert [f.rule for f in check_bytes(memoryview(data)) if f.rule == "code-fields"] == rules


@pytest.mark.parametrize("source", ["circle", "tflite"])
@pytest.mark.parametrize("target", ["circle", "tflite"])
def test_the_version_of_another_format_is_not_written_as_tflite(source: str, target: str) -> None:
    data = content([tensor("x", [1])], source, version=5)
    written = load_bytes(to_bytes(load_bytes(data), target))
    assert written.format == target
    assert written.version == (3 if (source, target) == ("circle", "tflite") else 5)
