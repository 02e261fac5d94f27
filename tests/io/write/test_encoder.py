# SPDX-License-Identifier: Apache-2.0
"""Trees to flatbuffers: default values, numbers that do not fit, shared vtables, and what a format lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, UnsupportedError
from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.schema import Tree
from circlekit.io.write.flatbuffer_encoder import encode
from circlekit.ir.value import Array


def written(tree: Tree, fmt: str = "circle") -> bytes:
    return b"".join(encode(tree, fmt).pieces())


def again(tree: Tree, fmt: str = "circle") -> Tree:
    return decode(memoryview(written(tree, fmt)), fmt)


def option(table: str, field: str, value: Any) -> Tree:
    """A model whose only operator has options with one field."""
    return {"subgraphs": [{"operators": [{"builtin_options": {"": table, field: value}}]}]}


def read(table: str, field: str, value: Any) -> Any:
    """Return the field after it was written and read."""
    options = again(option(table, field, value))["subgraphs"][0]["operators"][0]["builtin_options"]
    return options.get(field)


@pytest.mark.parametrize(
    ("value", "stored"),
    [(0.0, None), (2.0**-150, None), (1.01 * 2.0**-150, 2.0**-149), (-(2.0**-149), -(2.0**-149)), (0.5, 0.5)],
)
def test_floats_that_round_to_the_default_are_left_out(value: float, stored: float | None) -> None:
    assert read("SoftmaxOptions", "beta", value) == stored


@pytest.mark.parametrize("value", [-0.0, -(2.0**-151)])
def test_minus_zero_is_kept(value: float) -> None:
    assert str(read("SoftmaxOptions", "beta", value)) == "-0.0"


@pytest.mark.parametrize(("value", "stored"), [(0, None), (2**31 - 1, 2**31 - 1), (-(2**31), -(2**31))])
def test_integers_of_32_bits(value: int, stored: int | None) -> None:
    assert read("GatherOptions", "axis", value) == stored


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_numbers_that_do_not_fit_are_refused(value: int) -> None:
    with pytest.raises(ModelError, match="GatherOptions has a number that its field cannot hold"):
        written(option("GatherOptions", "axis", value))
    with pytest.raises(ModelError, match="squeeze_dims has an element that its field cannot hold"):
        written(option("SqueezeOptions", "squeeze_dims", [0, value]))


def test_float_beyond_float32_is_refused() -> None:
    with pytest.raises(ModelError, match="SoftmaxOptions has a number"):
        written(option("SoftmaxOptions", "beta", 1e39))


def test_text_that_utf_8_cannot_encode_is_refused() -> None:
    with pytest.raises(ModelError, match=r"description: expected text that UTF-8 can encode: .*surrogates"):
        written({"description": "\ud800"})


def test_enum_values_by_name_and_number() -> None:
    assert read("AddOptions", "fused_activation_function", "RELU") == "RELU"
    assert read("AddOptions", "fused_activation_function", 3) == "RELU6"
    assert read("AddOptions", "fused_activation_function", "NONE") is None
    with pytest.raises(UnsupportedError, match=r"has no ActivationFunctionType SWISH for AddOptions\.fused"):
        written(option("AddOptions", "fused_activation_function", "SWISH"))


def test_vectors_of_enum_values() -> None:
    field = ("StablehloDotGeneralOptions", "precision_config")
    tree = {"subgraphs": [{"operators": [{"builtin_options_2": {"": field[0], field[1]: ["HIGH", 2]}}]}]}
    options = again(tree)["subgraphs"][0]["operators"][0]["builtin_options_2"]
    assert list(options[field[1]]) == ["HIGH", "HIGHEST"]
    tree["subgraphs"][0]["operators"][0]["builtin_options_2"][field[1]] = ["HIGH", "LOW"]
    with pytest.raises(UnsupportedError, match="has no StablehloPrecisionConfig LOW for precision_config"):
        written(tree)


@pytest.mark.parametrize(
    "value", [np.array([0, 2**33 + 5]), np.array([1.5]), np.array([2**31], np.uint32), np.array([2**70])]
)
def test_elements_of_arrays_that_do_not_fit_are_refused(value: Array) -> None:
    with pytest.raises(ModelError, match="squeeze_dims has an element that its field cannot hold"):
        written(option("SqueezeOptions", "squeeze_dims", value))


def test_elements_of_arrays_are_converted() -> None:
    assert list(read("SqueezeOptions", "squeeze_dims", np.array([2**31 - 1, -1]))) == [2**31 - 1, -1]

    def scale(value: float) -> Any:
        tensor = {"quantization": {"scale": np.array([value, np.inf])}}
        return again({"subgraphs": [{"tensors": [tensor]}]})["subgraphs"][0]["tensors"][0]["quantization"]

    assert list(scale(0.1)["scale"]) == [np.float32(0.1), np.inf]
    with pytest.raises(ModelError, match="scale has an element that its field cannot hold: 1e"):
        scale(1e39)


def test_fields_of_the_other_format_and_of_none() -> None:
    tree = {"subgraphs": [{"data_format": "CHANNELS_FIRST"}]}
    assert again(tree)["subgraphs"][0] == tree["subgraphs"][0]
    with pytest.raises(UnsupportedError, match=r"\.tflite has no field SubGraph\.data_format"):
        written(tree, "tflite")
    with pytest.raises(ModelError, match=r"the schema has no field SubGraph\.colour"):
        written({"subgraphs": [{"colour": 1}]})


def test_equal_vtables_are_shared() -> None:
    """Each table of a string takes 8 bytes, its offset 4, an empty string 8; the vtable is written once."""
    sizes = [len(written({"metadata": [{"name": ""}] * count})) for count in (1, 2, 3)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] == 8 + 4 + 8


def test_equal_vectors_are_shared() -> None:
    """A further tensor with the shape of another takes 8 bytes for its table and 4 for the table's offset."""

    def size(*shapes: list[int]) -> int:
        tree = {"subgraphs": [{"tensors": [{"shape": shape} for shape in shapes]}]}
        stored = again(tree)["subgraphs"][0]["tensors"]
        assert [tensor["shape"].tolist() for tensor in stored] == [*shapes]
        return len(written(tree))

    assert size([1, 2, 3], [1, 2, 3]) - size([1, 2, 3]) == 8 + 4
    assert size([1, 2, 3], [1, 2, 4]) - size([1, 2, 3]) == 8 + 4 + 16
    long = [1] * 1000
    assert size(long, long) - size(long) == 8 + 4
    # a vector is stored again after some uses, because readers limit how often a file refers to the same data
    assert size(*[long] * 100) > 25 * 4004


def test_vectors_of_different_alignment_are_not_shared() -> None:
    """The bytes of empty vectors are equal, but a vector of int64 is aligned to 8 bytes."""

    def size(other: str) -> int:
        """Return the size of a file with two empty vectors: ``scale``, of float32, and ``other``."""
        tree: Tree = {"subgraphs": [{"tensors": [{"quantization": {"scale": [], other: []}}]}]}
        quantization = again(tree)["subgraphs"][0]["tensors"][0]["quantization"]
        assert [len(quantization[name]) for name in ("scale", other)] == [0, 0]
        return len(written(tree))

    assert size("zero_point") >= size("max") + 4  # the length of the second vector


def test_vectors_of_any_source() -> None:
    for data in ([1, 2, 3], (1, 2, 3), np.array([1, 2, 3], np.int64), np.array([1, 2, 3], ">i4")):
        assert read("SqueezeOptions", "squeeze_dims", data).tolist() == [1, 2, 3]
    assert again({"buffers": [{"data": b"abc"}]})["buffers"][0]["data"].tobytes() == b"abc"


@pytest.mark.parametrize("count", range(9))
def test_wide_numbers_are_aligned(count: int) -> None:
    """The decoder refuses numbers of 8 bytes that are not aligned."""
    tree = {"description": "x" * count, "buffers": [{"size": 1 << 40, "data": b"abc"}, {"size": 5}]}
    assert [buffer["size"] for buffer in again(tree)["buffers"]] == [1 << 40, 5]


@pytest.mark.parametrize("count", range(9))
def test_vectors_of_wide_numbers_are_aligned(count: int) -> None:
    tree: Tree = {
        "subgraphs": [{"name": "x" * count, "tensors": [{"quantization": {"zero_point": [7, -1]}}]}]
    }
    numbers = again(tree)["subgraphs"][0]["tensors"][0]["quantization"]["zero_point"]
    assert numbers.tolist() == [7, -1]
    assert numbers.flags.aligned


@pytest.mark.parametrize("is_far", [False, True])
def test_large_files_have_constants_after_the_flatbuffer(is_far: bool) -> None:
    """A file is large if its size reaches the limit, which is the third argument of ``encode``."""
    tree = {"buffers": [{}, {"data": np.zeros(100, np.uint8)}]}
    size = encode(tree, "circle").size
    file = encode(tree, "circle", size if is_far else size + 1)
    assert [payload.is_vector for payload in file.payloads] == [not is_far]
    stored = decode(memoryview(b"".join(file.pieces())), "circle")["buffers"]
    assert stored[0] == {}
    assert (stored[1] == {"offset": file.payloads[0].position, "size": 100}) is is_far


def test_fields_that_refer_to_the_same_memory_share_it() -> None:
    data = np.arange(100, dtype=np.uint8)
    tree = {"buffers": [{"data": data}, {"data": data}, {"data": data.copy()}]}
    assert len(encode(tree, "circle").payloads) == 2
    assert [b["data"].tolist() for b in again(tree)["buffers"]] == [data.tolist()] * 3
