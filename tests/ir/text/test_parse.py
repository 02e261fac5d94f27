# SPDX-License-Identifier: Apache-2.0
"""What texts mean: literals and their dtypes, inferred types, fillers, references, graphs of operators."""

from __future__ import annotations

import time

import numpy as np
import pytest

from circlekit.errors import ParseError, ShapeError
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import MAX_RANK, Value
from tests.ir.recipes import graph_text


def constant(text: str) -> Value:
    """The constant that ``const TEXT`` describes."""
    return parse_model(f"graph main() -> %c {{\n%c = const {text}\n}}").main.outputs[0]


def operand(statement: str, inputs: str, index: int = 1) -> Value:
    model = parse_model(graph_text(statement, inputs=inputs))
    value = model.main.ops[0].inputs[index]
    assert value is not None
    return value


def test_literals_attributes_and_types_of_a_small_model() -> None:
    model = parse_model(
        graph_text(
            "%w = const f32[3,3,3,1] gaussian(0, 0.1)",
            "%1 = TransposeConv([1,4,4,3], %w, %x) {padding: VALID, stride_h: 1, stride_w: 1} : f32[1,4,4,3]",
            "%2 = Mul(%1, [2.0, 1.5, 0.5])  # scale",
            "%y = Add(%2, [-2.0, 0.1, 0.0]) {act: RELU6}",
            inputs="%x: f32[1,2,2,1]",
        )
    )
    tconv, mul, _ = model.main.ops
    assert tconv.attribute_values["padding"] is Padding.VALID
    assert (mul.output.dtype, mul.output.shape) == (DType.FLOAT32, (1, 4, 4, 3))
    assert tconv.inputs[0] is not None
    assert tconv.inputs[0].array().dtype == np.int32
    assert model.main.outputs[0].name == "y"
    assert (model.format, model.source) == ("circle", "text")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f32[2,2] [1, 2, 3, 4]", np.array([[1, 2], [3, 4]], "f4")),
        ("f32[2,2] [[1, 2], [3, 4]]", np.array([[1, 2], [3, 4]], "f4")),
        ("f32[] 0.1", np.array(0.1, "f4")),
        ("f32[1,1] 2", np.array([[2]], "f4")),
        ("i8 -3", np.array(-3, "i1")),
        ("_ true", np.array(True)),
        ("i64[3] arange(2, 3)", np.array([2, 5, 8], "i8")),
        ("u8[2] constant(300)", np.array([255, 255], "u1")),
        ("f64[2] ones", np.ones(2)),
        ("i32[0,3] []", np.zeros((0, 3), "i4")),
        ('f32[1] base64("AACAPw==")', np.ones(1, "f4")),
        ("i16[2] [0x7fff, -0x8000]", np.array([32767, -32768], "i2")),
        ("bool[2] [true, false]", np.array([True, False])),
    ],
)
def test_constants(text: str, wanted: np.ndarray) -> None:
    array = constant(text).array()
    assert array.dtype == wanted.dtype
    assert array.shape == wanted.shape
    assert array.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("statement", "inputs", "index", "dtype"),
    [
        ("%y = Add(%x, 1)", "%x: f32[2]", 1, "f32"),
        ("%y = Add(%x, 1)", "%x: i64[2]", 1, "i64"),
        ("%y = Add(1, %x)", "%x: i64[2]", 0, "i64"),
        ("%y = Add(%x, 1.5)", "%x: f32[2]", 1, "f32"),
        ("%y = Reshape(%x, [2,1])", "%x: f32[2]", 1, "i32"),
        ("%y = LogicalAnd(%x, true)", "%x: bool[2]", 1, "bool"),
        ('%y = Opaque(%x, [1, 2.5]) {code: "CUSTOM"} : f32[1]', "%x: bool[2]", 1, "f32"),
        ('%y = Opaque(%x, 1) {code: "CUSTOM"} : f32[1]', "%x: bool[2]", 1, "i32"),
    ],
)
def test_literals_take_the_dtype_that_the_operator_wants(
    statement: str, inputs: str, index: int, dtype: str
) -> None:
    assert operand(statement, inputs, index).dtype.short == dtype


@pytest.mark.parametrize("name", ["true", "false", "none", "const", "inf"])
def test_values_may_have_the_names_of_keywords(name: str) -> None:
    model = parse_model(graph_text(f"%{name} = Relu(%x)", f"%y = Neg(%{name})"))
    assert difference(model, parse_model(print_model(model))) is None
    assert operand(f"%y = Neg(%{name})", f"%{name}: f32[2]", 0).name == name


def test_names_of_literals_differ_from_all_other_names() -> None:
    model = parse_model(graph_text("%a = Add(%x, 1.0)", "%a/rhs = Add(%a, 2.0)", "%y = Add(%a/rhs, 3.0)"))
    names = [v.name for v in model.main.values()]
    assert len(set(names)) == len(names)
    assert {"a/rhs_1", "a/rhs/rhs", "y/rhs"} <= set(names)


def test_names_of_literals_differ_from_names_that_only_the_model_has() -> None:
    (op,) = parse_model('graph main(%x: f32[2] named("y/rhs")) -> %y { %y = Add(%x, 1.0) }').main.ops
    assert [value.name for value in op.inputs if value is not None] == ["y/rhs", "y/rhs_1"]


def test_a_partial_type_is_completed() -> None:
    model = parse_model(graph_text("%y = Relu(%x) : _[?,4] quant(scale: 0.5)"))
    result = model.main.outputs[0]
    assert (result.dtype, result.shape) == (DType.FLOAT32, (None, 4))
    assert result.quantization is not None
    assert result.quantization.zero_point.tolist() == [0]


def test_a_filler_has_the_same_bytes_whatever_the_file_is_called() -> None:
    text = graph_text("%w = const f32[4] gaussian(0, 1)", "%y = Add(%x, %w)")
    one, two = parse_model(text, "a.ck"), parse_model(text, "/tmp/b.ck")
    assert difference(one, two) is None


def test_fillers_differ_by_graph_and_name_and_seed() -> None:
    texts = [
        "graph {} () -> %w {{\n%w = const f32[4] gaussian()\n}}".format("a"),
        "graph {} () -> %w {{\n%w = const f32[4] gaussian()\n}}".format("b"),
        "graph a() -> %v {\n%v = const f32[4] gaussian()\n}",
        "graph a() -> %v {\n%v = const f32[4] gaussian(seed: 1)\n}",
        "graph a() -> %v {\n%v = const f32[4] gaussian(seed: 2)\n}",
    ]
    assert len({parse_model(t).main.outputs[0].array().tobytes() for t in texts}) == len(texts)


def test_graphs_of_operators_may_come_later() -> None:
    model = parse_model(
        graph_text("%y = While(%x) {cond: @cond, body: @body}", inputs="%x: f32[]")
        + "graph cond(%x: f32[]) -> %go {\n%go = Less(%x, 3.0)\n}\n"
        + "graph body(%x: f32[]) -> %more {\n%more = Add(%x, 1.0)\n}\n"
    )
    loop = model.main.ops[0]
    assert loop.called_graphs() == model.graphs[1:]
    assert loop.output.shape == ()


def test_a_file_is_read_by_the_function_of_the_caller() -> None:
    asked = []

    def resolve(path: str, offset: int, size: int) -> bytes:
        asked.append((path, offset, size))
        return np.array([1.5, 2.5], "f4").tobytes()

    text = 'graph main() -> %c {\n%c = const f32[2] file("../net", 16, 8)\n}'
    model = parse_model(text, resolve=resolve)
    assert asked == [("../net", 16, 8)]
    assert model.main.outputs[0].array().tolist() == [1.5, 2.5]


def test_a_constant_may_be_the_start_of_a_file_and_may_have_no_bytes() -> None:
    def resolve(path: str, offset: int, size: int) -> bytes:
        return np.array([1.5, 2.5], "f4").tobytes()[offset : offset + size]

    constants = '%c = const f32[1] file("net", 0, 4)\n%n = const f32[0] file("net", 8, 0)'
    text = f"graph main() -> %c, %n {{\n{constants}\n}}"
    first, empty = parse_model(text, resolve=resolve).main.outputs
    assert first.array().tolist() == [1.5]
    assert empty.array().tolist() == []


def test_an_unused_constant_is_no_part_of_the_graph() -> None:
    model = parse_model(graph_text("%c = const f32[1] zeros", "%y = Relu(%x)"))
    assert [v.name for v in model.main.values()] == ["x", "y"]


def test_a_shape_error_shows_the_line() -> None:
    with pytest.raises(ShapeError) as caught:
        parse_model(graph_text("%y = Add(%x, [1.0, 2.0, 3.0])"), "net.ck")
    message = str(caught.value)
    assert message.startswith("net.ck:2:8: ")
    assert "%y = Add(%x, [1.0, 2.0, 3.0])\n         ^" in message


def test_signatures_name_values_of_their_graph() -> None:
    model = parse_model('signature "s" @main (a: %x) -> (%y)\n' + graph_text("%y = Relu(%x)"))
    signature = model.signatures[0]
    assert signature.inputs == {"a": model.main.inputs[0]}
    assert signature.outputs == {"y": model.main.outputs[0]}


def test_a_text_without_a_header_is_a_circle_model() -> None:
    model = parse_model(graph_text("%y = Relu(%x)"))
    assert (model.format, model.version) == (Model([]).format, Model([]).version)


def test_an_integer_literal_for_a_called_graph_is_i32() -> None:
    text = (
        graph_text("%n, %y = While(0, %x) {cond: @c, body: @b}")
        + "graph c(%i: i32[], %x: f32[1,4]) -> %go {\n%go = Less(%i, 3)\n}\n"
        + "graph b(%i: i32[], %x: f32[1,4]) -> %i, %x {\n}\n"
    )
    first = parse_model(text).main.ops[0].inputs[0]
    assert first is not None
    assert first.dtype is DType.INT32


def test_details_of_a_quantization_name_values_of_the_graph() -> None:
    """Here the value is defined after its mention."""
    details = '{"": "Blockwise", scales: %s, none: none, list: [1]}'
    text = f"graph g() -> %w {{\n%w = const i8[1] quant(details: {details}) [1]\n%s = const f32[1] [0.5]\n}}"
    weights = parse_model(text).main.outputs[0]
    assert weights.quantization is not None
    scales = weights.scale_values
    assert [v.name for v in scales] == ["s"]
    found = {"": "Blockwise", "scales": scales[0], "none": None, "list": [1]}
    assert weights.quantization.details == found


def test_the_largest_rank() -> None:
    """An array of numpy 1 has at most MAX_RANK dimensions."""
    text = "graph main(%x: f32[{}]) -> %x {{ }}"
    assert parse_model(text.format(",".join("1" * MAX_RANK))).main.inputs[0].rank == MAX_RANK
    with pytest.raises(ParseError, match=f"expected at most {MAX_RANK} dimensions, got {MAX_RANK + 1}"):
        parse_model(text.format(",".join("1" * (MAX_RANK + 1))))


def test_many_literals_are_parsed_in_linear_time() -> None:
    """With quadratic time, 20,000 literals took about 40 seconds."""
    count, start = 20_000, time.process_time()
    model = parse_model(graph_text(f"%y = Concatenation({', '.join(['[1.0]'] * count)})"))
    names = {v.name for v in model.main.ops[0].inputs if v is not None}
    assert time.process_time() - start < 10
    assert {"y/values", f"y/values_{count - 1}"} <= names
    assert len(names) == count
