# SPDX-License-Identifier: Apache-2.0
"""Resized models have the shapes of ONE's tests, and the values of LiteRT after resize_tensor_input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.cli.structure.resize import circle_resizer, resize_command
from circlekit.equivalence.litert import run_litert
from circlekit.errors import ModelError, ShapeError
from circlekit.interp.interpreter import run
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.value import same_array
from circlekit.ir.verifier import check
from circlekit.structure.input_shapes import parse_shapes
from circlekit.structure.known_integers import MAX_KNOWN_ELEMENTS
from tests.recipes.one_recipes import one_recipe

ONE_ROWS = [
    ("Split_001", [[8, 1, 2]], [(4, 1, 2), (4, 1, 2)]),
    ("Inf_StridedSlice_002", [[1, 10, 10, 5]], None),
    ("CSE_Quantize_000", [[1, 6, 6, 4]], [(1, 6, 6, 4), (1, 6, 6, 4)]),
    ("Add_000", [[1, 5, 5, 3]] * 2, [(1, 5, 5, 3)]),
    ("Part_Add_Sqrt_Rsqrt_000", [[1, 5, 5, 2]] * 2, [(1, 5, 5, 2), (1, 5, 5, 2)]),
]
"""Recipe, shapes of inputs, shapes of outputs (None: not compared), from ONE's circle-resizer tests."""


@pytest.mark.parametrize(("recipe", "inputs", "outputs"), ONE_ROWS)
def test_shapes_are_those_of_ones_tests(
    recipe: str, inputs: list[list[int]], outputs: list[tuple[int, ...]] | None, shared: Path
) -> None:
    model = one_recipe(shared, recipe)
    resized = circlekit.resize(model, inputs)
    check(resized)
    check_shapes(resized)
    arrays = [np.ones(v.static_shape, v.dtype.numpy) for v in resized.main.inputs]
    shapes = [a.shape for a in run(resized, arrays)]
    assert shapes == [v.shape for v in resized.main.outputs]
    assert outputs is None or shapes == outputs


EXPAND = "graph main(%x: f32[3,3]) -> %y {\n %y = ExpandDims(%x, 1) : f32[3,1,3]\n}"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ([4, 6], (4, 1, 6)),
        ([1, 2, 3, 4], (1, 1, 2, 3, 4)),
        ([4, -1], (4, 1, None)),
        ([4, None], (4, 1, None)),
    ],
)
def test_an_input_may_get_another_rank_and_unknown_dimensions(
    shape: list[int | None], expected: tuple[int | None, ...]
) -> None:
    resized = circlekit.resize(circlekit.parse(EXPAND), [shape])
    assert resized.main.outputs[0].shape == expected


@pytest.mark.parametrize(
    ("name", "shape", "unknown"),
    [
        ("tensorflow/transformer.f32", [3, 16], False),
        ("mlperf_tiny/kws_ref_model", [2, 49, 10, 1], True),
        ("tensorflow/espcn.f32", [2, 20, 24, 1], False),
    ],
)
def test_values_are_those_of_litert(name: str, shape: list[int], unknown: bool, shared: Path) -> None:
    path = shared / "models" / f"{name}.tflite"
    model = circlekit.load(path)
    resized = circlekit.resize(model, [[-1, *shape[1:]] if unknown else shape])
    dtype = model.main.inputs[0].dtype.numpy
    array = np.random.default_rng(0).integers(0, 5, shape).astype(dtype)
    (expected,) = run_litert(path.read_bytes(), [array])
    np.testing.assert_allclose(run(resized, [array])[0], expected, rtol=1e-4, atol=1e-5)


def test_a_reshape_that_stands_for_a_transpose_keeps_the_batch(shared: Path) -> None:
    """The exporter moved the batch of 1 behind the time steps; two sequences are not one of 20 steps."""
    model = circlekit.load(shared / "models/tensorflow/lstm.f32.tflite")
    with pytest.raises(ShapeError, match=r"shape \[10, 1, 8\] does not follow .* to \[2,10,8\]"):
        circlekit.resize(model, [[2, 10, 8]])


def test_batch_can_change_where_a_reshape_merges_it_with_another_axis(shared: Path) -> None:
    """Attention: reshapes to [heads, rows, columns] and back, with -1 in one of the shapes."""
    model = circlekit.load(shared / "models/tico/llm_block.circle")
    rng = np.random.default_rng(0)
    batch = [rng.normal(size=(2, *v.static_shape[1:])).astype(np.float32) for v in model.main.inputs]
    resized = circlekit.resize(model, [[-1, *v.static_shape[1:]] for v in model.main.inputs])
    expected = np.concatenate([run(model, [a[i : i + 1] for a in batch])[0] for i in range(2)])
    np.testing.assert_allclose(run(resized, batch)[0], expected, rtol=1e-4, atol=1e-5)


def outputs_after(text: str, shape: list[int | None]) -> tuple[int | None, ...] | None:
    """Return the shape of the first output if the only input gets ``shape``."""
    return circlekit.resize(circlekit.parse(text), [shape]).main.outputs[0].shape


def test_constants_that_state_shapes_follow() -> None:
    flat = "graph main(%x: f32[1,2,3]) -> %y {{ %y = Reshape(%x, {}) : f32[{}] }}"
    assert outputs_after(flat.format("[1,6]", "1,6"), [4, 2, 3]) == (4, 6)
    assert outputs_after(flat.format("[1,6]", "1,6"), [1, 2, 5]) == (1, 10)
    assert outputs_after(flat.format("[1,6]", "1,6"), [None, 2, 3]) == (None, 6)
    assert outputs_after(flat.format("[-1,6]", "1,6"), [4, 2, 3]) == (4, 6)
    assert outputs_after(flat.format("[1,-1]", "1,6"), [4, 2, 3]) == (4, 6)
    assert outputs_after(flat.format("[6]", "6"), [4, 2, 3]) == (24,)
    begin = "graph main(%x: f32[1,4]) -> %y { %y = Slice(%x, [0,1], [1,3]) : f32[1,3] }"
    assert outputs_after(begin, [2, 6]) == (2, 5)
    images = "graph main(%x: f32[1,4,4,1]) -> %y { %y = ResizeBilinear(%x, [8,12]) : f32[1,8,12,1] }"
    assert outputs_after(images, [2, 6, 6, 1]) == (2, 12, 18, 1)


def test_only_the_operand_that_states_a_shape_changes_where_operands_are_one_constant() -> None:
    model = circlekit.parse("""
        graph main(%x: f32[2,4]) -> %y {
          %both = const i32[2] [1, 2]
          %y = Slice(%x, %both, %both)
        }
    """)
    resized = circlekit.resize(model, [[2, 6]])
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(run(resized, [x])[0], x[1:, 2:])


def test_shapes_computed_in_the_model_are_computed_again() -> None:
    text = """
        graph main(%x: f32[1,2,3]) -> %y {
          %s = Shape(%x) {out_type: i32}                            : i32[3]
          %n = StridedSlice(%s, [0], [1], [1]) {shrink_axis_mask: 1} : i32[]
          %t = Pack(%n, 6) {values_count: 2}                        : i32[2]
          %y = Reshape(%x, %t)                                      : f32[?,6]
        }"""
    assert outputs_after(text, [5, 2, 3]) == (5, 6)
    assert outputs_after(text, [None, 2, 3]) == (None, 6)


@pytest.mark.parametrize(
    ("first", "shape", "expected"),
    [
        (1, [None, 3, 4], (None, 12)),
        (1, [None, None, 4], (None, None)),  # the product depends on an unknown dimension
        (0, [None, 3, 4], (None, None)),
    ],
)
def test_known_sizes_are_computed_beside_unknown_ones(
    first: int, shape: list[int | None], expected: tuple[int | None, ...]
) -> None:
    """A flatten as TensorFlow exports it: the product of two sizes, ``first`` and 2, beside a -1."""
    text = f"""
        graph main(%x: f32[1,2,2]) -> %y {{
          %s = Shape(%x) {{out_type: i32}}                                             : i32[3]
          %a = StridedSlice(%s, [{first}], [{first + 1}], [1]) {{shrink_axis_mask: 1}} : i32[]
          %b = StridedSlice(%s, [2], [3], [1]) {{shrink_axis_mask: 1}}                 : i32[]
          %n = Mul(%a, %b)                                                           : i32[]
          %t = Pack(-1, %n) {{values_count: 2}}                                        : i32[2]
          %y = Reshape(%x, %t)                                                       : f32[?,?]
        }}"""
    assert outputs_after(text, shape) == expected


def test_an_unknown_size_is_not_used_as_an_axis() -> None:
    """The batch is the axis along which a matrix is reversed; a -1 in its place would mean the last axis."""
    text = """
        graph main(%x: f32[1,2]) -> %y {
          %m = const i32[2,2] [5, 6, 7, 8]
          %s = Shape(%x) {out_type: i32}   : i32[2]
          %n = Slice(%s, [0], [1])         : i32[1]
          %r = ReverseV2(%m, %n)           : i32[2,2]
          %c = Slice(%r, [0, 0], [1, 1])   : i32[1,1]
          %t = Reshape(%c, [1])            : i32[1]
          %y = Fill(%t, 0.0)               : f32[?]
        }"""
    assert outputs_after(text, [0, 2]) == (7,)
    assert outputs_after(text, [1, 2]) == (6,)
    assert outputs_after(text, [None, 2]) == (None,)


@pytest.mark.parametrize(
    ("line", "expected", "unknown"),
    [
        ("StridedSlice(%d, [0, 0], %ten, [1, 1])", (10, 3), (10, None)),
        ("StridedSlice(%d, %zero, [10, 5], [1, 1])", (10, 2), (10, None)),
        ("Slice(%d, [0, 0], %ten)", (10, 3), (None, None)),  # it does not fit if the batch is above 5
        ("Slice(%d, %zero, [10, 2])", (10, 2), (10, 2)),
        ("Fill(%ten, 0.0)", (10, 3), (10, None)),
        ("Tile(%d, %one)", (10, 15), (10, None)),
        ("Sum(%d, %n) {keep_dims: true}", None, (None, None)),
    ],
)
def test_an_unknown_size_is_no_minus_one_for_shape_rules(
    line: str, expected: tuple[int, ...] | None, unknown: tuple[int | None, ...]
) -> None:
    """The shape of %y for a batch of 3 (None: such an axis does not exist), and for an unknown batch %n."""
    text = f"""
        graph main(%x: f32[1,2]) -> %y {{
          %d = const f32[10,5] gaussian(0, 1)
          %s = Shape(%x) {{out_type: i32}}                             : i32[2]
          %n = StridedSlice(%s, [0], [1], [1]) {{shrink_axis_mask: 1}} : i32[]
          %ten = Pack(10, %n) {{values_count: 2}}                      : i32[2]
          %one = Pack(1, %n) {{values_count: 2}}                       : i32[2]
          %zero = Pack(0, %n) {{values_count: 2}}                      : i32[2]
          %y = {line} : f32[?,?]
        }}"""
    if expected is not None:
        assert outputs_after(text, [3, 2]) == expected
    assert outputs_after(text, [None, 2]) == unknown


@pytest.mark.parametrize(("more", "expected"), [(0, (2, 12)), (1, (None, None))])
def test_integers_are_computed_if_they_are_few(more: int, expected: tuple[int | None, ...]) -> None:
    """The model computes a vector of 2 * ``repeats`` integers, and reshapes to its first two.

    A vector of more than MAX_KNOWN_ELEMENTS integers is not computed, so the new shape stays unknown.
    """
    repeats = MAX_KNOWN_ELEMENTS // 2 + more
    text = f"""
        graph main(%x: f32[2,3]) -> %y {{
          %s = Shape(%x) {{out_type: i32}}          : i32[2]
          %m = Tile(%s, [{repeats}])                : i32[{2 * repeats}]
          %t = Slice(%m, [0], [2])                  : i32[2]
          %y = Reshape(%x, %t)                      : f32[?,?]
        }}"""
    assert outputs_after(text, [2, 12]) == expected


def test_shapes_with_several_unknown_sizes_keep_the_rank() -> None:
    """A RESHAPE accepts at most one -1 in its new shape."""
    text = """
        graph main(%x: f32[2,3,4]) -> %y {
          %s = Shape(%x) {out_type: i32} : i32[3]
          %y = Reshape(%x, %s)           : f32[2,3,4]
        }"""
    assert outputs_after(text, [5, 3, None]) == (5, 3, None)
    assert outputs_after(text, [None, None, 4]) == (None, None, 4)


def test_results_without_a_shape_rule_keep_their_rank_only() -> None:
    text = (
        'graph main(%x: f32[1,4]) -> %y {{ %y = Opaque(%x) {{code: "CUSTOM", custom_code: "A"}} : f32[{}] }}'
    )
    assert outputs_after(text.format("1,4,7"), [2, 4]) == (None, None, None)
    assert outputs_after(text.format("*"), [2, 4]) is None


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"x": [3]}, [(3,), None]),
        ({"x": [None], "u": [4]}, [(None,), (4,)]),
        ({"u": [4, None]}, [(2,), (4, None)]),
        ({"x": [2, 2]}, [(2, 2), None]),
    ],
)
def test_inputs_of_unknown_rank_may_get_a_shape_or_stay(
    shapes: dict[str, list[int | None]], expected: list[object]
) -> None:
    model = circlekit.parse("graph main(%x: f32[2], %u: f32[*]) -> %y, %v {\n%y = Neg(%x)\n%v = Neg(%u)\n}")
    resized = circlekit.resize(model, shapes)
    assert [value.shape for value in resized.main.inputs] == expected
    assert [value.shape for value in resized.main.outputs] == expected


def test_called_graphs_are_resized() -> None:
    text = """
        graph main(%c: bool[], %x: f32[2]) -> %y {
          %y = If(%c, %x) {then_graph: @a, else_graph: @b} : f32[2]
        }
        graph a(%x: f32[2]) -> %y { %y = Neg(%x) : f32[2] }
        graph b(%x: f32[2]) -> %y { %y = Exp(%x) : f32[2] }"""
    resized = circlekit.resize(circlekit.parse(text), {"x": [7]})
    assert [v.shape for g in resized.graphs for v in g.outputs] == [(7,)] * 3


LOOP = """
graph main(%n: i32[], %x: f32[2,3]) -> %m, %y {{
  %m, %y = While(%n, %x) {{cond: @cond, body: @body}} : i32[], f32[{rows},3]
}}
graph cond(%n: i32[], %x: f32[{rows},3]) -> %c {{ %c = Less(%n, 2) : bool[] }}
graph body(%n: i32[], %x: f32[{rows},3]) -> %k, %z {{
  %k = Add(%n, 1) : i32[]
  %z = {step}     : f32[{rows},3]
}}"""


def test_a_loop_whose_sizes_change_keeps_them_unknown() -> None:
    model = circlekit.parse(LOOP.format(rows="?", step="Concatenation(%x, %x) {axis: 0}"))
    resized = circlekit.resize(model, {"x": [5, 3]})
    assert [g.inputs[1].shape for g in resized.graphs] == [(5, 3), (None, 3), (None, 3)]
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    assert same_array(circlekit.run(resized, [np.zeros((), np.int32), x])[1], np.tile(x, (4, 1)))


def test_a_loop_keeps_the_shapes_of_its_values_or_is_refused() -> None:
    model = circlekit.parse(LOOP.format(rows=2, step="Neg(%x)"))
    assert [g.outputs[-1].shape for g in circlekit.resize(model, {"x": [5, 3]}).graphs] == [
        (5, 3),
        (),
        (5, 3),
    ]
    model = circlekit.parse(LOOP.format(rows=2, step="Fill([2,3], 0.0)"))
    message = r"%x of the loop body has shape \[5,3\], but the next round would get %z of shape \[2,3\]"
    with pytest.raises(ShapeError, match=message):
        circlekit.resize(model, {"x": [5, 3]})


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("(%a: f32[], %b: f32[]) -> %r { %r = Add(%a, %b) }", ()),  # one element, twice
        ("(%a: f32[2,3]) -> %r { %r = Neg(%a) }", (4, 3)),
    ],
)
def test_graphs_of_unknown_operators_are_resized_if_they_take_the_operands(
    graph: str, expected: tuple[int, ...]
) -> None:
    model = circlekit.parse(f"""
        graph main(%x: f32[2,3]) -> %y {{
          %y = Opaque(%x) {{code: "STABLEHLO_REDUCE", options: {{body_subgraph_index: @called}}}} : f32[2]
        }}
        graph called{graph}
    """)
    called = circlekit.resize(model, [[4, 3]]).graphs[1]
    assert called.inputs[0].shape == called.outputs[0].shape == expected


def test_a_graph_that_is_called_twice_needs_equal_shapes() -> None:
    model = circlekit.parse("""
        graph main(%c: bool[], %x: f32[2], %z: f32[2]) -> %y, %w {
          %y = If(%c, %x) {then_graph: @a, else_graph: @a} : f32[2]
          %w = If(%c, %z) {then_graph: @a, else_graph: @a} : f32[2]
        }
        graph a(%x: f32[2]) -> %y { %y = Neg(%x) : f32[2] }""")
    assert circlekit.resize(model, {"x": [7], "z": [7]}).main.outputs[1].shape == (7,)
    with pytest.raises(ShapeError, match="graph a is called with different shapes"):
        circlekit.resize(model, {"x": [7], "z": [8]})


def test_a_call_with_too_few_operands_is_refused() -> None:
    model = circlekit.parse("""
        graph main(%c: bool[], %x: f32[2]) -> %y {
          %y = If(%c, %x) {then_graph: @a, else_graph: @a} : f32[2]
        }
        graph a(%x: f32[2], %y: f32[2], %z: f32[2]) -> %r { %r = Neg(%x) : f32[2] }""")
    with pytest.raises(ShapeError, match=r"graph a: expected 3 operands, got 2\n(.*\n)*.*op 0 If"):
        circlekit.resize(model, {"x": [7]})


def test_what_does_not_fit_is_refused_with_its_place() -> None:
    model = circlekit.parse("graph main(%x: f32[1,4]) -> %y { %y = Add(%x, [1.0,2.0,3.0,4.0]) : f32[1,4] }")
    with pytest.raises(ShapeError, match=r"op 0 Add"):
        circlekit.resize(model, [[1, 5]])
    with pytest.raises(ModelError, match="Expected 1 shapes but provided 2"):
        circlekit.resize(model, [[1, 4], [1]])
    with pytest.raises(ModelError, match=r"Expected 1 shapes but provided 0$"):  # ONE's words
        circlekit.resize(model, [])
    with pytest.raises(ModelError, match="no input named 'z'"):
        circlekit.resize(model, {"z": [1]})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([[-2, 4]], "expected dimensions from 0 to 2147483647, or -1 for an unknown one, got -2"),
        ([[2**31, 4]], "got 2147483648"),
        ([[2.5, 4]], r"got 2\.5"),
        ([["2", 4]], "got '2'"),
        (["1,4"], r"expected a shape, such as \[1, 8\], got '1,4'"),
        ([4], "expected a shape, .* got 4"),
        ([[1] * 33], "expected at most 32 dimensions, got 33"),
        ("[1,4]", "expected a list of shapes, or a dict by input name, got str"),
        (None, "expected a list of shapes, .* got NoneType"),
        ({"x": 4}, "expected a shape, .* got 4"),
        ({4: [1]}, "expected the name of an input, got int"),
    ],
)
def test_invalid_shapes_are_refused(shapes: Any, message: str) -> None:
    """No operator reads the input, so no shape rule could refuse the shape."""
    with pytest.raises(ModelError, match=message):
        circlekit.resize(circlekit.parse("graph main(%x: f32[1,4]) -> %x {}"), shapes)


def test_shapes_are_parsed_from_text() -> None:
    assert parse_shapes(" [1, 2],[-1] ,[]") == [[1, 2], [-1], []]
    for text in ("", "1,2", "[1,a]", "[1", "[1],2"):
        with pytest.raises(ShapeError):
            parse_shapes(text)


def test_commands_print_the_new_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = str(tmp_path / "in.circle"), str(tmp_path / "out.circle")
    circlekit.save(circlekit.parse(EXPAND), source)
    words = ["--input_path", source, "--output_path", target, "--input_shapes"]
    assert circle_resizer([*words, "[4,-1]"]) == 0
    text = capsys.readouterr().out
    assert "Shapes of outputs after resizing:\n0 -> [4, 1, -1]\n" in text
    assert circlekit.load(target).main.outputs[0].shape == (4, 1, None)
    assert circle_resizer([*words, "[4,5],[6]"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ERROR: Exception during resizing: Expected 1 shapes but provided 2")
    assert resize_command([source, "-o", target, "--batch", "2"]) == 0
    assert circlekit.load(target).main.outputs[0].shape == (2, 1, 3)
    assert resize_command([source, "-o", target, "--input", "x=[5,6]"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["x: [3, 3] -> [5, 6]", "y: [3, 1, 3] -> [5, 1, 6]"]
    assert resize_command([source, "-o", target, "--input", "x=[5,6],[7]"]) == 2
    assert "--input: expected NAME=SHAPE" in capsys.readouterr().err
