# SPDX-License-Identifier: Apache-2.0
"""A model that onnx2tf made gets the interface and the names of the ONNX model.

A "record" is here a dict of arrays about a run of the ONNX model: see ``restore_interface``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import EquivalenceError, ModelError
from circlekit.ir.value import Array
from circlekit.toolchain.importers.onnx_interface import MAX_PERMUTED_RANK, name_values, restore_interface


def test_an_onnx_interface_is_found_by_its_values() -> None:
    """The converter changed the order of inputs and outputs, the layout of one output, and output names."""
    model = circlekit.parse(
        "graph main(%b: f32[1,2,3,4], %a: f32[1,3]) -> %q, %p {\n"
        "  %p = Relu(%b)  : f32[1,2,3,4]\n"
        "  %q = Neg(%a)   : f32[1,3]\n"
        "}\n"
    )
    random = np.random.default_rng(0)
    a, b = random.normal(size=(1, 3)).astype(np.float32), random.normal(size=(1, 2, 3, 4)).astype(np.float32)
    record = {
        "inputs": np.array(["a", "b"]), "outputs": np.array(["image", "vector"]), "in0": a, "in1": b,
        "out0": np.maximum(b, 0).transpose(0, 3, 1, 2), "out1": -a,
    }  # fmt: skip
    restore_interface(model, record)
    assert [value.name for value in model.main.inputs] == ["a", "b"]
    assert [value.name for value in model.main.outputs] == ["image", "vector"]
    for result, expected in zip(circlekit.run(model, [a, b]), (record["out0"], record["out1"]), strict=True):
        np.testing.assert_array_equal(result, expected)
    record["out1"] = a
    with pytest.raises(circlekit.CirclekitError, match="other values than the ONNX model at output vector"):
        restore_interface(model, record)


@pytest.mark.parametrize("other", [0.0, 9.0, np.inf, -np.inf, np.nan])
def test_infinities_and_nan_are_values_too(other: float) -> None:
    model = circlekit.parse("graph main(%x: f32[4]) -> %n, %y { %n = Neg(%x) %y = Exp(%x) }")
    x = np.array([np.nan, np.inf, 2.0, other], np.float32)
    record = {"inputs": np.array(["x"]), "outputs": np.array(["exp", "neg"]), "in0": x}
    restore_interface(model, {**record, "out0": np.exp(x), "out1": -x})
    assert [value.name for value in model.main.outputs] == ["exp", "neg"]
    for wrong in (np.nan_to_num(np.exp(x)), np.exp(x) * np.array([1, 1, 3, 1], np.float32)):
        with pytest.raises(EquivalenceError, match="other values than the ONNX model at output exp"):
            restore_interface(model, {**record, "out0": wrong, "out1": -x})


def test_an_inner_value_gives_up_the_name_of_an_onnx_output() -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %out = Neg(%x) %y = Exp(%out) }")
    x = np.ones(2, np.float32)
    restore_interface(model, {
        "inputs": np.array(["x"]), "outputs": np.array(["out"]), "in0": x, "out0": np.exp(-x),
    })  # fmt: skip
    assert model.main.outputs[0].name == "out"
    assert len({value.name for value in model.main.values()}) == 3


def test_each_onnx_output_has_its_name_if_the_converter_merged_them() -> None:
    """The outputs ``again`` and ``same`` of the ONNX model are copies of ``out`` and of the input."""
    model = circlekit.parse("graph main(%x: f32[2,3]) -> %y, %y, %x { %y = Neg(%x) }")
    x = np.ones((2, 3), np.float32)
    restore_interface(model, {
        "inputs": np.array(["x"]), "outputs": np.array(["out", "again", "same"]), "in0": x,
        "out0": -x, "out1": -x, "out2": x,
    })  # fmt: skip
    assert [value.name for value in model.main.inputs] == ["x"]
    assert [value.name for value in model.main.outputs] == ["out", "again", "same"]
    circlekit.check(model)
    for array, wanted in zip(circlekit.run(model, [x]), (-x, -x, x), strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_values_are_named_after_the_nodes_of_an_onnx_model() -> None:
    """The Conv of the ONNX model is fused with its Relu; the Neg after it keeps its own name."""
    model = circlekit.parse(
        "graph main(%x: f32[1,4,4,2]) -> %q {\n"
        "  %w = const f32[3,1,1,2] gaussian(0, 1)\n"
        "  %p = Conv2D(%x, %w, [1.0, 0.0, 2.0]) {act: RELU}  : f32[1,4,4,3]\n"
        "  %n = Neg(%p)                                      : f32[1,4,4,3]\n"
        "  %q = Abs(%n)                                      : f32[1,4,4,3]\n"
        "}\n"
    )
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 2)).astype(np.float32)
    fused = model.main.ops[0].results[0]
    model.main.outputs = [fused]
    (relu,) = circlekit.run(model, [x])
    model.main.outputs = [model.main.ops[2].results[0]]
    nchw = relu.transpose(0, 3, 1, 2)
    # no value of the model has the elements of /Conv
    arrays = {"/Conv": nchw - 9, "/Relu": nchw, "/Neg": -nchw}
    prints = [
        [a.size, a.mean(dtype=float), np.square(a, dtype=float).mean(), a.min(), a.max()]
        for a in arrays.values()
    ]
    record = {
        "nodes": np.array(list(arrays)), "operands": np.array(["x", "c", "r"]),
        "results": np.array(["c", "r", "n"]), "fingerprints": np.array(prints),
    }  # fmt: skip
    name_values(model, record, [x])
    assert [op.results[0].name for op in model.main] == ["/Conv;/Relu", "/Neg", "q"]


@pytest.mark.parametrize("rank", [0, 1, 3, MAX_PERMUTED_RANK])
def test_an_onnx_output_is_found_with_permuted_axes(rank: int) -> None:
    shape = tuple(range(2, 2 + rank)) if rank < MAX_PERMUTED_RANK else (2, 1, 3, 1, 1, 2)
    dims = ",".join(map(str, shape))
    model = circlekit.parse(f"graph main(%x: f32[{dims}]) -> %y {{ %y = Neg(%x) : f32[{dims}] }}")
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    record = {"inputs": np.array(["x"]), "outputs": np.array(["out"]), "in0": x, "out0": -x.transpose()}
    restore_interface(model, record)
    (found,) = circlekit.run(model, [x])
    np.testing.assert_array_equal(found, record["out0"])


def floats(*elements: float) -> Array:
    return np.array(elements, np.float32)


def record_of(
    inputs: dict[str, Array], outputs: dict[str, Array], nodes: list[tuple[Any, ...]]
) -> dict[str, Any]:
    """Return a record; ``nodes``: name, operand, result and the elements of each node."""
    prints = [[a.size, a.mean(), (a * a).mean(), a.min(), a.max()] for *_, a in nodes]
    return {
        "inputs": np.array(list(inputs)), "outputs": np.array(list(outputs)),
        **{f"in{n}": array for n, array in enumerate(inputs.values())},
        **{f"out{n}": array for n, array in enumerate(outputs.values())},
        "nodes": np.array([node[0] for node in nodes]),
        "operands": np.array([node[1] for node in nodes]),
        "results": np.array([node[2] for node in nodes]),
        "fingerprints": np.array(prints, np.float64).reshape(-1, 5),
    }  # fmt: skip


# -- inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "names", "order"),
    [
        ("%x: f32[2], %y: f32[2]", ["y", "x"], ["y", "x"]),
        ("%serving_x_0: f32[2], %Y: f32[2]", ["y", "serving/X:0"], ["Y", "serving_x_0"]),
        ("%p: f32[3], %q: f32[2], %x: f32[2]", ["a", "b", "x"], ["p", "q", "x"]),
        ("%p: f32[2], %q: f32[3]", ["a", "b"], ["q", "p"]),
        ("%p: f32[2], %q: f32[2]", ["a", "b"], ["p", "q"]),
    ],
)
def test_inputs_are_found_by_name_then_shape_then_place(
    inputs: str, names: list[str], order: list[str]
) -> None:
    model = circlekit.parse(f"graph main({inputs}) -> %z {{ %z = Neg(%{inputs.split(':')[0][1:]}) }}")
    by_name = {value.name: value for value in model.main.inputs}
    shapes = {name: by_name[old].static_shape for name, old in zip(names, order, strict=True)}
    given = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    first = by_name[inputs.split(":")[0][1:]]
    restore_interface(model, record_of(given, {"out": -np.ones(first.static_shape, np.float32)}, []))
    assert [by_name[old] for old in order] == list(model.main.inputs)
    assert [value.name for value in model.main.inputs] == names


def test_signatures_know_the_names_of_inputs() -> None:
    model = circlekit.parse(
        "graph main(%p: f32[2], %q: f32[2]) -> %z { %z = Sub(%p, %q) }\n"
        'signature "serving_default" @main (b: %p, a: %q) -> (out: %z)\n'
    )
    p, q = model.main.inputs
    given = {"a": floats(1, 2), "b": floats(5, 5)}
    restore_interface(model, record_of(given, {"out": floats(4, 3)}, []))
    assert list(model.main.inputs) == [q, p]
    assert model.signatures == []


def test_inputs_that_do_not_correspond_are_refused() -> None:
    model = circlekit.parse("graph main(%p: f32[2], %q: f32[3]) -> %z { %z = Neg(%p) }")
    with pytest.raises(ModelError, match="input for each of p, x, got one input for two of them"):
        restore_interface(model, record_of({"p": floats(1, 2), "x": floats(1, 2)}, {"z": floats(-1, -2)}, []))
    three = {"p": floats(1, 2), "x": floats(1, 2), "y": floats(1, 2)}
    with pytest.raises(ModelError, match=r"expected 3 inputs as in the ONNX model \(p, x, y\), got 2"):
        restore_interface(model, record_of(three, {"z": floats(-1, -2)}, []))
    with pytest.raises(ModelError, match=r"expected 1 input as in the ONNX model \(p\), got 2"):
        restore_interface(model, record_of({"p": floats(1, 2)}, {"z": floats(-1, -2)}, []))


# -- outputs -------------------------------------------------------------------------------------


def test_two_outputs_with_equal_values_get_different_names() -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %p, %q { %p = Neg(%x) %q = Sub(0.0, %x) }")
    expected = {"a": floats(-1, -2), "b": floats(-1, -2)}
    restore_interface(model, record_of({"x": floats(1, 2)}, expected, []))
    assert [value.name for value in model.main.outputs] == ["a", "b"]


@pytest.mark.parametrize(
    ("expected", "made", "is_equal"),
    [
        # 1e-3 of the largest magnitude, which counts as at least 1e-6
        (floats(1000, 0), floats(1000, 1), True),
        (floats(1000, 0), floats(1000, 1.001), False),
        (floats(1e-4, 0), floats(1e-4, 5e-8), True),
        (floats(1e-4, 0), floats(1e-4, 5e-5), False),
        (floats(0, 0), floats(1e-9, 0), True),
        (floats(0, 0), floats(1e-8, 0), False),
        (floats(), floats(), True),
        (floats(1, 2), floats(1, 2, 3), False),
        (floats(1, 2), floats(1, 2).reshape(1, 2), False),
        (floats(1, 2).reshape(2, 1), floats(1, 2).reshape(1, 2), True),
    ],
)
def test_outputs_are_equal_within_a_tolerance(expected: Array, made: Array, is_equal: bool) -> None:
    dims = ",".join(map(str, made.shape))
    model = circlekit.parse(f"graph main(%x: f32[{dims}]) -> %z {{ %z = Neg(%x) : f32[{dims}] }}")
    record = record_of({"x": -made}, {"out": expected}, [])
    if is_equal:
        restore_interface(model, record)
        assert model.main.outputs[0].shape == expected.shape
    else:
        has_shape = sorted(made.shape) == sorted(expected.shape)
        reason = "the smallest difference is" if has_shape else r"no output has its shape, \[2\]"
        with pytest.raises(EquivalenceError, match=f"at output out: {reason}"):
            restore_interface(model, record)


def test_the_first_of_two_outputs_equal_to_an_onnx_output_is_taken() -> None:
    model = circlekit.parse(
        "graph main(%x: f32[2]) -> %a, %b, %c {\n%a = Neg(%x)\n%b = Abs(%x)\n%c = Neg(%x)\n}"
    )
    a, b, _ = model.main.outputs
    outputs = {"p": floats(1, 2), "q": floats(-1, -2)}
    restore_interface(model, record_of({"x": floats(1, 2)}, outputs, []))
    assert list(model.main.outputs) == [b, a]
    assert len(model.main) == 3


# -- names ---------------------------------------------------------------------------------------


def named(text: str, x: Array, *nodes: tuple[Any, ...]) -> list[str]:
    """Name the values after ``nodes``, and return the names of all results in the main graph."""
    model = circlekit.parse(text)
    name_values(model, record_of({"x": x}, {}, list(nodes)), [x])
    return [value.name for op in model.main for value in op.results]


X = floats(1, -2, 3, 0.5)


def test_nodes_with_equal_values_are_told_apart_by_their_order() -> None:
    text = "graph main(%x: f32[4]) -> %c {\n%a = Neg(%x)\n%b = Neg(%x)\n%c = Neg(%x)\n}"
    assert named(text, X, ("N1", "x", "r1", -X), ("N2", "x", "r2", -X)) == ["N1", "N2", "c"]


def test_a_result_that_is_not_a_number_is_found_too() -> None:
    x = floats(np.nan, -2, 3, 0.5)
    text = "graph main(%x: f32[4]) -> %b {\n%a = Abs(%x)\n%b = Exp(%a)\n}"
    assert named(text, x, ("N1", "x", "r1", np.abs(x)), ("N2", "r1", "r2", np.exp(np.abs(x)))) == ["N1", "N2"]


def test_nodes_without_a_value_are_fused_with_their_reader() -> None:
    text = "graph main(%x: f32[4]) -> %b {\n%a = Abs(%x)\n%b = Exp(%a)\n}"
    nodes = [
        ("N1", "x", "r1", X + 1), ("N2", "r1", "r2", X + 2), ("N3", "r2", "r3", np.abs(X)),
        ("N4", "r3", "r4", np.exp(np.abs(X))), ("N5", "r4", "r5", X + 5),
    ]  # fmt: skip
    assert named(text, X, *nodes) == ["N1;N2;N3", "N4"]


def test_a_name_that_is_in_use_is_not_given_again() -> None:
    text = "graph main(%x: f32[4]) -> %b {\n%a = Abs(%x)\n%b = Exp(%a)\n}"
    assert named(text, X, ("b", "x", "r1", np.abs(X))) == ["a", "b"]
    assert named(text, X, ("N", "x", "r1", np.abs(X)), ("N", "r1", "r2", np.exp(np.abs(X)))) == ["N", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "%a, %b = Split(0, %x) {num_splits: 2}",
        "%a = Cast(%x) : i32[4]\n%b = Abs(%x)",
        "%a = Slice(%x, [0], [0])\n%b = Abs(%x)",
    ],
)
def test_only_single_float_results_with_elements_get_names(text: str) -> None:
    values = (X[:2], np.trunc(X), np.zeros(1, np.float32))
    nodes = [(f"N{n}", "x", f"r{n}", array) for n, array in enumerate(values)]
    assert named(f"graph main(%x: f32[4]) -> %b {{\n{text}\n}}", X, *nodes) == ["a", "b"]


def test_values_of_inner_graphs_keep_their_names() -> None:
    text = (
        "graph main(%x: f32[4], %c: bool[]) -> %y { %y = If(%c, %x) "
        "{then_graph: @inner, else_graph: @inner} : f32[4] }\n"
        "graph inner(%p: f32[4]) -> %r { %q = Neg(%p)\n%r = Abs(%q) }\n"
    )
    model = circlekit.parse(text)
    record = record_of({"x": X}, {}, [("N1", "x", "r1", -X), ("N2", "r1", "r2", np.abs(X))])
    name_values(model, record, [X, np.array(True)])
    assert [op.results[0].name for graph in model.graphs for op in graph] == ["N1;N2", "q", "r"]
