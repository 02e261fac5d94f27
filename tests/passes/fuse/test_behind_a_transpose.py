# SPDX-License-Identifier: Apache-2.0
"""Layers next to a Transpose, as from PyTorch: constants, flattened images, pixel shuffle."""

from __future__ import annotations

import pytest

from tests.passes.kit import check_pass

FLAT, MUL, ADD = (
    "fuse_transpose_to_fullyconnected_weights",
    "fuse_mul_to_conv_weights",
    "fuse_add_to_conv_bias",
)


def layer(transpose: str, call: str, columns: int = 24, shape: str = "[2,3,4,2]") -> str:
    return f"""
        graph main(%x: f32{shape}) -> %y {{
          %w = const f32[5,{columns}] gaussian(0, 1)
          %t = Transpose(%x, {transpose})
          {call}
        }}
    """


@pytest.mark.parametrize(
    ("transpose", "call", "columns", "shape"),
    [
        ("[0, 3, 1, 2]", "%r = Reshape(%t, [2, 24])\n%y = FullyConnected(%r, %w)", 24, "[2,3,4,2]"),
        ("[0, 3, 1, 2]", "%r = Reshape(%t, [-1, 24])\n%y = FullyConnected(%r, %w)", 24, "[?,3,4,2]"),
        (
            "[0, 2, -1, 1]",
            "%r = Reshape(%t, [2, 24])\n%y = FullyConnected(%r, %w) {keep_num_dims: true}",
            24,
            "[2,3,4,2]",
        ),
        ("[0, 3, 2, 1]", "%y = FullyConnected(%t, %w) {act: RELU6}", 24, "[2,3,4,2]"),
        ("[0, 1, 3, 2]", "%y = FullyConnected(%t, %w)", 8, "[2,3,4,2]"),
        ("[0, 4, 1, 2, 3]", "%y = FullyConnected(%t, %w)", 24, "[1,2,3,2,2]"),
        ("[1, 0]", "%y = FullyConnected(%t, %w)", 24, "[4,6]"),
        ("[2, 0, 1]", "%r = Reshape(%t, [1, 24])\n%y = FullyConnected(%r, %w)", 24, "[2,4,3]"),
        ("[1, 2, 0, 3]", "%y = FullyConnected(%t, %w)", 24, "[1,3,4,2]"),
    ],
)
def test_columns_of_weights_are_permuted(transpose: str, call: str, columns: int, shape: str) -> None:
    check_pass(layer(transpose, call, columns, shape), FLAT, ["FullyConnected"])


@pytest.mark.parametrize(
    ("transpose", "keep", "columns", "shape", "result"),
    [
        ("[1, 0, 2, 3]", "false", 16, "[2,3,4,2]", "[3,2,4,2]"),
        ("[0, 3, 1, 2]", "false", 12, "[2,3,4,2]", "[2,2,3,4]"),
        ("[0, 1, 3, 2]", "true", 4, "[2,3,4,2]", "[2,3,2,4]"),
        ("[1, 0]", "false", 12, "[4,6]", "[6,4]"),  # two rows
        ("[1, 0]", "false", 18, "[?,6]", "[6,?]"),  # any number of rows
    ],
)
def test_transpose_across_rows_stays(
    transpose: str, keep: str, columns: int, shape: str, result: str
) -> None:
    text = layer(transpose, f"%y = FullyConnected(%t, %w) {{keep_num_dims: {keep}}}", columns, shape)
    sentence = (
        f"expected a perm within rows of {columns} elements, got {transpose} for the result f32{result}"
    )
    check_pass(text, FLAT, refused=sentence)


def test_layers_that_share_a_flattened_image() -> None:
    text = """
        graph main(%x: f32[2,3,4,2]) -> %y, %z {
          %w = const f32[5,24] gaussian(0, 1)
          %v = const f32[6,24] gaussian(0, 1)
          %t = Transpose(%x, [0, 3, 1, 2])
          %r = Reshape(%t, [2, 24])
          %y = FullyConnected(%r, %w)
          %z = FullyConnected(%r, %v, [1.0, 2, 3, 4, 5, 6])
        }
    """
    check_pass(text, FLAT, ["FullyConnected", "FullyConnected"])
    check_pass(
        text.replace("FullyConnected(%r, %v, [1.0, 2, 3, 4, 5, 6])", "Neg(%r)"), FLAT, refused="by Neg %z"
    )


def convolution(operator: str, constant: str, padding: str = "VALID", shape: str = "[1,3,6,6]") -> str:
    return f"""
        graph main(%x: f32{shape}) -> %y {{
          %c = const f32{constant} uniform(0.5, 2)
          %w = const f32[4,3,3,3] gaussian(0, 1)
          %a = {operator}(%x, %c)
          %t = Transpose(%a, [0, 2, 3, 1])
          %y = Conv2D(%t, %w, [1.0, 2, 3, 4]) {{padding: {padding}, stride_h: 2, act: RELU}}
        }}
    """


@pytest.mark.parametrize(("operator", "name"), [("Mul", MUL), ("Div", MUL), ("Add", ADD), ("Sub", ADD)])
@pytest.mark.parametrize("constant", ["[1,3,1,1]", "[3,1,1]", "[]", "[1]"])
@pytest.mark.parametrize("shape", ["[1,3,6,6]", "[?,3,6,6]"])
def test_constants_per_channel_are_fused(operator: str, name: str, constant: str, shape: str) -> None:
    check_pass(convolution(operator, constant, shape=shape), name, ["Transpose", "Conv2D"])


@pytest.mark.parametrize(
    ("operator", "constant", "padding", "shape", "sentence"),
    [
        ("Mul", "[6]", "VALID", "[1,3,6,6]", "%c: expected one number per channel"),
        ("Add", "[1,6,1]", "VALID", "[1,3,6,6]", "%c: expected one number per channel"),
        ("Sub", "[2,1,1,1]", "VALID", "[2,3,6,6]", "%c: expected one number per channel"),
        ("Mul", "[3,1,1]", "VALID", "[1,1,6,6]", "may change the shape ["),
        ("Add", "[3,1,1]", "SAME", "[1,3,6,6]", "got SAME"),
    ],
)
def test_convolution_near_misses(
    operator: str, constant: str, padding: str, shape: str, sentence: str
) -> None:
    name = MUL if operator == "Mul" else ADD
    check_pass(convolution(operator, constant, padding, shape), name, refused=sentence)


SHUFFLE = """
    graph main(%x: f32[{n},4,5,2]) -> %z {{
      %w = const f32[{filters},3,3,2] gaussian(0, 1)
      %b = const f32[{filters}] gaussian(0, 1)
      {call}
      %t = Transpose(%c, [0, 3, 1, 2])
      %r = Reshape(%t, {blocks})
      %u = Transpose(%r, [0, 1, 4, -4, 5, 3])
      %y = Reshape(%u, {shape})
      %z = Transpose(%y, [0, 2, 3, 1])
    }}
"""


@pytest.mark.parametrize(
    ("n", "filters", "blocks", "shape"),
    [
        ("1", 12, "[1, 3, 2, 2, 4, 5]", "[1, 3, 8, 10]"),
        ("2", 9, "[2, 1, 3, 3, 4, 5]", "[2, 1, 12, 15]"),
        ("?", 8, "[-1, 2, 2, 2, 4, 5]", "[-1, 2, 8, 10]"),
    ],
)
@pytest.mark.parametrize("call", ["%c = Conv2D(%x, %w) {act: RELU6}", "%c = Conv2D(%x, %w, %b)"])
def test_pixel_shuffle(n: str, filters: int, blocks: str, shape: str, call: str) -> None:
    text = SHUFFLE.format(n=n, filters=filters, blocks=blocks, shape=shape, call=call)
    names = ["fuse_pixel_shuffle", "remove_redundant_transpose"]
    check_pass(text, names, ["Conv2D", "DepthToSpace"])


@pytest.mark.parametrize(
    ("blocks", "shape", "sentence"),
    [
        (
            "[1, 2, 2, 3, 4, 5]",
            "[1, 2, 8, 15]",
            "%r: expected square blocks of each channel, got shape [1,2,2,3,4,5]",
        ),
        (
            "[1, 3, 2, 2, 5, 4]",
            "[1, 3, 10, 8]",
            "%r: expected square blocks of each channel, got shape [1,3,2,2,5,4]",
        ),
        (
            "[1, 12, 1, 1, 4, 5]",
            "[1, 12, 4, 5]",
            "%r: expected square blocks of each channel, got shape [1,12,1,1,4,5]",
        ),
        ("[1, 3, 2, 2, 4, 5]", "[1, 3, 10, 8]", "%y: expected shape [1,3,8,10], got [1,3,10,8]"),
    ],
)
def test_pixel_shuffle_near_misses(blocks: str, shape: str, sentence: str) -> None:
    call = "%c = Conv2D(%x, %w)"
    text = SHUFFLE.format(n="1", filters=12, blocks=blocks, shape=shape, call=call)
    check_pass(text, "fuse_pixel_shuffle", refused=sentence)
