# SPDX-License-Identifier: Apache-2.0
"""Merged models compute what they did apart; models that do not fit each other are refused."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.cli.structure.submodel import merge_command
from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.interp.interpreter import KERNELS_METADATA, run, select_kernels
from circlekit.ir.tensor import same_array
from circlekit.ir.verifier import check
from circlekit.ops.numerics.output_stage import Kernels

HEAD = "graph head(%in: f32[2]) -> %out {\n %t = Neg(%in) : f32[2]\n %out = Relu(%t) : f32[2]\n}"
TAIL = "graph tail(%x: f32[2]) -> %z {\n %t = Exp(%x) : f32[2]\n %z = Abs(%t) : f32[2]\n}"


def test_models_that_name_the_same_state_are_not_merged() -> None:
    texts = [
        f"""graph main(%{x}: f32[1]) -> %{y} {{
          %v = VarHandle() {{shared_name: "{name}"}} : resource[]
          AssignVariable(%v, %{x})
          %{y} = ReadVariable(%v) : f32[1]
        }}"""
        for x, y, name in (("x", "y", "v"), ("y", "z", "w"), ("z", "o", "v"))
    ]
    models = [circlekit.parse(text) for text in texts]
    assert len(circlekit.merge(models[:2]).main) == 6
    with pytest.raises(UnsupportedError, match="several models have <VarHandle %v"):
        circlekit.merge(models)


def test_operators_without_operands_are_no_state() -> None:
    texts = [
        f"""graph main(%{x}: f32[1]) -> %{y} {{
          %n = Opaque() {{code: "CUSTOM", custom_code: "Number"}} : f32[1]
          %{y} = Add(%{x}, %n)
        }}"""
        for x, y in (("x", "y"), ("y", "z"))
    ]
    assert len(circlekit.merge([circlekit.parse(text) for text in texts]).main) == 4


def test_a_merged_model_runs_with_the_kernels_of_its_models() -> None:
    models = [circlekit.parse("graph main(%x: f32[1]) -> %a { %a = Neg(%x) }")]
    models += [circlekit.parse("graph main(%a: f32[1]) -> %y { %y = Neg(%a) }")]
    for model in models:
        model.metadata.append((KERNELS_METADATA, b"optimized"))
    assert select_kernels(circlekit.merge(models)) is Kernels.OPTIMIZED


def test_models_with_other_names_are_connected() -> None:
    head, tail = circlekit.parse(HEAD), circlekit.parse(TAIL)
    merged = circlekit.merge([tail, head], {"x": "out"})
    check(merged)
    assert [v.name for v in merged.main.outputs] == ["z"]
    assert len({v.name for v in merged.main.values()}) == len(list(merged.main.values()))
    x = np.array([-1.0, 2.0], np.float32)
    assert same_array(circlekit.run(merged, [x])[0], np.exp(np.maximum(-x, 0)))
    assert len(circlekit.merge([head, tail]).main.inputs) == 2  # nothing connects them


def test_called_graphs_of_merged_models_have_different_names() -> None:
    text = """
        graph main(%c: bool[], %x: f32[2]) -> %NAME {
          %NAME = If(%c, %x) {then_graph: @a, else_graph: @b} : f32[2]
        }
        graph a(%x: f32[2]) -> %y { %y = Neg(%x) : f32[2] }
        graph b(%x: f32[2]) -> %y { %y = Exp(%x) : f32[2] }"""
    merged = circlekit.merge([circlekit.parse(text.replace("NAME", name)) for name in "pqr"])
    check(merged)
    assert [g.name for g in merged.graphs] == ["main", "a", "b", "a_1", "b_1", "a_2", "b_2"]


def test_no_called_graph_has_the_name_of_the_merged_graph() -> None:
    called = """
        graph entry(%x: f32[2]) -> %y { %y = Call(%x) {subgraph: @main} : f32[2] }
        graph main(%x: f32[2]) -> %y { %y = Exp(%x) : f32[2] }"""
    merged = circlekit.merge(
        [circlekit.parse("graph main(%k: f32[2]) -> %x { %x = Neg(%k) }"), circlekit.parse(called)]
    )
    assert [g.name for g in merged.graphs] == ["main", "main_1"]
    assert str(circlekit.parse(str(merged))) == str(merged)


def test_a_model_that_calls_its_main_graph_is_not_merged() -> None:
    """Its main graph would no longer be a graph of the result."""
    model = circlekit.parse("""
        graph main(%x: f32[2]) -> %y { %y = Neg(%x) }
        graph other(%a: f32[2]) -> %b { %b = Call(%a) {subgraph: @main} : f32[2] }""")
    with pytest.raises(UnsupportedError, match=r"<Call %b: .* calls main, the main graph of its model"):
        circlekit.merge([model])


@pytest.mark.parametrize(("given", "read"), [("*", "2"), ("2", "*"), ("?", "2"), ("2", "?")])
def test_unknown_sizes_fit_every_size(given: str, read: str) -> None:
    head, tail = (
        circlekit.parse(text.replace("[2]", f"[{size}]")) for text, size in ((HEAD, given), (TAIL, read))
    )
    assert len(circlekit.merge([head, tail], {"x": "out"}).main) == 4


PASSES_X_ON = "graph pass(%x: f32[2]) -> %x, %c { %c = Neg(%x) }"
READS_X = "graph exp(%x: f32[2]) -> %f { %f = Exp(%x) }"
READS_Z = "graph exp(%z: f32[2]) -> %f { %f = Exp(%z) }"
MAKES_X = "graph abs(%k: f32[2]) -> %x { %x = Abs(%k) }"


@pytest.mark.parametrize(
    ("texts", "connect", "inputs", "outputs"),
    [
        ([PASSES_X_ON, READS_X], {}, "x", "cfx"),
        ([PASSES_X_ON, READS_Z], {}, "xz", "cfx"),
        ([PASSES_X_ON, READS_Z], {"z": "x"}, "x", "cf"),
        ([PASSES_X_ON, READS_X], {"x": "x"}, "x", "cf"),
        ([PASSES_X_ON, READS_X, MAKES_X], {}, "k", "cf"),
        ([PASSES_X_ON, READS_Z, MAKES_X], {"z": "x"}, "k", "cf"),
        (["graph same(%x: f32[2]) -> %x {}"] * 2, {}, "x", "x"),
    ],
)
def test_an_output_that_is_an_input_of_its_model(
    texts: list[str], connect: dict[str, str], inputs: str, outputs: str
) -> None:
    x = np.array([-2.0, 0.5], np.float32)
    for order in permutations(texts):
        merged = circlekit.merge([circlekit.parse(text) for text in order], connect)
        check(merged)
        assert sorted(v.name for v in merged.main.inputs) == list(inputs)
        names = [v.name for v in merged.main.outputs]
        assert sorted(names) == list(outputs)
        results = dict(zip(names, run(merged, [x] * len(inputs)), strict=True))
        given = np.abs(x) if MAKES_X in texts else x
        expected = {"x": given, "c": -given, "f": np.exp(given)}
        for name, array in results.items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-6)


def test_an_output_named_like_a_connected_input_that_is_passed_on_is_refused() -> None:
    """The first model passes on its input %x, connected with %out; the second computes another %x."""
    models = [circlekit.parse(text) for text in (PASSES_X_ON, MAKES_X, HEAD)]
    with pytest.raises(ModelError, match="two outputs are named 'x'; rename one of them"):
        circlekit.merge(models, {"x": "out"})


def test_a_merged_model_has_format_and_name_of_the_first() -> None:
    head, tail = circlekit.parse(HEAD), circlekit.parse(TAIL)
    head.format = "tflite"
    merged = circlekit.merge([head, tail], {"x": "out"})
    assert (merged.format, merged.main.name) == ("tflite", "head")
    assert circlekit.merge([tail, head], {"x": "out"}).format == tail.format != "tflite"


@pytest.mark.parametrize(("texts", "outputs"), [("ac", "y"), ("ca", "y"), ("abc", "z"), ("acb", "z")])
def test_an_output_that_a_model_only_passes_on_remains_an_output(texts: str, outputs: str) -> None:
    models = {
        "a": "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }",
        "b": "graph main(%y: f32[2]) -> %z { %z = Abs(%y) }",
        "c": "graph main(%y: f32[2]) -> %y { }",
    }
    merged = circlekit.merge([circlekit.parse(models[name]) for name in texts])
    assert [value.name for value in merged.main.outputs] == [outputs]


def test_models_that_do_not_fit_are_not_merged() -> None:
    head, tail = circlekit.parse(HEAD), circlekit.parse(TAIL)
    wide = circlekit.parse(TAIL.replace("[2]", "[3]"))
    with pytest.raises(ShapeError, match="expected equal dtypes, shapes and quantizations"):
        circlekit.merge([head, wide], {"x": "out"})
    quantized = circlekit.parse(TAIL.replace("f32[2]) ->", "f32[2] quant(scale: 0.5)) ->"))
    with pytest.raises(ShapeError, match=r"got f32\[2\] quant\(scale: 0.5\) and f32\[2\]"):
        circlekit.merge([head, quantized], {"x": "out"})
    with pytest.raises(ModelError, match="two outputs are named 'out'"):
        circlekit.merge([head, head])
    with pytest.raises(ModelError, match="no model has an output 'ou'"):
        circlekit.merge([head, tail], {"x": "ou"})
    with pytest.raises(ModelError, match="no model has an input 'y'"):
        circlekit.merge([head, tail], {"y": "out"})
    mistaken: list[tuple[Any, str]] = [
        ("x", "connect: expected a dict of names of inputs and outputs, got str"),
        ({"x": 3}, "expected the name of an output, got int"),
    ]
    for connect, message in mistaken:
        with pytest.raises(ModelError, match=message):
            circlekit.merge([head, tail], connect)
    with pytest.raises(ModelError, match="the models form a cycle"):
        circlekit.merge([head, tail], {"x": "out", "in": "z"})
    with pytest.raises(
        ModelError, match="no model has an input 'in' that could read the output 'out' of another"
    ):
        circlekit.merge([head, tail], {"in": "out"})


def test_the_command(tmp_path: Path) -> None:
    models = [str(tmp_path / name) for name in ("head.tflite", "tail.tflite")]
    target = str(tmp_path / "out.circle")
    for path, text in zip(models, (HEAD, TAIL), strict=True):
        circlekit.save(circlekit.parse(text), path)
    assert merge_command([*models, "-o", target, "--connect", "out=x"]) == 0
    assert len(circlekit.load(target).main) == 4
