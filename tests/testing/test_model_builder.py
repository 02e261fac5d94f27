# SPDX-License-Identifier: Apache-2.0
"""The builder of random models: its inputs, which operators it rejects, and which outputs it chooses.

``decide(m, monkeypatch, 0.6)`` makes exactly those random events happen that have the probability 0.6 in
``model_builder.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, OpaqueOp
from circlekit.ir.value import Array, Shape, Value
from circlekit.testing.model_builder import INPUT_SHAPES, ModelBuilder, Rejected, example, graph_of
from tests.testing.draws import decide

SHAPE = (2, 3)


def builder(*shapes: Shape) -> ModelBuilder:
    """Return a builder with inputs of these shapes; an unknown dimension is 3 in the example data."""
    inputs = [Value(f"x{number}", f32, shape) for number, shape in enumerate(shapes)]
    arrays: list[Array] = [np.ones([d or 3 for d in shape], np.float32) for shape in shapes]
    return ModelBuilder(Graph("main", inputs), arrays, np.random.default_rng(5))


@pytest.fixture
def m() -> ModelBuilder:
    return builder(SHAPE)


def test_a_new_builder_has_random_inputs_and_two_or_three_special_ones() -> None:
    made = [ModelBuilder.of_seed(seed) for seed in range(120)]
    graphs = [[v for v in item.graph.inputs if v.name.startswith("x")] for item in made]
    assert {len(data) for data in graphs} == {1, 2}
    assert {v.shape for data in graphs for v in data} == set(INPUT_SHAPES)
    channels = [v.shape for item in made for v in item.graph.inputs if v.name == "channels"]
    assert set(channels) == {(1,), (2,), (3,), (4,)}
    assert 30 < len(channels) < 90
    for seed, item in enumerate(made):
        assert item.allow_extremes is (seed in range(0, 120, 8))
        assert item.pool == list(item.graph.inputs) == list(item.arrays)
        flag, numbers = item.graph.inputs[-2:]
        assert (flag.dtype, flag.shape, numbers.dtype, numbers.shape) == (boolean, (1,), i32, (2, 3))
        assert [v.array().tolist() for v in item.constants] == [[1.0] * 4]


def test_most_often_the_newest_value_of_the_dtype_is_picked(
    m: ModelBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    m.pool = [Value(str(number), f32, (number,)) for number in range(10)]
    decide(m, monkeypatch, 0.6)  # this event: the newest value is picked
    assert m.pick() is m.pool[9]
    assert m.pick(lambda v: v.name < "4") is m.pool[3]
    decide(m, monkeypatch, 0.8)  # this event: one of the last six is picked
    assert {m.pick().name for _ in range(200)} == set("456789")
    decide(m, monkeypatch)  # neither event: any value is picked
    assert {m.pick().name for _ in range(200)} == set("0123456789")
    m.pool = [Value("a", i32, (1,)), Value("b", f32, (1,), None, m.pool[0].quantization)]
    assert (m.pick().name, m.pick(dtype=i32).name) == ("b", "a")
    quantized = REGISTRY["QUANTIZE"](m.pool[1], results=[Value("q", DType.INT8, (1,))]).output
    m.pool = [quantized]
    with pytest.raises(Rejected):
        m.pick(dtype=i32)
    assert m.pick_any(lambda v: v.dtype is DType.INT8) is quantized


def test_float32_constants_of_one_shape_are_shared(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(m, monkeypatch, 0.1)  # this event: an existing constant is taken
    m.constants.append(Value.constant("i", np.zeros(2, np.int32)))
    a, b = m.constant([1.0, 2.0]), m.constant([1.0, 2.0, 3.0])
    assert m.constant([5.0, 5.0]) is a
    assert m.constant([5.0, 5.0, 5.0]) is b
    assert m.constant([1, 2], dtype=np.int32) is not m.constant([1, 2], dtype=np.int32)
    assert m.shape(b) == (3,)
    decide(m, monkeypatch)
    assert m.constant([5.0, 5.0]) is not a


def test_random_unknown_and_invalid_operators_are_rejected(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    drawn = REGISTRY["RANDOM_UNIFORM"](m.ints([2]))
    unknown = OpaqueOp(x, code="CUSTOM", custom_code="Erf", results=[Value("", f32, ())])
    misfit = REGISTRY["ADD"](x, m.constant(np.ones(5)), results=[Value("", f32, SHAPE)])
    wrong_shape = REGISTRY["ADD"](x, m.constant(np.ones(3)), results=[Value("", f32, (9, 9))])
    for op in (drawn, unknown, misfit, wrong_shape):
        with pytest.raises(Rejected):
            m.put(op)
    assert len(m.graph) == 0
    assert [op.code for op, _ in x.uses] == ["CUSTOM", "ADD", "ADD"]
    m.add(REGISTRY["NEG"](x))
    m.remove_rejected()
    assert [op.code for op, _ in x.uses] == ["NEG"]


def test_the_newest_value_and_sometimes_others_are_outputs(
    m: ModelBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (x,) = m.graph.inputs
    unused, shared, other = m.constant([2.0]), m.constant([1.0, 1.0, 1.0]), m.constant(3.0)
    first, second = m.add(REGISTRY["ADD"](x, shared)), m.add(REGISTRY["SUB"](x, other))
    names = {first: "first", second: "second", x: "x", shared: "shared", other: "other", unused: "unused"}

    def outputs(*probabilities: float) -> list[str]:
        decide(m, monkeypatch, *probabilities)
        return sorted(names.get(v, "new") for v in m.model()[0].main.outputs)

    assert outputs() == ["second"]
    assert outputs(0.7, 0.12) == outputs(0.5) == ["first", "second"]  # an earlier result is an output, too
    assert outputs(0.1) == ["second", "second"]  # one value is an output twice
    assert outputs(0.03) == ["second", "shared"]  # a constant is an output, too
    assert outputs(0.05) == ["new", "x"]  # a reshaped input and an input are the outputs


@pytest.mark.parametrize("dtype", [DType.STRING, DType.RESOURCE, DType.VARIANT])
def test_strings_and_handles_are_no_outputs(
    dtype: DType, m: ModelBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(m, monkeypatch)
    made = m.add(REGISTRY["NEG"](m.graph.inputs[0]))
    m.pool.append(m.add(REGISTRY["ABS"](made), keep=False))
    m.pool[-1].dtype = dtype
    assert m.model()[0].main.outputs == (made,)


@pytest.mark.parametrize(("shape", "new"), [((None, 4), (3, 4)), ((2, 4), (2, 4)), ((2, None, None), None)])
def test_a_graph_without_operators_gets_a_reshape_if_one_fits(shape: Shape, new: Shape | None) -> None:
    m = builder(shape)
    if new is None:  # a reshape can keep one unknown dimension only
        assert m.model()[0].main.outputs == m.graph.inputs[:1]
        return
    (op,) = m.model()[0].main
    assert (op.code, m.shape(op.output)) == ("RESHAPE", new)


def test_the_format_has_all_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    formats: dict[str, set[str]] = {"NEG": set(), "RMS_NORM": set()}
    for code, found in formats.items():
        for circle in (True, False):
            m = builder(SHAPE)
            x, gamma = m.graph.inputs[0], m.constant(np.ones(3))
            m.add(REGISTRY["RMS_NORM"](x, gamma) if code == "RMS_NORM" else REGISTRY["NEG"](x))
            decide(m, monkeypatch, *[0.5] * circle)
            model, arrays = m.model()
            found.add(model.format)
            assert [array.shape for array in arrays] == [SHAPE]
    assert formats == {"NEG": {"circle", "tflite"}, "RMS_NORM": {"circle"}}


def test_examples_are_spread_and_some_are_edges(m: ModelBuilder) -> None:
    random = np.random.default_rng(0)
    assert set(example((1000,), i32, random).tolist()) == {0, 1, 2, 3, 4}
    assert 0.4 < example((1000,), boolean, random).mean() < 0.6
    floats = example((None, 1000), f32, random, unknown=2)
    assert floats.shape == (2, 1000)
    edges = np.isin(floats, [0.0, 1.0, -1.0, 3.0, -3.0, 6.0])
    assert 0.15 < edges.mean() < 0.25
    assert 1.3 < floats[~edges].std() < 1.7


@pytest.mark.parametrize(("size", "is_rejected"), [(0, True), (1, False), (4096, False), (4097, True)])
def test_results_of_no_or_many_elements_are_rejected(size: int, is_rejected: bool, m: ModelBuilder) -> None:
    op = REGISTRY["NEG"](m.constant(np.ones(size)))
    if is_rejected:
        with pytest.raises(Rejected):
            m.add(op)
    else:
        assert m.add(op) in m.pool


@pytest.mark.parametrize(
    ("number", "extremes", "is_rejected"),
    [(50.0, False, False), (51.0, False, True), (np.nan, False, True), (51.0, True, False)],
)
def test_large_results_are_rejected_unless_extremes_are_allowed(
    number: float, extremes: bool, is_rejected: bool, m: ModelBuilder
) -> None:
    m.allow_extremes = extremes
    op = REGISTRY["NEG"](m.constant([number]))
    if is_rejected:
        with pytest.raises(Rejected):
            m.put(op)
        return
    m.put(op, keep=False)
    assert op.output not in m.pool
    assert op.graph is m.graph


def test_the_graph_of_an_operator_names_its_operands() -> None:
    named, unnamed = Value("a", f32, SHAPE), Value("", f32, SHAPE)
    graph = graph_of(REGISTRY["ADD"](named, unnamed))
    assert [v.name for v in graph.inputs] == ["a", "rhs1"]
    constant = graph_of(REGISTRY["ADD"](Value("", f32, SHAPE), Value.constant("", np.ones(3, np.float32))))
    assert [v.name for v in constant.ops[0].inputs if v is not None] == ["lhs0", "rhs1"]
    assert [v.name for v in constant.inputs] == ["lhs0"]
