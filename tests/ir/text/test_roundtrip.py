# SPDX-License-Identifier: Apache-2.0
"""Print then parse gives an equal model, for everything that a model can hold: ``reparsed`` checks it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import OpaqueOp
from circlekit.ir.text import parse_model, print_graph, print_model, print_op
from circlekit.ir.value import Array, Quantization, Value
from tests.ir.recipes import everything, graph_text, reparsed

EXAMPLES = settings(derandomize=True, max_examples=60, deadline=None)
TEXT = st.text(max_size=12)
FIELD = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def single(array: Array, quantization: Quantization | None = None) -> Model:
    """Return a model whose only output is a constant."""
    value = Value.constant("c", array, quantization)
    return Model([Graph("main", (), [value])])


def test_everything_comes_back() -> None:
    model = reparsed(everything())
    assert [g.name for g in model.graphs] == ["main", "a graph/with a name", "main"]
    assert model.version == 7
    assert model.metadata == [
        ("text", b"1.5.0\0\0"),
        ("bytes", b"\x00\x3f\x80"),
        ("text", b""),
    ]
    main = model.main
    assert main.inputs[0] is main.inputs[3]
    assert [v.name for v in main.outputs] == ["y", "strange name;", "x;"]
    by_name = {v.name: v for v in main.values()}
    assert by_name["state"].is_variable
    assert by_name["packed"].array().tolist() == [0x10, 0x23]
    assert by_name["nan"].array().tobytes() == np.array([np.nan, -np.inf, -0.0], "f4").tobytes()
    assert by_name["wide"].array().tolist() == [2**64 - 1]
    assert main.ops[0].extra["kept"] == [by_name["state"], None]
    opaque = main.ops[2]
    assert isinstance(opaque, OpaqueOp)
    assert (opaque.code, opaque.custom_code) == ("CUSTOM", "FlexErf")
    assert opaque.option_tree == {"": "Any", "deep": {"er": 1.5}}
    assert opaque.inputs[1] is None


@EXAMPLES
@given(st.lists(TEXT, min_size=1, max_size=4), TEXT)
def test_any_names(names: list[str], graph: str) -> None:
    values = [Value(name, DType.FLOAT32, (1,)) for name in names]
    model = Model([Graph(graph, values, values[:1]), Graph(graph), Graph(graph + "_1")])
    other = reparsed(model)
    assert [v.name for v in other.main.inputs] == names
    assert [g.name for g in other.graphs] == [graph, graph, graph + "_1"]


@EXAMPLES
@given(st.sampled_from(["f2", "f4", "f8"]), st.binary(min_size=8, max_size=128))
def test_any_float_bits(dtype: str, data: bytes) -> None:
    reparsed(single(np.frombuffer(data[: len(data) // 8 * 8], dtype)))


TWICE_ROUNDED = np.array([0x15AE43FD], np.uint32).view(np.float32).item()
"""A float32 with the shortest decimal 7.038531e-26.

If this decimal is rounded to float64 first, rounding to float32 gives the next larger float32.
"""


@EXAMPLES
@given(st.floats(width=32))
@example(TWICE_ROUNDED)
def test_any_float_attribute(alpha: float) -> None:
    model = parse_model(graph_text("%y = LeakyRelu(%x) {alpha: 0.5}"))
    before: Any = model.main.ops[0]
    before.alpha = alpha
    after: Any = reparsed(model).main.ops[0]
    assert np.float32(after.alpha).tobytes() == np.float32(alpha).tobytes() or np.isnan(alpha)


@EXAMPLES
@given(
    st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]), st.binary(min_size=8, max_size=64)
)
def test_any_integers(dtype: str, data: bytes) -> None:
    data = bytes(b & 1 for b in data) if dtype == "?" else data
    reparsed(single(np.frombuffer(data[: len(data) // 8 * 8], dtype)))


@EXAMPLES
@given(st.lists(st.integers(0, 3), max_size=4))
def test_any_shape(dims: list[int]) -> None:
    reparsed(single(np.arange(np.prod(dims, dtype=int), dtype=np.int16).reshape(dims)))


@EXAMPLES
@given(TREES)
@example({"inf": None, "nan": {"-inf": 1}})
def test_any_plain_data(data: Any) -> None:
    model = single(np.zeros(1, np.float32))
    model.extra["data"] = data
    model.main.extra["data"] = data
    model.main.outputs[0].extra["data"] = data
    other = reparsed(model)
    assert repr(other.main.outputs[0].extra["data"]) == repr(data)


@EXAMPLES
@given(st.dictionaries(FIELD, TREES, max_size=3), TEXT, st.none() | TEXT)
def test_any_opaque_operator(tree: dict[str, Any], code: str, custom: str | None) -> None:
    x = Value("x", DType.FLOAT32, None)
    op = OpaqueOp(
        x, None, code=code, results=[Value("y", DType.STRING, ())], custom_code=custom, option_tree=tree
    )
    graph = Graph("main", [x])
    graph.append(op)
    graph.outputs = op.results
    reparsed(Model([graph]))


@EXAMPLES
@given(
    st.lists(st.floats(width=32), max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    st.integers(0, 5) | st.sampled_from([-(2**31), 2**31 - 1]),
    st.none() | st.lists(st.floats(width=32), max_size=2),
)
def test_any_quantization(scale: list[float], zero: list[int], axis: int, least: list[float] | None) -> None:
    bound = None if least is None else np.array(least, np.float32)
    quantization = Quantization(np.array(scale, np.float32), np.array(zero, np.int64), axis, bound)
    reparsed(single(np.zeros(3, np.int8), quantization))


@EXAMPLES
@given(st.binary(max_size=24))
def test_any_metadata(data: bytes) -> None:
    model = single(np.zeros(1, np.float32))
    model.metadata = [("a", data), ("a", b"")]
    reparsed(model)


def test_a_nan_with_a_payload_keeps_its_bits() -> None:
    bits = np.array([0x7FC00001, 0xFFC00000], np.uint32)
    other = reparsed(single(bits.view(np.float32)))
    assert other.main.outputs[0].array().view(np.uint32).tolist() == bits.tolist()


def test_shortest_decimals() -> None:
    text = print_model(single(np.array([0.1, 1e-45, 16777216.0, -0.0, 3.4028235e38], np.float32)))
    assert "[0.1, 1e-45, 16777216.0, -0.0, 3.4028235e+38]" in text


def test_a_printed_operator_shows_small_constants() -> None:
    model = parse_model(graph_text("%1 = Mul(%x, [2.0, 0.5, 1.0, 1.0])", "%y = Add(%1, [[1.0],[2.0]])"))
    assert print_op(model.main.ops[0]) == "%1 = Mul(%x, [2.0, 0.5, 1.0, 1.0]) : f32[1,4]"
    assert print_op(model.main.ops[1]) == "%y = Add(%1, [[1.0], [2.0]]) : f32[2,4]"


def test_a_printed_operator_names_constants_of_more_than_eight_elements() -> None:
    eight, nine = "[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2, 3, 4, 5, 6, 7, 8, 9]"
    model = parse_model(
        f"graph main(%x: i32[1]) -> %z {{\n  %w = const i32[9] {nine}\n"
        f"  %y = Mul(%x, {eight}) : i32[8]\n  %z = Add(%x, %w) : i32[9]\n}}\n"
    )
    assert print_op(model.main.ops[0]) == f"%y = Mul(%x, {eight}) : i32[8]"
    assert print_op(model.main.ops[1]) == "%z = Add(%x, %w) : i32[9]"


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(9, np.float32), "f32[9] zeros"),
        (np.zeros(9, np.bool_), "bool[9] zeros"),
        (np.zeros(8, np.float32), "f32[8] [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]"),
        (np.full(9, -0.0, np.float32), "f32[9] [-0.0, -0.0, -0.0, -0.0, -0.0, -0.0, -0.0, -0.0, -0.0]"),
        (np.arange(9, dtype=np.int8), "i8[9] [0, 1, 2, 3, 4, 5, 6, 7, 8]"),
    ],
)
def test_more_than_eight_zeros_are_one_word(array: Array, text: str) -> None:
    assert f"%c = const {text}\n" in print_model(single(array))


def test_a_graph_alone_is_a_model() -> None:
    model = everything()
    assert parse_model(print_graph(model.graphs[1])).main.name == "a graph/with a name"


def test_attributes_with_defaults_are_left_out() -> None:
    model = parse_model(graph_text("%y = Add(%x, %x) {act: NONE}"))
    assert "act" not in print_model(model)


def test_labels_of_values_and_graphs_with_one_name() -> None:
    values = [Value(name, DType.FLOAT32, ()) for name in ("x", "x", "", "x_1", "x", "")]
    model = Model([Graph("g", values, values[:1]), Graph("g"), Graph("g")])
    text = print_model(model)
    header = next(line for line in text.splitlines() if line.startswith("graph"))
    assert re.findall(r"%(\w+):", header) == ["x", "x_2", "value", "x_1", "x_3", "value_1"]
    assert [line for line in text.splitlines() if line.startswith("graph")][1:] == [
        'graph g_1() named("g") {', 'graph g_2() named("g") {',
    ]  # fmt: skip
