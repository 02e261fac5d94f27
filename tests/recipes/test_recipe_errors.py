# SPDX-License-Identifier: Apache-2.0
"""Error messages for mistakes in ``test.recipe``: position, found text, and suggestion."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from circlekit.errors import ParseError
from circlekit.recipes.load import read_recipe

RECIPE = """
operand { name: "x" type: FLOAT32 shape { dim: 2 dim: 3 } }
operand { name: "w" type: FLOAT32 shape { dim: 3 } filler { tag: "explicit" arg: "1" arg: "2" } }
operand { name: "y" type: FLOAT32 shape { dim: 2 dim: 3 } }
operation { type: "Add" input: "x" input: "w" output: "y" add_options { activation: RELU } }
input: "x"
output: "y"
"""


def test_unchanged_recipe_is_accepted() -> None:
    model = read_recipe(RECIPE, "r")
    assert [op.code for op in model.main] == ["ADD"]
    assert model.main.ops[0].inputs[1] is not None
    assert model.main.ops[0].inputs[1].array().tolist() == [1.0, 2.0, 0.0]  # missing numbers are zero


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name: "x" type', 'nam: "x" type', "2:11: Operand has no field nam; did you mean name?"),
        ("FLOAT32 shape { dim: 2 dim: 3 } }\nop", "FLOAT3 shape { } }\nop", "did you mean FLOAT32?"),
        ("FLOAT32 shape { dim: 2 dim: 3 } }\nop", "99 shape { } }\nop", "has no value with number 99"),
        ('"Add"', '"Ad"', '5:19: no operator is named Ad; did you mean Add?'),
        ('"Add"', '"Conv2d"', "did you mean Conv2D?"),
        ("add_options", "mul_option", "5:59: Operation has no field mul_option; did you mean mul_options?"),
        ("activation: RELU", "activatio: RELU", "Options has no field activatio; did you mean activation?"),
        ("activation: RELU", "activation: RELUU", "5:85: ActivationFunctionType has no value RELUU; did"),
        ('"explicit"', '"explict"', "3:66: no filler is named explict; did you mean explicit?"),
        ('"explicit"', '"constant"', None),
        ('arg: "2"', 'arg: "2" arg: "3" arg: "4"', "expected at most 3 elements, as the shape has, got 4"),
        ('arg: "2"', 'arg: "two"', "expected a number, got 'two'"),
        ('input: "w"', 'input: "v"', "5:43: no operand is named v"),
        ('output: "y" a', 'output: "" a', "expected the name of an operand, got an empty one"),
        ('output: "y" a', 'output: "y" output: "y" a', "y is the result of an earlier operation"),
        ('name: "w"', 'name: "x"', "3:17: x is the name of an earlier operand"),
        ('\ninput: "x"', '\ninput: "w"', "expected an input without a filler, got the constant w"),
        ('\noutput: "y"', '\noutput: "z"', "7:9: no operand is named z"),
        ("dim: 2 dim: 3", "dim: -2 dim: 3", "2:48: value out of range: -2"),
        ("dim: 2 dim: 3", "dim: 4000000000", "expected a dimension of at most 2147483647, got 4000000000"),
        ("dim: 2 dim: 3", 'dim: "2"', 'couldn\'t parse integer: "2"'),
        ("{ dim: 2 dim: 3 }", "{ dim: 2 dim: 3 } shape { }", 'should not have multiple "shape" fields'),
        ("{ dim: 2 dim: 3 }", ": 2", '2:43: expected "{"'),
        ('name: "x"', 'name "x"', '2:16: expected ":"'),
        ('name: "x"', 'name: x', "2:17: expected string but found: 'x'"),
        ('name: "x" type: FLOAT32', 'name: "x"', "2:1: expected a name and a type in the operand"),
        ('output: "y"\n', 'output: "y" }', "7:13: expected identifier or number, got }"),
        ("RELU } }", "RELU }", 'expected "}"'),
        ('"Add"', '"Custom"', "expected a custom_code in the custom operation"),
        ("\noperand", "\nsignature_def { subgraph_index: 1 } operand", "one of the 1 graphs, got 1"),
        ("\noperand", '\nsignature_def { inputs { name: "a" } } operand', "a tensor or a tensor_index"),
        ("\noperand { n", "\n$operand { n", "unexpected character '$'"),
        ("shape { dim: 3 }", "shape { dim: 3 } shape_signature { dim: -1 dim: 3 }", "expected 1 dimensions"),
        ("shape { dim: 3 }", "shape { dim: 3 } make_sparse: 7", '3:65: expected "true" or "false"'),
        ('"explicit" arg: "1" arg: "2"', '"file" arg: "w.npy"', "without references to files"),
        ('"explicit" arg: "1" arg: "2"', '"base64" arg: "AAAA"', "expected 12 bytes for f32[3], got 3"),
    ],
)  # fmt: skip
def test_mistake_is_reported_with_its_position(old: str, new: str, message: str | None) -> None:
    assert old in RECIPE
    text = RECIPE.replace(old, new, 1)
    if message is None:
        read_recipe(text, "r")
        return
    with pytest.raises(ParseError, match=r"^r:(\d+:\d+: .*)?" + re.escape(message)):
        read_recipe(text, "r")


def test_missing_graphs_are_reported() -> None:
    text = RECIPE.replace('"Add"', '"While"').replace("add_options { activation: RELU }", "")
    with pytest.raises(ParseError, match="expected an index of one of the 1 graphs, got 1"):
        read_recipe(text.replace('output: "y" ', 'output: "y" while_options { cond_subgraph_index: 1 }'), "r")


@pytest.mark.parametrize("name", ["../w.npy", "/etc/hostname", "..", "a/b.npy", ""])
def test_recipe_cannot_name_a_file_outside_its_folder(name: str, tmp_path: Path) -> None:
    text = RECIPE.replace('"explicit" arg: "1" arg: "2"', f'"file" arg: "{name}"')
    with pytest.raises(ParseError, match="expected the name of a file beside the recipe"):
        read_recipe(text, "r", folder=tmp_path)
