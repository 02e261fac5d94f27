# SPDX-License-Identifier: Apache-2.0
"""Mistakes in ``test.recipe``: where they are, what was found, and what was perhaps meant."""

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


def test_the_recipe_itself_is_right() -> None:
    model = read_recipe(RECIPE, "r")
    assert [op.code for op in model.main] == ["ADD"]
    assert model.main.ops[0].inputs[1] is not None
    assert model.main.ops[0].inputs[1].array().tolist() == [1.0, 2.0, 0.0]  # what is missing is zero


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name: "x" type', 'nam: "x" type', "2:11: Operand has no field nam; did you mean name?"),
        ("FLOAT32 shape { dim: 2 dim: 3 } }\nop", "FLOAT3 shape { } }\nop", "did you mean FLOAT32?"),
        ("FLOAT32 shape { dim: 2 dim: 3 } }\nop", "99 shape { } }\nop", "TensorType has no number 99"),
        ('"Add"', '"Ad"', '5:19: there is no operator Ad; did you mean Add?'),
        ('"Add"', '"Conv2d"', "did you mean Conv2D?"),
        ("add_options", "mul_option", "5:59: Operation has no field mul_option; did you mean mul_options?"),
        ("activation: RELU", "activatio: RELU", "Options has no field activatio; did you mean activation?"),
        ("activation: RELU", "activation: RELUU", "no ActivationFunctionType RELUU; did you mean RELU?"),
        ('"explicit"', '"explict"', "3:66: there is no filler explict; did you mean explicit?"),
        ('"explicit"', '"constant"', None),
        ('arg: "2"', 'arg: "2" arg: "3" arg: "4"', "room for 3 elements, 4 are given"),
        ('arg: "2"', 'arg: "two"', "expected a number, found 'two'"),
        ('input: "w"', 'input: "v"', "5:43: there is no operand v"),
        ('output: "y" a', 'output: "" a', "there is no operand without a name"),
        ('output: "y" a', 'output: "y" output: "y" a', "y is the result of an operation before"),
        ('name: "w"', 'name: "x"', "3:17: there is an operand x before"),
        ('\ninput: "x"', '\ninput: "w"', "w has a filler: a constant is no input"),
        ('\noutput: "y"', '\noutput: "z"', "7:9: there is no operand z"),
        ("dim: 2 dim: 3", "dim: -2 dim: 3", "dim: -2 is not from 0 to 4294967295"),
        ("dim: 2 dim: 3", "dim: 4000000000", "a dimension is at most 2147483647, not 4000000000"),
        ("dim: 2 dim: 3", 'dim: "2"', "expected a whole number, found '2'"),
        ("{ dim: 2 dim: 3 }", "{ dim: 2 dim: 3 } shape { }", "shape is given twice"),
        ("{ dim: 2 dim: 3 }", ": 2", "shape is a message: expected '{', found '2'"),
        ('name: "x"', 'name { }', "name is no message"),
        ('name: "x"', 'name "x"', "expected ':' behind name"),
        ('name: "x"', 'name: x', "expected a text in quotes, found x"),
        ('name: "x"', 'name: "\\q"', "an escape that does not exist"),
        ('name: "x" type: FLOAT32', 'name: "x"', "2:1: an operand has a name and a type"),
        ('output: "y"\n', 'output: "y" }', "expected a field, found '}'"),
        ("RELU } }", "RELU }", "expected a field or '}', found 'end of text'"),
        ('"Add"', '"Custom"', "a custom operation has a custom_code"),
        ("\noperand", "\nsignature_def { subgraph_index: 1 } operand", "there is no graph 1, but 1 graphs"),
        ("\noperand", '\nsignature_def { inputs { name: "a" } } operand', "a tensor or a tensor_index"),
        ("\noperand { n", "\n$operand { n", "unexpected character '$'"),
        ("shape { dim: 3 }", "shape { dim: 3 } shape_signature { dim: -1 dim: 3 }", "2 dimensions, the"),
        ("shape { dim: 3 }", "shape { dim: 3 } make_sparse: 7", "expected true or false, found '7'"),
        ("{ activation: RELU }", "{ " * 40 + "}" * 40, "expected a field"),
        ('"explicit" arg: "1" arg: "2"', '"file" arg: "w.npy"', "refers to a file, which is not allowed"),
        ('"explicit" arg: "1" arg: "2"', '"base64" arg: "AAAA"', "expected 12 bytes for f32[3], got 3"),
    ],
)  # fmt: skip
def test_mistakes(old: str, new: str, message: str | None) -> None:
    assert old in RECIPE
    text = RECIPE.replace(old, new, 1)
    if message is None:
        read_recipe(text, "r")
        return
    with pytest.raises(ParseError, match=r"^r:(\d+:\d+: .*)?" + re.escape(message)):
        read_recipe(text, "r")


def test_graphs_that_do_not_exist() -> None:
    text = RECIPE.replace('"Add"', '"While"').replace("add_options { activation: RELU }", "")
    with pytest.raises(ParseError, match="there is no graph 1, but 1 graphs"):
        read_recipe(text.replace('output: "y" ', 'output: "y" while_options { cond_subgraph_index: 1 }'), "r")


@pytest.mark.parametrize("name", ["../w.npy", "/etc/hostname", "..", "a/b.npy", ""])
def test_a_recipe_names_no_file_elsewhere(name: str, tmp_path: Path) -> None:
    text = RECIPE.replace('"explicit" arg: "1" arg: "2"', f'"file" arg: "{name}"')
    with pytest.raises(ParseError, match="a recipe can name files beside it"):
        read_recipe(text, "r", folder=tmp_path)
