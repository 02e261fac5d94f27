# SPDX-License-Identifier: Apache-2.0
"""Selected operators and extracted submodels compute what they did in the whole."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.cli.structure.operators import circle_input_names, circle_operator
from circlekit.cli.structure.submodel import circle_opselector, extract_command
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.interp.interpreter import run
from circlekit.io.write.flatbuffer_encoder import encode
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY
from circlekit.ir.tensor import same_array
from circlekit.ir.value import Array
from circlekit.ir.verifier import check
from circlekit.structure.part_table import PartTable
from circlekit.structure.selection import parse_ids
from tests.recipes.one_recipes import one_recipe

NET = """
graph main(%x: f32[2,3], %k: f32[3]) -> %y {
  %a = Add(%x, %k)   : f32[2,3]
  %b = Relu(%a)      : f32[2,3]
  %c = Mul(%b, %k)   : f32[2,3]
  %d = Exp(%b)       : f32[2,3]
  %y = Sub(%c, %d)   : f32[2,3]
}
"""


def values_of(model: Model) -> dict[str, Array]:
    """Return every input and result of a run on seeded inputs, by name."""
    values: dict[str, Array] = {}
    run(model, make_inputs(model.main, InputSet("normal")), on_value=values.__setitem__)
    return values


def expect_values(part: Model, values: dict[str, Array]) -> None:
    """Assert that ``part`` computes its outputs in ``values`` from its inputs in ``values``, bit for bit."""
    check(part)
    outputs = run(part, [values[v.name] for v in part.main.inputs])
    for value, array in zip(part.main.outputs, outputs, strict=True):
        assert same_array(array, values[value.name]), value.name


RECIPES = [
    "Part_While_001",
    "Part_Add_Sqrt_Rsqrt_000",
    "Part_Add_Sqrt_000",
    "Abs_000",
    "Part_Sqrt_Rsqrt_Add_002",
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_ranges_of_operators_of_one_models(recipe: str, shared: Path) -> None:
    """Every range of operators is selected, in models of ONE's circle-opselector-test."""
    model = one_recipe(shared, recipe)
    values = values_of(model)
    for first, last in combinations(range(len(model.main) + 1), 2):
        expect_values(circlekit.select(model, range(first, last)), values)


def test_interface_of_selected_operators() -> None:
    model = circlekit.parse(NET)
    part = circlekit.select(model, names=["b", "c"])
    assert [v.name for v in part.main.inputs] == ["a", "k"]
    assert [v.name for v in part.main.outputs] == ["b", "c"]  # Exp reads %b, Sub reads %c
    expect_values(part, values_of(model))
    expect_values(circlekit.select(model, [0, 4]), values_of(model))  # not connected


def test_an_output_that_a_selected_operator_reads_stays_an_output() -> None:
    model = circlekit.parse(NET.replace("-> %y", "-> %y, %b"))
    part = circlekit.select(model, names=["b", "c", "d", "y"])
    assert [v.name for v in part.main.outputs] == ["b", "y"]


@pytest.mark.parametrize(
    ("ids", "names", "message"),
    [
        ([5], [], "from 0 to 4, got 5"),
        (["0"], [], "from 0 to 4, got '0'"),
        ("0-1", [], "expected a list of operator numbers, got '0-1'"),
        (3, [], "expected a list of operator numbers, got 3"),
        ([], ["bb"], "named 'bb'"),
        ([], [3], "expected the name of a result, got int"),
        ([], [], "No operator selected"),
    ],
)
def test_wrong_selections_are_refused(ids: Any, names: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        circlekit.select(circlekit.parse(NET), ids, names)


def test_numbers_of_operators() -> None:
    assert list(parse_ids("3, 1 - 2,0")) == [3, 1, 2, 0]
    for text in ("a,b", "0.1", "0--1", "-1", "2-1", "", "9" * 5000):
        with pytest.raises(ModelError):
            parse_ids(text)
    # the range is not made into a list of all its numbers, which would take 800 GB
    with pytest.raises(ModelError, match="from 0 to 4, got 5"):
        circlekit.select(circlekit.parse(NET), parse_ids("0-99999999999"))


def test_extract_between_values() -> None:
    model = circlekit.parse(NET)
    part = circlekit.extract(model, ["b"], ["c"])
    assert ([v.name for v in part.main.inputs], len(part.main)) == (["b", "k"], 1)
    expect_values(part, values_of(model))
    expect_values(circlekit.extract(model, outputs=["d", "a"]), values_of(model))
    with pytest.raises(ModelError, match="%d: expected a value that is needed to compute %c"):
        circlekit.extract(model, ["d"], ["c"])
    with pytest.raises(ModelError, match="no input or result named 'cc'"):
        circlekit.extract(model, outputs=["cc"])


def test_an_extracted_input_replaces_one_result_of_an_operator_that_is_needed() -> None:
    text = """graph main(%x: f32[4]) -> %z {
        %p, %q = Split(0, %x) {num_splits: 2} : f32[2], f32[2]
        %z = Add(%p, %q) : f32[2]
    }"""
    part = circlekit.extract(circlekit.parse(text), ["p"], ["z", "p"])
    check(part)
    assert [v.name for v in part.main.inputs] == ["p", "x"]
    z, p = run(part, [np.array([100, 200], np.float32), np.array([1, 2, 3, 4], np.float32)])
    assert z.tolist() == [103, 204]
    assert p.tolist() == [100, 200]


def test_a_text_is_one_name() -> None:
    """A str is not taken for a list of its letters."""
    model = circlekit.parse(NET.replace("%b", "%first"))
    assert len(circlekit.select(model, names="first").main) == 1
    assert len(circlekit.extract(model, "first", "y").main) == 3
    assert circlekit.merge([circlekit.extract(model, outputs="first")], outputs="first").main.outputs


def test_an_input_that_is_named_twice_is_one_input() -> None:
    part = circlekit.extract(circlekit.parse(NET), ["b", "b"], ["c"])
    check(part)
    assert [v.name for v in part.main.inputs] == ["b", "k"]


def test_a_variable_of_other_operators_is_refused() -> None:
    model = circlekit.parse("""
        graph main(%x: f32[1]) -> %y {
          %v = VarHandle() {shared_name: "v"} : resource[]
          %y = ReadVariable(%v) : f32[1]
        }""")
    with pytest.raises(UnsupportedError, match="%v is a resource"):
        circlekit.select(model, [1])


@pytest.mark.parametrize(
    "assign",
    [
        "AssignVariable(%v, %x)",
        "%c = Call(%x) {subgraph: @inner}",
    ],
)
def test_state_that_other_operators_may_change_is_refused(assign: str) -> None:
    """Without the other operator, the variable would have another value, or none."""
    model = circlekit.parse(f"""
        graph main(%x: f32[1]) -> %y {{
          %v = VarHandle() {{shared_name: "v"}} : resource[]
          {assign}
          %y = ReadVariable(%v) : f32[1]
        }}
        graph inner(%x: f32[1]) -> %x {{
          %w = VarHandle() {{shared_name: "v"}} : resource[]
          AssignVariable(%w, %x)
        }}""")
    with pytest.raises(UnsupportedError, match="%v refers to state"):
        circlekit.extract(model, outputs="y")
    assert len(circlekit.select(model, range(3)).main) == 3


@pytest.mark.parametrize("is_input", [False, True])
def test_a_variable_is_an_input_only_if_it_is_one_of_the_graph(is_input: bool) -> None:
    state = "%state: f32[1,4] variable"
    text = f"""
        graph main(%x: f32[1,2]{", " + state if is_input else ""}) -> %y {{
          {"" if is_input else state}
          %a = Neg(%x)                                            : f32[1,2]
          %b = Svdf(%a, [[1.0, 2.0]], [[0.1, 0.2, 0.3, 0.4]], none, %state) {{rank: 1}} : f32[1,1]
          %y = Neg(%b)                                            : f32[1,1]
        }}"""
    part = circlekit.select(circlekit.parse(text), [1])
    assert [v.name for v in part.main.inputs] == ["a", *(["state"] if is_input else [])]
    with pytest.raises(UnsupportedError, match="variable %state is used by <Neg %y"):
        circlekit.select(circlekit.parse(text.replace("Neg(%b)", "Neg(%state)")), [1])


def test_a_variable_of_a_graph_that_other_operators_call_is_refused() -> None:
    """Both calls change the same state; a submodel with one call would miss the change by the other."""
    model = circlekit.parse("""
        graph main(%x: f32[1,2]) -> %a, %b, %c {
          %a = Call(%x) {subgraph: @step}
          %b = Call(%x) {subgraph: @step}
          %c = Neg(%x)
        }
        graph step(%x: f32[1,2]) -> %y {
          %state: f32[1,4] variable
          %y = Svdf(%x, [[1.0, 2.0]], [[0.1, 0.2, 0.3, 0.4]], none, %state) {rank: 1} : f32[1,1]
        }""")
    expect_values(circlekit.select(model, [0, 1]), values_of(model))
    with pytest.raises(UnsupportedError, match="variable %state is used by <Call %b"):
        circlekit.select(model, [0, 2])


def test_parts_are_merged_again() -> None:
    model = circlekit.parse(NET)
    table = PartTable(["cpu", "npu"], "cpu", {"RELU": "npu", "SUB": "npu"})
    parts = [part.model for part in circlekit.partition(model, table).parts]
    merged = circlekit.merge(parts[::-1], outputs=["y"])
    check(merged)
    assert len(merged.main) == 5
    inputs = {
        v.name: a for v, a in zip(model.main.inputs, make_inputs(model.main, InputSet("normal")), strict=True)
    }
    assert same_array(circlekit.run(merged, inputs)[0], circlekit.run(model, inputs)[0])


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = str(tmp_path / "net.circle"), str(tmp_path / "out.circle")
    circlekit.save(circlekit.parse(NET), source)
    assert circle_opselector(["--by_id", "1-2", source, target]) == 0
    assert len(circlekit.load(target).main) == 2
    assert extract_command([source, "-o", target, "--inputs", "b", "--outputs", "c"]) == 0
    assert len(circlekit.load(target).main) == 1
    capsys.readouterr()
    assert circle_operator(["--code", source]) == 0
    assert circle_operator(["--name", source]) == 0
    codes = ["ADD", "RELU", "MUL", "EXP", "SUB"]
    assert capsys.readouterr().out.split() == [*codes, *"abcdy"]
    for flags in (["--name", "--code"], []):
        assert circle_operator([*flags, source]) == 0
        pairs = [f"{code},{name}" for code, name in zip(codes, "abcdy", strict=True)]
        assert capsys.readouterr().out.split() == pairs
    assert circle_input_names([]) == 0
    names = json.loads(capsys.readouterr().out)
    assert (names["CONV_2D"], names["SOFTMAX"]) == (["input", "filter", "bias"], ["logits"])
    assert (names["ADD"], names["MEAN"]) == (["x", "y"], ["input", "reduction_indices"])


def test_an_operator_without_a_tensor_for_its_result_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = {
        "tensors": [{"name": "x"}],
        "operators": [{"outputs": np.array([1])}, {"outputs": np.array([-1])}],
    }
    tree = {"operator_codes": [{}], "subgraphs": [graph], "buffers": [{}]}
    path = tmp_path / "damaged.circle"
    path.write_bytes(b"".join(encode(tree, "circle").pieces()))
    assert circle_operator([str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["ADD,(invalid: 1)", "ADD,(invalid: -1)"]


@pytest.mark.parametrize("words", [["--by_id", "9"], ["--by_id", "a,b"], ["--by_name", "no"], []])
def test_wrong_selections_write_nothing(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    circlekit.save(circlekit.parse(NET), tmp_path / "net.circle")
    target = tmp_path / "out.circle"
    code = circle_opselector([*words, str(tmp_path / "net.circle"), str(target)])
    assert code == (255 if words else 1)
    assert capsys.readouterr().err.startswith("ERROR: ")
    assert not target.exists()


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    assert circle_operator(["--name", str(tmp_path / "missing.circle")]) == 255
    with pytest.raises(CirclekitError):
        circlekit.load(tmp_path / "missing.circle")


@pytest.mark.parametrize(
    ("words", "operators"),
    [
        (["--ops", "1-2"], 2),
        (["--names", "a,d"], 2),
        (["--ops", "0", "--names", "d"], 2),
        (["--outputs", "c"], 3),
        (["--inputs", "a"], 4),
        ([], None),
        (["--ops", "0", "--inputs", "a"], None),
        (["--names", "a", "--outputs", "c"], None),
    ],
)
def test_operators_or_values_are_extracted(words: list[str], operators: int | None, tmp_path: Path) -> None:
    source, target = str(tmp_path / "net.circle"), str(tmp_path / "out.circle")
    circlekit.save(circlekit.parse(NET), source)
    assert extract_command([source, "-o", target, *words]) == (2 if operators is None else 0)
    if operators is not None:
        assert len(circlekit.load(target).main) == operators


def test_the_first_result_of_operators_of_the_main_graph_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "graph other(%p: f32[2]) -> %q { %q = Neg(%p) }"
    line = "%a, %b = Split(0, %x) {num_splits: 2} : f32[2], f32[2]"
    text = f"graph main(%x: f32[4]) -> %a, %b {{ {line} }}\n{other}"
    path, listed = str(tmp_path / "net.circle"), tmp_path / "list.txt"
    circlekit.save(circlekit.parse(text), path)
    assert circle_operator(["--name", "--code", path]) == 0
    assert capsys.readouterr().out == "SPLIT,a\n"
    assert circle_operator(["--name", "--output_path", str(listed), path]) == 0
    assert (listed.read_text(), capsys.readouterr().out) == ("a\n", "")


def test_one_s_names_of_operands(capsys: pytest.CaptureFixture[str]) -> None:
    """Every operator has as many names as operands, also if ONE names only the first of them differently."""
    assert circle_input_names([]) == 0
    names = json.loads(capsys.readouterr().out)
    assert {code: len(found) for code, found in names.items()} == {
        code: len(operator.operands) for code, operator in REGISTRY.items()
    }
    assert (names["SPLIT"], names["REDUCE_MAX"]) == (["split_dim", "input"], ["input", "reduction_indices"])
    assert (names["RESHAPE"], names["SUM"]) == (["tensor", "shape"], ["input", "reduction_indices"])
    assert names["SELECT"] == ["condition", "t", "e"]
