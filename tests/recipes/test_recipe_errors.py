# SPDX-License-Identifier: Apache-2.0
"""Error messages for mistakes in ``test.recipe``: position, found text, and suggestion."""

from __future__ import annotations

import contextlib
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
        ('"Add"', '""', "5:19: no operator is named ''"),
        ("add_options", "mul_option", "5:59: Operation has no field mul_option; did you mean mul_options?"),
        ("activation: RELU", "activatio: RELU", "Options has no field activatio; did you mean activation?"),
        ("activation: RELU", "activation: RELUU", "5:85: ActivationFunctionType has no value RELUU; did"),
        ('"explicit"', '"explict"', "3:66: no filler is named explict; did you mean explicit?"),
        ('"explicit"', '"constant"', None),
        ('arg: "2"', 'arg: "2" arg: "3" arg: "4"', "expected at most 3 elements, as the shape has, got 4"),
        ('arg: "2"', 'arg: "two"', "expected a number, got 'two'"),
        ('input: "w"', 'input: "v"', "5:43: no operand is named v"),
        ('output: "y" a', 'output: "" a', "expected the name of an operand, got an empty one"),
        ('output: "y" a', 'output: "y" output: "y" a', "y is a result twice, here and earlier"),
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
        ("\noperand", "\nsignature_def { subgraph_index: 1 } operand", "the index of a graph, 0 to 0, got 1"),
        ("\noperand", '\nsignature_def { inputs { name: "a" } } operand', "a tensor or a tensor_index"),
        ("\noperand { n", "\n$operand { n", "unexpected character '$'"),
        ("shape { dim: 3 }", "shape { dim: 3 } shape_signature { dim: -1 dim: 3 }", "expected 1 dimension"),
        ("shape { dim: 3 }", "shape { dim: 3 } make_sparse: 7", '3:65: expected "true" or "false"'),
        ('"explicit" arg: "1" arg: "2"', '"file" arg: "w.npy"', "without references to files"),
        ('"explicit" arg: "1" arg: "2"', '"base64" arg: "AAAA"', "expected 12 bytes for f32[3], got 3"),
    ],
)  # fmt: skip
def test_mistake_is_reported_with_its_position(old: str, new: str, message: str | None) -> None:
    """``message``: None if the changed recipe is valid, too."""
    assert old in RECIPE
    text = RECIPE.replace(old, new, 1)
    if message is None:
        read_recipe(text, "r")
        return
    with pytest.raises(ParseError, match=r"^r:(\d+:\d+: .*)?" + re.escape(message)):
        read_recipe(text, "r")


def test_missing_graphs_are_reported() -> None:
    text = RECIPE.replace('"Add"', '"While"').replace("add_options { activation: RELU }", "")
    for index in (1, -1):
        options = f"while_options {{ cond_subgraph_index: {index} }}"
        with pytest.raises(ParseError, match=f"r:5:.*expected the index of a graph, 0 to 0, got {index}"):
            read_recipe(text.replace('output: "y" ', f'output: "y" {options}'), "r")


@pytest.mark.parametrize("name", ["../w.npy", "/etc/hostname", "..", "a/b.npy", ""])
def test_recipe_can_only_name_a_file_beside_it(name: str, tmp_path: Path) -> None:
    text = RECIPE.replace('"explicit" arg: "1" arg: "2"', f'"file" arg: "{name}"')
    with pytest.raises(ParseError, match="expected the name of a file beside the recipe"):
        read_recipe(text, "r", folder=tmp_path)


ANY_OPERAND = 'operand { name: "c" type: %s %s filler { %s } }\n'


@pytest.mark.parametrize(
    ("dtype", "shape", "filler", "message"),
    [
        ("FLOAT32", "", 'tag: "explicit" arg: "1"', None),
        ("FLOAT32", "shape_signature { }", 'tag: "explicit"', None),
        ("FLOAT32", "shape { dim: 2 }", 'arg: "1"', "expected a tag in the filler"),
        ("FLOAT32", "shape { dim: 2 } make_sparse: true", 'tag: "explicit"', None),
        ("FLOAT16", "shape { dim: 2 } make_sparse: true", 'tag: "explicit"', None),
        ("INT32", "shape { dim: 2 } make_sparse: true", 'tag: "explicit"', "rank 1 or more, got INT32[2]"),
        ("FLOAT32", "shape { } make_sparse: true", 'tag: "explicit"', "rank 1 or more, got FLOAT32[]"),
        ("FLOAT32", "make_sparse: true", 'tag: "explicit"', "rank 1 or more, got FLOAT32 without a shape"),
        ("FLOAT32", "shape { dim: 2 } make_sparse: true", 'tag: "base64"', "expected 8 bytes for [2], got 0"),
        ("FLOAT32", "shape { } make_sparse: true sparsity { }", 'tag: "explicit"', "without sparsity"),
    ],
)  # fmt: skip
def test_constants_need_a_tag_and_sparse_ones_a_shape_and_all_elements(
    dtype: str, shape: str, filler: str, message: str | None
) -> None:
    text = RECIPE + ANY_OPERAND % (dtype, shape, filler)
    if message is None:
        read_recipe(text, "r")
        return
    with pytest.raises(ParseError, match=r"^r:8:\d+: " + ".*" + re.escape(message)):
        read_recipe(text, "r")


SPARSE = """
operand { name: "c" type: FLOAT32 shape { dim: 2 dim: 3 } filler { tag: "explicit" arg: "1" arg: "2" }
sparsity { traversal_order { dim: 0 dim: 1 } dim_metadata { dense_size: 2 }
dim_metadata { format: SPARSE_CSR array_segments { dim: 0 dim: 1 dim: 2 type: UINT8VEC }
array_indices { dim: 2 dim: %d type: %s } } } }
"""


@pytest.mark.parametrize(
    ("index", "type_", "most"),
    [
        (-1, "UINT8VEC", 255), (256, "UINT8VEC", 255), (65536, "UINT16VEC", 65535),
        (-1, "INT32VEC", 2**31 - 1),
    ],
)  # fmt: skip
def test_indices_of_sparse_constants_are_in_the_range_of_their_type(
    index: int, type_: str, most: int
) -> None:
    for good in (0, 1, most):
        read_recipe(RECIPE + SPARSE % (good, type_), "r")
    message = f"r:12:1: expected indices from 0 to {most}, got [2, {index}]"
    with pytest.raises(ParseError, match="^" + re.escape(message)):
        read_recipe(RECIPE + SPARSE % (index, type_), "r")


def test_ports_of_signatures_name_a_tensor_of_their_graph() -> None:
    port = (
        'signature_def { signature_key: "s" inputs { name: "a" tensor_index: %d } outputs { name: "b" %s } }'
    )
    model = read_recipe(RECIPE + port % (0, 'tensor: "y"'), "r")
    assert [v.name for v in model.signatures[0].outputs.values()] == ["y"]
    message = "r:8:69: expected the index of an operand, 0 to 2, got 3"
    with pytest.raises(ParseError, match="^" + re.escape(message)):
        read_recipe(RECIPE + port % (3, "tensor_index: 2"), "r")
    with pytest.raises(ParseError, match="expected the index of an operand, but the graph has none, got 0"):
        read_recipe(port % (0, "tensor_index: 0"), "r")


def test_dimensions_end_at_31_bits() -> None:
    for size, fits in ((2**31 - 1, True), (2**31, False)):
        text = RECIPE + f'operand {{ name: "c" type: FLOAT32 shape {{ dim: {size} }} }}'
        with contextlib.nullcontext() if fits else pytest.raises(ParseError, match=f"got {size}"):
            read_recipe(text, "r")
