# SPDX-License-Identifier: Apache-2.0
"""Texts of ONE's recipe language as trees, and the places of their parts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ParseError
from circlekit.io.tables import TABLES
from circlekit.recipes.prototext.message_types import DEFAULTS
from circlekit.recipes.prototext.protobuf_text import RecipeText, format_recipe


def parse(text: str, fmt: str = "tflite") -> Any:
    return RecipeText(text, "t", fmt).tree


def test_fields_messages_separators_and_comments() -> None:
    tree = parse(
        """# a comment, and another after a field
        operand { shape { dim: 1, dim: 2; dim: [3, 0x10, 017] } name: 'a' "b" }  # here
        operand: < type: INT8 quant { scale: [] scale: -.5e1 scale: 2f min: inf max: nan } >
        ext_offset: true input: ["x", 'y'] input: "z" """
    )
    first, second = tree["operand"]
    assert first == {
        "": "Operand", "name": "ab", "shape": [1, 2, 3, 16, 15], "is_variable": False,
        "make_sparse": False,
    }  # fmt: skip
    assert second["type"] == "INT8"
    assert second["quant"]["scale"] == [-5.0, 2.0]
    assert second["quant"]["min"] == [float("inf")]
    assert np.isnan(second["quant"]["max"]).all()
    assert second["quant"]["quantized_dimension"] == 0
    assert "zero_point" not in second["quant"]
    assert tree["input"] == ["x", "y", "z"]
    assert (tree["ext_offset"], tree["keep_versions"], tree["version"]) == (True, False, 1)


def test_options_have_the_names_and_defaults_of_their_table() -> None:
    text = "operation { conv2d_options { activation: RELU stride_w: 2 } max_pool_with_argmax_options { } }"
    operation = parse(text)["operation"][0]
    assert operation["conv2d_options"] == {
        "": "Conv2DOptions", "fused_activation_function": "RELU", "stride_w": 2, "stride_h": 1,
        "padding": "VALID", "dilation_w_factor": 1, "dilation_h_factor": 1, "quantized_bias_type": "FLOAT32",
    }  # fmt: skip
    options = operation["max_pool_with_argmax_options"]
    assert (options["output_type"], options["padding"], options["filter_width"]) == ("INT64", "VALID", 1)
    assert (options["stride_h"], options["include_batch_in_index"]) == (1, False)


def test_only_defaults_that_differ_from_the_schema_are_listed() -> None:
    rows = [(table, field, default) for table in TABLES for field, _, default, _ in TABLES[table]]
    assert not [row for row in rows if DEFAULTS.get(row[:2], DEFAULTS.get(("", row[1]), object())) == row[2]]


@pytest.mark.parametrize(("fmt", "unwritten"), [("circle", "adj_x"), ("tflite", "adjoint_lhs")])
def test_both_names_of_a_transposed_operand_are_read(fmt: str, unwritten: str) -> None:
    for name in ("adj_x", "adjoint_lhs"):
        text = f"operation {{ batch_matmul_options {{ {name}: true }} }}"
        options = parse(text, fmt)["operation"][0]["batch_matmul_options"]
        assert (options["adj_x"], options["adj_y"]) == (True, False)
        assert unwritten not in format_recipe(parse(text, fmt), fmt)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'"a\"b\\c\n\t"', 'a"b\\c\n\t'),
        (r"'\'\101\x42'", "'AB"),
        (r'"\303\251"', "é"),
        (r'"\377"', "\udcff"),
        ('"é 😀"', "é 😀"),
    ],
)
def test_strings(written: str, read: str) -> None:
    assert parse(f"description: {written}")["description"] == read


@pytest.mark.parametrize(
    "text", ["", "plain", 'quo"te', "back\\slash", "a\nb\tc\rd", "é😀", "\udcff\udc80", "\x00\x7f", "'"]
)
def test_strings_survive_a_round_trip(text: str) -> None:
    assert parse(format_recipe({"description": text}, "tflite"))["description"] == text


def test_trees_are_written_without_defaults() -> None:
    tree = {
        "operand": [{"name": "a", "type": "INT8", "shape": [2, 3], "is_variable": False}],
        "operation": [
            {"squeeze_options": {"squeeze_dims": np.array([1, 2])}, "intermediate": [], "version": 1}
        ],
        "ext_offset": True,
        "description": None,
    }
    written = " ".join(format_recipe(tree, "tflite").split())
    assert written == (
        'operand { name: "a" type: INT8 shape { dim: [2, 3] } } '
        'operation { squeeze_options { squeeze_dim: [1, 2] } empty_vectors: "intermediate" } ext_offset: true'
    )
    operation = parse(written)["operation"][0]
    assert operation["intermediate"] == []
    assert "mutating_variable_inputs" not in operation
    assert operation["squeeze_options"]["squeeze_dims"] == [1, 2]


def test_numbers_that_differ_from_a_recipes_default_are_written() -> None:
    """A recipe without ``alpha`` means 0.2; a tree without it means 0, the default of the schema."""
    options = {"": "LeakyReluOptions", "alpha": float(np.float32(0.2))}
    assert "alpha" not in format_recipe({"operation": [{"leaky_relu_options": options}]}, "tflite")
    for given in ({}, {"alpha": 0.0}, {"alpha": -0.0}, {"alpha": float(np.nextafter(np.float32(0.2), 1))}):
        text = format_recipe({"operation": [{"leaky_relu_options": given}]}, "tflite")
        found = parse(text)["operation"][0]["leaky_relu_options"]["alpha"]
        assert np.float32(found).tobytes() == np.float32(given.get("alpha", 0.0)).tobytes()


TEXT = """# the places of fields
operand { name: "x" }
operand: <
  name: "a" "b" ; shape < > filler { arg: ["1",
    "2"], arg: "3" } >
graph { operand { name: "y" } }
"""


@pytest.mark.parametrize(
    ("path", "field", "index", "place"),
    [
        ((), "", 0, "1:1"),
        (("operand", 0), "", 0, "2:1"),
        (("operand", 0), "name", 0, "2:17"),
        (("operand", 0), "shape", 0, "2:1"),  # it has no shape: the place of the operand
        (("operand", 1), "", 0, "3:1"),
        (("operand", 1), "name", 0, "4:9"),
        (("operand", 1), "shape", 0, "4:19"),
        (("operand", 1, "filler"), "arg", 0, "4:44"),
        (("operand", 1, "filler"), "arg", 1, "5:5"),
        (("operand", 1, "filler"), "arg", 2, "5:16"),
        (("graph", 0, "operand", 0), "name", 0, "6:25"),
    ],
)
def test_errors_show_the_place(path: tuple[str | int, ...], field: str, index: int, place: str) -> None:
    recipe = RecipeText(TEXT, "t", "tflite")
    tree: Any = recipe.tree
    for step in path:
        tree = tree[step]
    with pytest.raises(ParseError, match="^" + re.escape(f"t:{place}: wrong\n")):
        recipe.fail("wrong", tree, field, index)


def test_unknown_names_are_reported_with_known_ones() -> None:
    with pytest.raises(ParseError, match=r"Shape has no field zz; expected one of dim, empty_v") as error:
        parse("operand { shape { zz: 1 } }")
    assert error.value.message.startswith("t:1:19: ")
    with pytest.raises(ParseError) as error:
        parse("operand { " + "z" * 50 + ": 1 }")
    _, _, known = error.value.message.partition(f"Operand has no field {'z' * 40}; expected one of ")
    assert len(known.split(", ")) == 12


def test_messages_of_the_library_are_cut() -> None:
    with pytest.raises(ParseError) as error:
        parse("operand { name: " + "z" * 1000 + " }")
    assert error.value.message.startswith("t:1:17: expected string but found: 'zzz")
    assert len(error.value.message) == len("t:1:17: ") + 300


def test_bytes_are_written_as_text_and_read_as_an_array() -> None:
    details = {"": "CustomQuantization", "custom": np.array([1, 255], np.uint8)}
    written = format_recipe({"operand": [{"quant": {"custom": details}}]}, "tflite")
    found = parse(written)["operand"][0]["quant"]["custom"]["custom"]
    assert (found.dtype, found.tolist()) == (np.uint8, [1, 255])


def test_fields_of_the_other_format_are_unknown() -> None:
    text = "operand { quant { blockwise { block_shape: [2, 3] } } }"
    assert parse(text)["operand"][0]["quant"]["blockwise"]["block_shape"] == [2, 3]
    with pytest.raises(ParseError, match="BlockwiseQuantization has no field block_shape"):
        parse(text, "circle")
