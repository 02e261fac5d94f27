# SPDX-License-Identifier: Apache-2.0
"""Decoded files as texts of ``test.recipe``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.recipes.prototext.filler_data import _is_uniform
from circlekit.recipes.prototext.recipe_writer import recipe_text

TENSORS = [{"name": "x", "shape": np.array([2])}, {"name": "y", "shape": np.array([2])}]


def write(graph: dict[str, Any] | None = None, data: bytes = b"", fmt: str = "tflite", **model: Any) -> str:
    """Return the recipe of a decoded file, with single spaces between words.

    ``graph``: fields of its only graph; the tensors are TENSORS if not given.  ``data``: the bytes of the
    file, in which external data is found.  ``model``: fields of the table Model.
    """
    tree = {"subgraphs": [{"tensors": TENSORS, **(graph or {})}], "version": 3 if fmt == "tflite" else 0}
    return " ".join(recipe_text({"buffers": [{}], **tree, **model}, memoryview(data), fmt).split())


NEG: dict[str, Any] = {"operator_codes": [{"builtin_code": "NEG"}]}
ADD = [{"builtin_code": "ADD"}]
OPERATOR = {"inputs": [0, -1], "outputs": [1]}


def test_operands_and_operations() -> None:
    found = write({"operators": [OPERATOR], "inputs": [0], "outputs": [1], "name": "main"}, **NEG)
    assert found == (
        'operand { name: "x" type: FLOAT32 shape { dim: [2] } } '
        'operand { name: "y" type: FLOAT32 shape { dim: [2] } } '
        'operation { type: "Neg" input: "x" input: "" output: "y" no_options: true } '
        'input: "x" output: "y" name: "main"'
    )


def test_names_are_made_unique() -> None:
    names = ["a", "a", "a_1", "", "a", "tensor_3", ""]
    found = write({"tensors": [{"name": name} for name in names]})
    read = [part.split('"')[1] for part in found.split("operand {")[1:]]
    assert read == ["a", "a_2", "a_1", "tensor_3_1", "a_3", "tensor_3", "tensor_6"]
    assert found.count('named: "a"') == 2
    assert found.count('named: ""') == 2


def test_version_is_written_unless_it_is_the_usual_one() -> None:
    assert "version" not in write() + write(fmt="circle")
    assert "model_version: 3" in write(fmt="circle", version=3)
    assert "model_version: 0" in write(version=0)


def test_versions_of_one_operator_are_kept_if_they_differ() -> None:
    codes = [{"builtin_code": "NEG"}, {"builtin_code": "NEG", "version": 2}]
    operators = [{**OPERATOR, "opcode_index": index} for index in (0, 1)]
    assert "keep_versions: true" in write({"operators": operators}, operator_codes=codes)
    assert "keep_versions" not in write({"operators": operators[1:]}, operator_codes=codes)
    assert "version: 2" in write({"operators": operators[1:]}, operator_codes=codes)


def test_external_data_is_found_by_its_offset() -> None:
    tensors = [{"name": "x", "shape": np.array([4]), "type": "INT8", "buffer": 1}]
    buffers: list[dict[str, Any]] = [{}, {"offset": 2, "size": 4}]
    found = write({"tensors": tensors}, b"ab\1\2\3\4yz", buffers=buffers)
    assert 'arg: "1" arg: "2" arg: "3" arg: "4"' in found
    assert "ext_offset: true" in found
    buffers[1]["offset"] = 1  # an offset of 0 or 1 means that there is no external data
    assert "filler" not in write({"tensors": tensors}, b"ab\1\2\3\4yz", buffers=buffers)


def test_numbers_without_a_name_in_the_schema_are_refused() -> None:
    options = {"": "AddOptions", "fused_activation_function": 99}
    with pytest.raises(UnsupportedError, match="activation 99, which ActivationFunctionType lacks"):
        write({"operators": [{**OPERATOR, "builtin_options": options}]}, operator_codes=ADD)
    for buffer in (0, 1):  # without and with data
        tensors = [{"name": "x", "shape": np.array([4]), "type": 99, "buffer": buffer}]
        with pytest.raises(UnsupportedError, match="type 99, which TensorType lacks"):
            write({"tensors": tensors}, buffers=[{}, {"data": np.zeros(4, np.uint8)}])


def test_options_of_custom_operators_are_base64() -> None:
    codes = [{"builtin_code": "CUSTOM", "custom_code": "Mine"}]
    options = {"large_custom_options_offset": 2, "large_custom_options_size": 3}
    found = write({"operators": [{**OPERATOR, **options}]}, b"ab\0\1\2z", operator_codes=codes)
    assert 'custom_options: "AAEC"' in found
    options["large_custom_options_offset"] = 1  # 0 and 1 mean that there are no such options
    assert "options" not in write({"operators": [{**OPERATOR, **options}]}, b"abc", operator_codes=codes)
    codes[0]["custom_code"] = "Erf"
    assert "no_options: true" in write({"operators": [OPERATOR]}, operator_codes=codes)


def test_metadata_is_text_if_it_can_be() -> None:
    buffers = [{}, {"data": np.frombuffer("é".encode(), np.uint8)}, {"data": np.array([255], np.uint8)}]
    found = write(
        buffers=buffers, metadata=[{"name": "a", "buffer": 1}, {"name": "b", "buffer": 2}, {"name": "c"}]
    )
    assert r'metadata { name: "a" data: "\303\251" }' in found
    assert 'metadata { name: "b" base64: "/w==" }' in found
    assert 'metadata { name: "c" data: "" }' in found


@pytest.mark.parametrize(
    ("graph", "model", "message"),
    [
        (
            {"tensors": [{"name": "x", "external_buffer": 1}]},
            {},
            "%x: a recipe cannot express external_buffer",
        ),
        ({"operators": [OPERATOR]}, {"operator_codes": [{"builtin_code": 999}]}, "lacks, UNKNOWN_999"),
        (
            {"operators": [{**OPERATOR, "builtin_options": {"": "AddOptions"}}]},
            NEG,
            "NEG with the options AddO",
        ),
        (
            {"tensors": [{"name": "v", "variant_tensors": [{"shape": np.array([-1])}]}]},
            {},
            "cannot express a number of the model: .*-1",
        ),
    ],
)
def test_models_that_recipes_cannot_express_are_refused(
    graph: dict[str, Any], model: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        write(graph, **model)


@pytest.mark.parametrize(
    ("shape", "signature", "expected"),
    [
        ([-1, 4], None, "shape { dim: [1, 4] } shape_signature { dim: [-1, 4] }"),
        ([-1, 4], [2, -1], "shape { dim: [1, 4] } shape_signature { dim: [-1, -1] }"),
        ([-1, 4], [2], "shape { dim: [1, 4] } shape_signature { dim: [-1, 4] }"),
    ],
)
def test_unknown_dimensions_of_the_shape_are_written_in_its_signature(
    shape: list[int], signature: list[int] | None, expected: str
) -> None:
    tensor = {"name": "x", "shape": np.array(shape)}
    if signature is not None:
        tensor["shape_signature"] = np.array(signature)
    assert expected in write({"tensors": [tensor]})


def test_sparse_dimensions() -> None:
    indices = {"": "Uint8Vector", "values": np.array([0, 1], np.uint8)}
    sparse = {"format": "SPARSE_CSR", "array_segments": indices, "array_indices": indices}
    dims: list[dict[str, Any]] = [{}, {"dense_size": 3}, sparse]
    found = write({"tensors": [{"name": "x", "sparsity": {"dim_metadata": dims}}]})
    assert found.split("sparsity ")[1].startswith(
        "{ dim_metadata { } dim_metadata { dense_size: 3 } "
        "dim_metadata { format: SPARSE_CSR array_segments { dim: [0, 1] type: UINT8VEC } "
        "array_indices { dim: [0, 1] type: UINT8VEC } } } }"
    )


@pytest.mark.parametrize(
    ("numbers", "is_uniform"),
    [
        (np.array([True, True]), True),
        (np.array([True, False]), False),
        (np.array([0.0, -0.0], np.float32), False),
        (np.array([np.nan, np.nan], np.float32), True),
        (np.array([1, 1, 2], np.int8), False),
        (np.array([3], np.int64), True),
    ],
)
def test_numbers_are_equal_if_their_bits_are(numbers: np.ndarray, is_uniform: bool) -> None:
    assert _is_uniform(numbers) is is_uniform
