# SPDX-License-Identifier: Apache-2.0
"""Every structural rule: a change that makes a model break it, and the finding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ir.verifier import check, check_order, verify
from tests.ir.recipes import graph_text

TEXT = (
    'signature "s" @main (a: %x) -> (b: %y)\n'
    + graph_text(
        "%w = const f32[4] [1.0, 2.0, 3.0, 4.0]",
        "%1 = Add(%x, %w)",
        "%2 = Reshape(%1, [1,4])",
        "%y = While(%2) {cond: @cond, body: @body}",
    )
    + "graph cond(%x: f32[1,4]) -> %go {\n%go = const bool[] false\n}\n"
    + "graph body(%x: f32[1,4]) -> %z {\n%z = Relu(%x)\n}\n"
)


def model() -> Model:
    return parse_model(TEXT)


def named(m: Model, name: str) -> Value:
    return next(v for v in m.main.values() if v.name == name)


def quantize(m: Model, scales: int, zeros: int, axis: int = 0) -> None:
    scale, zero = np.ones(scales, np.float32), np.zeros(zeros, np.int64)
    named(m, "w").quantization = Quantization(scale, zero, axis)


def store(m: Model, data: Array, extra: dict[str, object]) -> None:
    named(m, "w").data = data
    named(m, "w").extra = extra


def swap_order(m: Model) -> None:
    first = m.main.ops[0]
    m.main.unlink(first)
    m.main.insert_after(m.main.ops[0], first)


def duplicate_result(m: Model) -> None:
    m.main.ops[1].results[0] = m.main.ops[0].results[0]


def forget_use(m: Model) -> None:
    del named(m, "w")._uses[m.main.ops[0], 1]


def false_use(m: Model) -> None:
    named(m, "w")._uses[m.main.ops[1], 0] = None


def detached_reader(m: Model) -> None:
    type(m.graphs[2].ops[0])(named(m, "1"))


def other_graphs_value(m: Model) -> None:
    m.graphs[2].ops[0].set_input(0, m.main.inputs[0])


def break_link(m: Model) -> None:
    m.main.ops[1].previous = None


def ring(m: Model) -> None:
    m.main.ops[1].next = m.main.ops[0]


def call_itself(m: Model) -> None:
    m.main.ops[2].attribute_values["body"] = m.main


def strange_graph(m: Model) -> None:
    m.main.ops[2].attribute_values["body"] = Graph("far")


def set_attribute(value: object) -> Callable[[Model], None]:
    return lambda m: m.main.ops[0].attribute_values.update(act=value)


CASES: dict[str, tuple[Callable[[Model], object], str]] = {
    "no graph": (lambda m: m.graphs.clear(), "model: it has no graph"),
    "graph twice": (lambda m: m.graphs.append(m.main), "model: a graph is listed twice"),
    "links": (break_link, "graph main: its list of operators is broken"),
    "ring": (ring, "graph main: its list of operators is broken"),
    "nameless input": (lambda m: setattr(named(m, "x"), "name", ""), "graph main: input 0 has no name"),
    "nameless output": (lambda m: setattr(named(m, "y"), "name", ""), "graph main: output 0 has no name"),
    "names": (
        lambda m: setattr(named(m, "y"), "name", "x"),
        "graph main: two different inputs or outputs are named %x",
    ),
    "input twice": (
        lambda m: setattr(m.main, "inputs", [named(m, "x")] * 2),
        "graph main: %x is listed 2 times as input",
    ),
    "constant input": (
        lambda m: setattr(named(m, "x"), "data", np.zeros((1, 4), np.float32)),
        "graph main: input %x is a constant",
    ),
    "computed input": (
        lambda m: setattr(m.main, "inputs", [named(m, "x"), named(m, "1")]),
        "graph main: input %1 is the result of an operator",
    ),
    "another graph's value": (other_graphs_value, "graph body: %x is a value of graph main"),
    "use not listed": (forget_use, "graph main > op 0 Add: %w does not list this use"),
    "false use": (
        false_use,
        "graph main > %w: it lists a use by <Reshape %2: f32[1,4]>, which does not use it",
    ),
    "detached": (detached_reader, "graph main > %1: it is used by <Relu %: f32[1,4]>, which is in no graph"),
    "owner": (
        lambda m: setattr(m.main.ops[0], "graph", None),
        "graph main > op 0 Add: its graph is not set to this one",
    ),
    "order": (swap_order, "graph main > op 0 Reshape: %1 is used before operator 1 produces it"),
    "cycle": (
        lambda m: m.main.ops[0].set_input(1, named(m, "2")),
        "graph main > op 0 Add: %2 is used before operator 1 produces it",
    ),
    "no producer": (
        lambda m: m.main.ops[0].set_input(1, Value("v", DType.FLOAT32, (4,))),
        "graph main > op 0 Add: nothing produces %v",
    ),
    "far producer": (
        lambda m: m.main.ops[0].set_input(1, m.graphs[2].outputs[0]),
        "graph main > op 0 Add: %z is the result of an operator that is not in this graph",
    ),
    "no output": (
        lambda m: setattr(m.main, "outputs", [named(m, "y"), Value("v", DType.FLOAT32, (4,))]),
        "graph main > outputs: nothing produces %v",
    ),
    "producer": (
        lambda m: setattr(named(m, "1"), "producer", m.main.ops[1]),
        "graph main > op 0 Add: result 0 %1 names another producer or index",
    ),
    "result index": (
        lambda m: setattr(named(m, "1"), "result_index", 1),
        "graph main > op 0 Add: result 0 %1 names another producer or index",
    ),
    "result twice": (
        duplicate_result,
        "graph main > op 1 Reshape: result 0 %1 names another producer or index",
    ),
    "constant result": (
        lambda m: setattr(named(m, "1"), "data", np.zeros((1, 4), np.float32)),
        "graph main > op 0 Add: its result %1 is a constant",
    ),
    "operand": (
        lambda m: m.main.ops[0].set_input(0, None),
        "graph main > op 0 Add: the operand lhs is missing",
    ),
    "operands": (
        lambda m: m.main.ops[0].set_input(2, named(m, "w")),
        "graph main > op 0 Add: expected at most 2 operands (lhs, rhs), got 3",
    ),
    "variadic": (
        lambda m: m.main.ops[2].set_input(1, None),
        "graph main > op 2 While: element 1 of the operand input is absent",
    ),
    "operand dtype": (
        lambda m: m.main.ops[1].set_input(1, named(m, "w")),
        "graph main > op 1 Reshape: shape %w is f32, expected i32",
    ),
    "results": (
        lambda m: m.main.ops[0].add_result(Value("r", DType.FLOAT32, ())),
        "graph main > op 0 Add: expected 1 result (output), got 2",
    ),
    "enum": (set_attribute("RELU"), "graph main > op 0 Add: act is 'RELU', expected a member of Activation"),
    "attribute of None": (
        set_attribute(None),
        "graph main > op 0 Add: act is None, expected a member of Activation",
    ),
    "graph attribute": (
        strange_graph,
        "graph main > op 2 While: body is far, which is not a graph of the model",
    ),
    "recursion": (
        call_itself,
        "graph main: it calls graph main, which calls it back, directly or through others",
    ),
    "negative": (
        lambda m: setattr(named(m, "1"), "shape", (-1, 4)),
        "graph main > %1: its shape is [-1,4], expected dimensions from 0 to 2147483647",
    ),
    "large dimension": (
        lambda m: setattr(named(m, "1"), "shape", (1, 2**31)),
        "graph main > %1: its shape is [1,2147483648], expected dimensions from 0",
    ),
    "data dtype": (
        lambda m: setattr(named(m, "w"), "data", np.zeros(4, np.int32)),
        "graph main > %w: it is f32, its data is int32",
    ),
    "data shape": (
        lambda m: setattr(named(m, "w"), "data", np.zeros((1, 4), np.float32)),
        "graph main > %w: it has shape [4], its data has [1, 4]",
    ),
    "packed data": (
        lambda m: setattr(named(m, "w"), "dtype", DType.INT4),
        "graph main > %w: its data is float32[4], expected bytes (uint8, rank 1)",
    ),
    "compressed by nothing": (
        lambda m: store(m, np.zeros(4, np.uint8), {"compression_type": "NONE"}),
        "graph main > %w: it is f32, its data is uint8",
    ),
    "compressed, of another type": (
        lambda m: store(m, np.zeros(4, np.int32), {"compression_type": "HUFFMAN"}),
        "graph main > %w: it is f32, its data is int32",
    ),
    "variable": (
        lambda m: setattr(named(m, "w"), "is_variable", True),
        "graph main > %w: it is a variable and a constant",
    ),
    "scales": (lambda m: quantize(m, 3, 3), "graph main > %w: its quantization has 3 scales, axis 0 has 4"),
    "zero points": (lambda m: quantize(m, 4, 3), "its quantization has 4 scales and 3 zero points"),
    "axis": (lambda m: quantize(m, 4, 4, 1), "it is quantized along axis 1, its shape is [4]"),
    "signature input": (
        lambda m: m.signatures[0].inputs.update(c=named(m, "y")),
        "signature s > c: %y is not an input of graph main",
    ),
    "signature output": (
        lambda m: m.signatures[0].outputs.update(c=named(m, "x")),
        "signature s > c: %x is not an output of graph main",
    ),
    "signature graph": (
        lambda m: setattr(m.signatures[0], "graph", Graph("far")),
        "signature s: its graph far is not in the model",
    ),
}


@pytest.mark.parametrize(("damage", "finding"), CASES.values(), ids=CASES)
def test_every_rule(damage: Callable[[Model], object], finding: str) -> None:
    broken = model()
    assert verify(broken) == []
    damage(broken)
    found = [str(f) for f in verify(broken)]
    assert any(finding in f for f in found), found
    with pytest.raises(ModelError, match="the model has "):
        check(broken)


@pytest.mark.parametrize("operand", ["1", "2"])
def test_check_order_finds_a_cycle_and_no_other_fault(operand: str) -> None:
    damaged = model()
    damaged.main.inputs = []
    check_order(damaged)
    damaged.main.ops[0].set_input(1, named(damaged, operand))
    with pytest.raises(ModelError, match=f"main > op 0 Add: %{operand} is used before operator"):
        check_order(damaged)


def test_all_findings_are_told() -> None:
    broken = model()
    named(broken, "w").dtype = DType.INT8
    broken.main.ops[0].attribute_values["act"] = 3
    with pytest.raises(ModelError) as caught:
        check(broken)
    lines = str(caught.value).split("\n")
    assert lines[0] == f"the model has {len(lines) - 1} faults"
    assert len(lines) >= 3


def test_a_graph_without_a_name_is_shown_as_such() -> None:
    m = model()
    m.main.name = ""
    m.main.outputs = [Value("q", DType.FLOAT32, (1,))]
    assert next((item.place, item.message) for item in verify(m)) == (
        "graph '' > outputs",
        "nothing produces %q",
    )


def test_values_that_need_no_producer() -> None:
    """Constants, variables and inputs need no producer; a value may be an output twice."""
    text = graph_text("%v: f32[1,4] variable", "%y = Add(%v, %x)", outputs="%y, %y, %x")
    check(parse_model(text))


@pytest.mark.parametrize(("scales", "axis"), [(1, 0), (1, 3), (4, 0)])
def test_one_scale_fits_any_shape_and_one_zero_point_any_scales(scales: int, axis: int) -> None:
    sound = model()
    quantize(sound, scales, 1, axis)
    assert verify(sound) == []


def test_a_compressed_constant_holds_bytes() -> None:
    sound = model()
    store(sound, np.zeros(9, np.uint8), {"compression_type": "HUFFMAN"})
    assert verify(sound) == []


def test_another_width_of_a_declared_dtype_is_kept() -> None:
    check(parse_model("graph main(%x: i64[2]) -> %y { %y = Square(%x) : i64[2] }"))
    gather = "graph main(%x: f32[2], %i: f32[1]) -> %y { %y = Gather(%x, %i) : f32[1] }"
    with pytest.raises(ModelError, match="is f32, expected"):
        check(parse_model(gather))


def test_graphs_of_opaque_operators_are_in_the_model() -> None:
    text = graph_text(
        '%y = Opaque(%x) {code: "CUSTOM", options: {body: @other, all: [@other, 1]}} : f32[1,4]'
    )
    opaque = parse_model(text + "graph other(%x: f32[1]) -> %x {\n}\n")
    assert verify(opaque) == []
    del opaque.graphs[1]
    message = "graph main > op 0 CUSTOM: its options name other, which is not a graph of the model"
    assert [str(f) for f in verify(opaque)] == [message] * 2
