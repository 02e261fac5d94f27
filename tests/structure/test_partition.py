# SPDX-License-Identifier: Apache-2.0
"""Partition: numbers of parts as in ONE's tests, equal values, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import FormatError, ModelError, UnsupportedError
from circlekit.interp.interpreter import run, select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.tensor import same_array
from circlekit.ir.verifier import check
from circlekit.structure.part_table import PartTable
from circlekit.structure.run_parts import run_parts
from tests.recipes.one_recipes import one_recipe
from tests.structure.partition_cases import SHARED_CONSTANT, table_of

MEAN, ADD = "Mean_as_variance", "Add_as_variance"
ONE_ROWS = [
    ("Net_InstanceNorm_003", {"DIV": "npu"}, 3),
    ("Net_InstanceNorm_003", {"ADD": "npu"}, 5),
    ("Net_InstanceNorm_003", {MEAN: "npu", ADD: "npu", "Pow": "npu"}, 3),
    ("Net_UnpackAdd_001", {"UNPACK": "npu"}, 2),
    ("Part_Sqrt_Rsqrt_000", {"RSQRT": "npu"}, 2),
    ("Part_Sqrt_Rsqrt_Add_000", {"RSQRT": "npu"}, 3),
    ("Part_Sqrt_Rsqrt_Add_001", {"RSQRT": "npu"}, 3),
    ("Part_Sqrt_Rsqrt_Add_002", {"RSQRT": "npu"}, 4),
    ("Part_Add_Sqrt_000", {"SQRT": "npu"}, 3),
    ("Part_Add_Sqrt_Rsqrt_000", {"RSQRT": "npu"}, 3),
    ("Part_If_Add_Sub_000", {"IF": "npu"}, 3),
    ("Part_If_Add_Sub_001", {"IF": "npu"}, 3),
    ("Part_While_001", {"MAXIMUM": "npu"}, 3),
    ("Part_Split_Add_000", {"SPLIT": "npu"}, 2),
    ("Part_Tanh_FC_nobias", {}, 1),
    ("Part_Tanh_FC_nobias", {"FULLY_CONNECTED": "npu"}, 2),
]
"""Recipe, backends by opcode or name, number of parts: from the list of ONE's circle-part-value-test."""


def expect_equal_parts(model: Model, table: PartTable, fewest: bool = False) -> int:
    """Check that the parts compute the bits of the whole; return their number."""
    divided = circlekit.partition(model, table, fewest)
    for part in divided.parts:
        check(part.model)
    inputs = make_inputs(model.main, InputSet("normal"))
    given = dict(zip(divided.inputs, inputs, strict=True))
    values = run_parts([part.model for part in divided.parts], given, select_kernels(model))
    for name, expected in zip(divided.outputs, run(model, inputs), strict=True):
        assert same_array(values[name], expected), name
    return len(divided.parts)


@pytest.mark.parametrize(("recipe", "backends", "count"), ONE_ROWS)
def test_rows_of_one(recipe: str, backends: dict[str, str], count: int, shared: Path) -> None:
    model = one_recipe(shared, recipe)
    assert expect_equal_parts(model, table_of(backends)) == count
    assert expect_equal_parts(model, table_of(backends), fewest=True) <= count


@pytest.mark.parametrize(
    "name", ["mlperf_tiny/ad01_int8.tflite", "tensorflow/lstm.f32.tflite", "tico/cbr.circle"]
)
def test_real_models_at_random(name: str, shared: Path) -> None:
    model = circlekit.load(shared / "models" / name)
    rng = random.Random(7)
    by_name = {op.output.name: rng.choice(["cpu", "npu"]) for op in model.main}
    table = PartTable(["cpu", "npu"], "cpu", opnames=by_name, comply="opname")
    assert expect_equal_parts(model, table) >= expect_equal_parts(model, table, fewest=True) > 1


def test_fewest_parts_may_begin_with_the_smaller_group() -> None:
    """The parts are npu, then cpu.  A greedy choice would begin with the two operators that cpu can run."""
    model = circlekit.parse("""
        graph main(%x: f32[2]) -> %a, %b, %d {
          %a = Relu(%x) : f32[2]
          %b = Relu6(%x) : f32[2]
          %c = Neg(%x) : f32[2]
          %d = Relu(%c) : f32[2]
        }""")
    assert expect_equal_parts(model, table_of({"NEG": "npu"}), fewest=True) == 2


def test_parts_that_run_alone_round_like_the_whole_model(shared: Path) -> None:
    """LiteRT's reference kernels lack DEPTH_TO_SPACE of int8: the whole model runs on optimized kernels.

    The parts without this operator must use optimized kernels, too, when each is run alone.
    """
    model = circlekit.load(shared / "models/tensorflow/espcn.int8.tflite")
    divided = circlekit.partition(model, table_of({"DEPTH_TO_SPACE": "npu"}))
    assert len(divided.parts) > 1
    values = dict(zip(divided.inputs, make_inputs(model.main, InputSet("normal")), strict=True))
    expected = run(model, list(values.values()))
    for part in divided.parts:
        outputs = run(part.model, [values[v.name] for v in part.model.main.inputs])
        values.update(zip((v.name for v in part.model.main.outputs), outputs, strict=True))
    assert same_array(values[divided.outputs[0]], expected[0])


@pytest.mark.parametrize("fewest", [False, True])
def test_shared_constants_and_odd_interfaces(fewest: bool) -> None:
    """Outputs that are inputs or constants, unread inputs and results, constants of several parts."""
    model = circlekit.parse(SHARED_CONSTANT)
    expect_equal_parts(model, table_of({"MUL": "npu", "NEG": "npu"}), fewest)
    divided = circlekit.partition(model, table_of({"MUL": "npu"}))
    left, right = (part.model.main for part in divided.parts[:2])
    assert next(iter(left)).inputs[1].data is next(iter(right)).inputs[1].data  # type: ignore[union-attr]


def test_equal_names_are_told_apart() -> None:
    model = circlekit.parse(SHARED_CONSTANT)
    model.main.ops[1].output.name = model.main.ops[0].output.name = model.main.inputs[0].name
    expect_equal_parts(model, table_of({"RELU": "npu", "SUB": "npu"}))


def test_state_stays_in_one_part() -> None:
    model = circlekit.parse("""
        graph main(%x: f32[2]) -> %y {
          %v = VarHandle() {shared_name: "v"} : resource[]
          AssignVariable(%v, %x)
          %r = ReadVariable(%v) : f32[2]
          %y = Relu(%r)         : f32[2]
        }""")
    expect_equal_parts(model, table_of({"RELU": "npu"}))
    with pytest.raises(UnsupportedError, match="%v is a resource"):
        circlekit.partition(model, table_of({"READ_VARIABLE": "npu"}))


def test_state_in_several_parts_is_refused() -> None:
    """Three parts refer to the state; the message names the handles in the first two."""
    lines = [
        f'%{v} = VarHandle() {{shared_name: "same"}} : resource[] %{r} = ReadVariable(%{v}) : f32[2]'
        for v, r in ("ab", "cd", "ef")
    ]
    model = circlekit.parse("graph main() -> %b, %d, %f {" + " ".join(lines) + "}")
    table = PartTable(
        ["p", "q", "r"], "p", opnames=dict(zip("abcdef", "ppqqrr", strict=True)), comply="opname"
    )
    with pytest.raises(UnsupportedError, match="%a and %c refer to state"):
        circlekit.partition(model, table)
    one_backend = PartTable(["p"], "p")
    with pytest.raises(UnsupportedError, match="use `fewest` if they are not connected"):
        circlekit.partition(model, one_backend)
    assert len(circlekit.partition(model, one_backend, fewest=True).parts) == 1


@pytest.mark.parametrize("called", ["inner", "outer"])
def test_state_of_called_graphs_is_refused(called: str) -> None:
    """The part with CALL assigns the variable that the other part reads.

    CALL runs the graph that assigns, directly or through another graph.
    """
    model = circlekit.parse(f"""
        graph main(%x: f32[2]) -> %y, %r {{
          %y = Call(%x) {{subgraph: @{called}}}
          %v = VarHandle() {{shared_name: "v"}} : resource[]
          %r = ReadVariable(%v) : f32[2]
        }}
        graph outer(%x: f32[2]) -> %y {{ %y = Call(%x) {{subgraph: @inner}} }}
        graph inner(%x: f32[2]) -> %y {{
          %w = VarHandle() {{shared_name: "v"}} : resource[]
          AssignVariable(%w, %x)
          %y = Relu(%x)
        }}""")
    with pytest.raises(UnsupportedError, match="%w and %v refer to state"):
        circlekit.partition(model, table_of({"CALL": "npu"}))


def test_a_missing_input_of_a_part_is_named() -> None:
    model = circlekit.parse(SHARED_CONSTANT)
    parts = [part.model for part in circlekit.partition(model, table_of({"MUL": "npu"})).parts]
    with pytest.raises(ModelError, match="a part reads %x: expected it among the inputs"):
        run_parts(parts, {"unread": np.zeros(1, np.float32)})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (PartTable([], "cpu"), "There is no 'backends' information"),
        (PartTable(["cpu"], ""), "There is no 'default' backend information"),
        (PartTable(["cpu"], "npu"), "'default' backend is not one of"),
        (PartTable(["cpu"], "cpu", {"ADD": "npu"}), "OPCODE ADD is not assigned to one of"),
        (PartTable(["cpu"], "cpu", comply="OPCODE"), "expected comply opcode or opname, got 'OPCODE'"),
        (PartTable("cpu,npu", "cpu"), "expected a list of backends, got 'cpu,npu'"),
        (PartTable(3, "cpu"), "expected a list of backends, got 3"),  # type: ignore[arg-type]
        (PartTable([1], 1), r"expected names of backends, got \[1\]"),  # type: ignore[list-item, arg-type]
        (PartTable(["cpu"], "cpu", ["ADD"]), "expected a dict of names and backends for OPCODE"),  # type: ignore[arg-type]
    ],
)
def test_wrong_tables_are_refused(table: PartTable, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        circlekit.partition(circlekit.parse(SHARED_CONSTANT), table)


@pytest.mark.parametrize(("backend", "sizes"), [("npu", [1, 2]), ("cpu", [3])])
def test_an_operator_that_reads_an_input_begins_a_part(backend: str, sizes: list[int]) -> None:
    """By ONE's rule, %b does not join the part of %a, because %b reads the input %x.

    It joins if the backend of both is the default, cpu.
    """
    text = "graph main(%x: f32[2]) -> %y {\n%a = Relu(%x)\n%b = Add(%a, %x)\n%y = Neg(%b)\n}"
    table = table_of(dict.fromkeys(("RELU", "ADD", "NEG"), backend))
    divided = circlekit.partition(circlekit.parse(text), table)
    assert [len(part.model.main) for part in divided.parts] == sizes


@pytest.mark.parametrize("fewest", [False, True])
def test_an_operator_joins_the_parts_that_it_reads(fewest: bool) -> None:
    """The recipe Part_Sqrt_Rsqrt_Add_003 of ONE; its circle-part-value-test expects one part."""
    model = circlekit.parse("""
        graph main(%x: f32[2], %y: f32[2]) -> %z {
          %r = Exp(%x)      : f32[2]
          %s = Tanh(%y)     : f32[2]
          %z = Add(%r, %s)  : f32[2]
        }""")
    assert expect_equal_parts(model, table_of({}), fewest) == 1


def test_parts_do_not_become_one_around_another_part() -> None:
    """%z reads %a, which runs before the part of %b on npu, and %c, which runs after it: it joins neither.

    %w reads %v and %d.  They become one part, which runs after that of %e on npu, although %v comes first.
    """
    model = circlekit.parse("""
        graph main(%x: f32[2], %y: f32[2]) -> %z, %w {
          %a = Exp(%x)      : f32[2]
          %b = Neg(%a)      : f32[2]
          %c = Tanh(%b)     : f32[2]
          %z = Add(%a, %c)  : f32[2]
          %v = Exp(%y)      : f32[2]
          %u = Exp(%y)      : f32[2]
          %e = Neg(%u)      : f32[2]
          %d = Tanh(%e)     : f32[2]
          %w = Sub(%v, %d)  : f32[2]
        }""")
    expect_equal_parts(model, table_of({"NEG": "npu"}))
    parts = circlekit.partition(model, table_of({"NEG": "npu"})).parts
    ops = [[op.output.name for op in part.model.main] for part in parts]
    assert ops == [["a"], ["b"], ["c"], ["z"], ["u"], ["e"], ["v", "d", "w"]]


@pytest.mark.parametrize("fewest", [False, True])
def test_operators_in_a_wrong_order_are_refused(fewest: bool) -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %a = Neg(%x)  %y = Abs(%a) }")
    first = model.main.ops[0]
    model.main.unlink(first)
    model.main.append(first)
    with pytest.raises(ModelError, match="op 0 Abs: %a is used before operator 1 produces it"):
        circlekit.partition(model, table_of({"ABS": "npu"}), fewest)


def test_values_between_parts_have_names_of_their_own() -> None:
    """The second %a becomes %a_2, because %a_1 is the name of another value.  An empty name is replaced."""
    model = circlekit.parse("""
        graph main(%x: f32[2], %u: f32[2], %v: f32[2], %w: f32[2]) -> %y {
          %s = Add(%x, %u)  %t = Add(%v, %w)  %y = Add(%s, %t)
        }""")
    for value, name in zip(model.main.inputs, ("a", "a", "", "a_1"), strict=True):
        value.name = name
    assert circlekit.partition(model, table_of({})).inputs == ["a", "a_2", "value_1", "a_1"]
