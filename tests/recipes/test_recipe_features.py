# SPDX-License-Identifier: Apache-2.0
"""Features of ``test.recipe`` beyond plain graphs, checked with LiteRT and independent readers."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers

from circlekit.equivalence.litert import run_litert
from circlekit.interp import run
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.model_equality import difference
from circlekit.ir.op import OpaqueOp
from circlekit.recipes.load import _format_of_folder, is_test_recipe, load_recipe, read_recipe
from circlekit.recipes.prototext.message_types import operator_types
from circlekit.recipes.prototext.recipe_reader import read_tree, recipe_format
from circlekit.recipes.recipe_export import write_recipe
from tests.io.oracles import CIRCLE, TFLITE

UNARY = """
operand {{ name: "x" type: {dtype} shape {{ dim: 1 dim: 8 dim: 8 dim: 2 }} }}
operand {{ name: "y" type: {dtype} shape {{ dim: 1 dim: 8 dim: 8 dim: 2 }} }}
operation {{ {operation} input: "x" output: "y" }}
input: "x" output: "y"
"""


def unary(operation: str, dtype: str = "FLOAT32") -> str:
    return UNARY.format(operation=operation, dtype=dtype)


def tflite_tree(text: str) -> Any:
    return TFLITE.read(to_bytes(read_recipe(text, "r", "tflite")))


def options(operation: str, fmt: str = "tflite") -> Any:
    """Return the options of an operator as an independent reader finds them."""
    oracle = TFLITE if fmt == "tflite" else CIRCLE
    tree = oracle.read(to_bytes(read_recipe(unary(operation), "r", fmt)))
    return tree["Subgraphs"][0]["Operators"][0]["BuiltinOptions"]


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("Conv2D", {"Padding": 1, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1}),
        ("DepthwiseConv2D", {"Padding": 1, "DepthMultiplier": 1, "DilationHFactor": 1}),
        ("TransposeConv", {"Padding": 1, "StrideW": 1, "StrideH": 1}),
        ("AveragePool2D", {"Padding": 1, "FilterWidth": 1, "FilterHeight": 1, "StrideW": 1}),
        ("Softmax", {"Beta": 0.0}),
        ("LeakyRelu", {"Alpha": float(np.float32(0.2))}),
        ("LocalResponseNormalization", {"Radius": 5, "Bias": 1.0, "Alpha": 1.0, "Beta": 0.5}),
        ("ArgMax", {"OutputType": 4}),
        ("Shape", {"OutType": 2}),
        ("OneHot", {"Axis": -1}),
        ("SparseToDense", {"ValidateIndices": True}),
        ("Unique", {"IdxOutType": 2}),
        ("Mean", {"KeepDims": False}),
        ("BidirectionalSequenceLSTM", {"TimeMajor": True, "MergeOutputs": False}),
    ],
)  # fmt: skip
def test_defaults_of_the_recipe_language(operation: str, wanted: dict[str, object]) -> None:
    found = options(f'type: "{operation}"')
    assert {name: found[name] for name in wanted} == wanted


def test_defaults_of_circle() -> None:
    assert options('type: "InstanceNorm"', "circle")["Epsilon"] == float(np.float32(1e-5))
    found = options('type: "BatchMatMul" batch_matmul_options { adjoint_lhs: true }', "circle")
    assert (found["AdjointLhs"], found["AdjointRhs"]) == (True, False)


def test_options_that_one_lacks() -> None:
    """Recipes of ONE cannot state these options."""
    found = options('type: "FullyConnected" fullyconnected_options { asymmetric_quantize_inputs: true }')
    assert found["AsymmetricQuantizeInputs"] is True
    found = options('type: "Bucketize" bucketize_options { boundaries: [0.5, 1] }')
    assert found["Boundaries"].tolist() == [0.5, 1]


def test_other_graphs_may_be_written_before_the_main_graph() -> None:
    text = """
    graph { operand { name: "a" type: BOOL shape { } } input: "a" output: "a" }
    graph { operand { name: "a" type: BOOL shape { } } input: "a" output: "a" name: "body" }
    operand { name: "x" type: BOOL shape { } }
    operand { name: "y" type: BOOL shape { } }
    operation { type: "While" input: "x" output: "y"
                while_options { cond_subgraph_index: 1 body_subgraph_index: 2 } }
    input: "x" output: "y"
    """
    assert [g.name for g in read_recipe(text, "r").graphs] == ["main", "sub_1", "body"]
    run_litert(to_bytes(read_recipe(text, "r")), [np.array(False)])


VERSIONS = """
operand { name: "a" type: FLOAT32 shape { } }
operand { name: "b" type: FLOAT32 shape { } }
operand { name: "c" type: FLOAT32 shape { } }
operand { name: "d" type: FLOAT32 shape { } }
operation { type: "Abs" version: 2 input: "a" output: "b" }
operation { type: "Neg" input: "b" output: "c" }
operation { type: "Abs" version: 5 input: "c" output: "d" }
input: "a" output: "d"
"""


def test_operator_code_gets_the_highest_version() -> None:
    codes: Any = tflite_tree(VERSIONS)["OperatorCodes"]
    assert [(c["DeprecatedBuiltinCode"], c["Version"]) for c in codes] == [(59, 1), (101, 5)]  # NEG, ABS
    codes = tflite_tree("keep_versions: true" + VERSIONS)["OperatorCodes"]
    assert [c["Version"] for c in codes] == [1, 2, 5]


SPARSE = """
operand { name: "w" type: FLOAT32 shape { dim: 2 dim: 2 dim: 3 } make_sparse: true
          filler { tag: "explicit" arg: "0" arg: "1" arg: "2" arg: "0" arg: "0" arg: "0"
                   arg: "3" arg: "0" arg: "-4" } }
operand { name: "d" type: FLOAT32 shape { dim: 2 dim: 2 dim: 3 } }
operand { name: "x" type: FLOAT32 shape { dim: 2 dim: 2 dim: 3 } }
operand { name: "y" type: FLOAT32 shape { dim: 2 dim: 2 dim: 3 } }
operation { type: "Densify" input: "w" output: "d" }
operation { type: "Add" input: "x" input: "d" output: "y" add_options { } }
input: "x" output: "y"
"""


def test_sparse_constants_agree_with_litert() -> None:
    data = to_bytes(read_recipe(SPARSE, "r"))
    tensor = TFLITE.read(data)["Subgraphs"][0]["Tensors"][0]
    last = tensor["Sparsity"]["DimMetadata"][2]  # the rows have 2, 0, 2 and 0 non-zero elements
    assert last["ArraySegments"]["Values"].tolist() == [0, 2, 2, 4, 4]
    assert last["ArrayIndices"]["Values"].tolist() == [1, 2, 0, 2]
    assert [d["DenseSize"] for d in tensor["Sparsity"]["DimMetadata"]] == [2, 2, 0]
    (found,) = run_litert(data, [np.zeros((2, 2, 3), np.float32)])
    assert found.reshape(-1).tolist() == [0, 1, 2, 0, 0, 0, 3, 0, -4, 0, 0, 0]


def test_data_after_the_flatbuffer() -> None:
    text = SPARSE + "ext_offset: true"
    buffers = TFLITE.read(to_bytes(read_recipe(text, "r")))["Buffers"]
    assert [b["Size"] for b in buffers if b["Offset"] > 1] == [16]  # 4 non-zero float32
    assert all(b["Data"] is None for b in buffers)
    Interpreter(model_content=to_bytes(read_recipe(text, "r"))).allocate_tensors()


@pytest.mark.parametrize(
    ("custom", "wanted"),
    [
        ("AddV2", {"T": 0}),
        ("Erf", {"T": 0}),
        ("BroadcastTo", {"T": 0, "Tidx": 2}),
        ("MatrixBandPart", {"T": 0, "Tindex": 4}),
        ("All", {"Tidx": 2, "keep_dims": True}),
        ("MatMul", {"T": 0, "transpose_a": False, "transpose_b": True}),
        ("BatchMatMulV2", {"T": 0, "adj_x": True, "adj_y": False}),
        (
            "MaxPoolWithArgmax",
            {
                "T": 0, "Targmax": 2, "ksize": [1, 3, 1, 1], "strides": [1, 2, 1, 1], "padding": "SAME",
                "include_batch_in_index": False,
            },
        ),
        ("Unheard", None),
    ],
)  # fmt: skip
def test_custom_operators(custom: str, wanted: dict[str, object] | None) -> None:
    """An operator stores its own options only.  The dtypes: FLOAT32 is 0, INT32 is 2, INT64 is 4."""
    all_options = """all_options { keep_dims: true } matmul_options { transpose_b: true }
    batch_matmul_options { adj_x: true }
    max_pool_with_argmax_options { padding: SAME filter_width: 3 stride_w: 2 output_type: INT32 }"""
    model = read_recipe(unary(f'type: "Custom" custom_code: "{custom}" {all_options}'), "r")
    tree = TFLITE.read(to_bytes(model))
    assert tree["OperatorCodes"][0]["CustomCode"] == custom.encode()
    stored = tree["Subgraphs"][0]["Operators"][0]["CustomOptions"]
    assert (stored is None) == (wanted is None)
    if wanted is not None:
        assert flexbuffers.Loads(bytearray(stored.tobytes())) == wanted
    assert isinstance(model.main.ops[0], OpaqueOp) or model.main.ops[0].code == "CUSTOM"


@pytest.mark.parametrize("options", ["AAECAw==", ""])
@pytest.mark.parametrize("code", ["Mine", "AddV2"])
def test_options_of_custom_operators_survive_a_round_trip(code: str, options: str, tmp_path: Path) -> None:
    model = read_recipe(unary(f'type: "Custom" custom_code: "{code}" custom_options: "{options}"'), "r")
    stored = TFLITE.read(to_bytes(model))["Subgraphs"][0]["Operators"][0]["CustomOptions"]
    assert stored.tobytes() == base64.b64decode(options)  # a vector without elements is not an absent one
    write_recipe(model, tmp_path / "r.recipe", "tflite")
    assert difference(load_recipe(tmp_path / "r.recipe"), model) is None
    assert f'custom_options: "{options}"' in (tmp_path / "r.recipe").read_text()


@pytest.mark.parametrize("block_map", ["", "block_map { }", "block_map { dim: 1 }"])
def test_an_absent_block_map_stays_absent(block_map: str, tmp_path: Path) -> None:
    dense = "dim_metadata { format: DENSE dense_size: 2 }"
    sparsity = f"sparsity {{ traversal_order {{ dim: 0 dim: 1 }} {block_map} {dense} {dense} }}"
    filler = 'filler { tag: "explicit" arg: "1" arg: "2" arg: "3" arg: "4" }'
    weights = f'operand {{ name: "w" type: FLOAT32 shape {{ dim: 2 dim: 2 }} {sparsity} {filler} }}'
    model = read_recipe(
        f'''{weights} operand {{ name: "y" type: FLOAT32 shape {{ dim: 2 dim: 2 }} }}
        operation {{ type: "Densify" input: "w" output: "y" }} output: "y"''',
        "r",
    )
    write_recipe(model, tmp_path / "r.recipe", "tflite")
    assert difference(load_recipe(tmp_path / "r.recipe"), model) is None
    stored = next(v for v in model.main.values() if v.name == "w").extra["sparsity"]
    assert ("block_map" in stored) == bool(block_map)


def test_format_follows_from_the_operators_or_the_folder(tmp_path: Path) -> None:
    assert read_recipe(unary('type: "Abs"'), "r").format == "tflite"
    assert read_recipe(unary('type: "Abs"'), "r", "circle").format == "circle"
    assert read_recipe(unary('type: "Abs"', "MXINT8"), "r").format == "circle"
    assert read_recipe("# UINT4 in a comment\n" + unary('type: "Abs"'), "r").format == "tflite"
    assert read_recipe(unary("type: 'InstanceNorm'"), "r").format == "circle"
    for field in ("name", "input", "custom_code"):
        assert recipe_format(f'{field}: "InstanceNorm" {field}: "type: \\"InstanceNorm\\""') is None
    assert read_recipe("# format: circle\r\n" + unary('type: "Abs"'), "r").format == "circle"
    assert read_recipe("# format: circle\n" + unary('type: "Abs"'), "r", "tflite").format == "tflite"
    path = tmp_path / "CircleRecipes" / "Abs_000" / "test.recipe"
    path.parent.mkdir(parents=True)
    path.write_text(unary('type: "Abs"'))
    assert load_recipe(path).format == "circle"
    assert load_recipe(path, "tflite").format == "tflite"
    below = tmp_path / "TensorFlowLiteRecipes" / "test.recipe"
    below.parent.mkdir()
    below.write_text(unary('type: "Abs"', "MXINT8"))
    assert load_recipe(below).format == "circle"


@pytest.mark.parametrize("fmt", ["circle", "tflite"])
def test_every_builtin_operator_may_be_without_options(fmt: str) -> None:
    for type_, code in operator_types(fmt).items():
        if code != "CUSTOM":
            assert read_recipe(unary(f'type: "{type_}"'), "r", fmt).main.ops[0].code == code


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("CircleRecipes/a/b/test.recipe", "circle"),
        ("CircleRecipes/a/b/c/test.recipe", None),
        ("TensorFlowLiteRecipes/test.recipe", "tflite"),
        ("TensorFlowLiteRecipes/circle/x/test.recipe", "circle"),
    ],
)
def test_the_format_that_the_nearest_of_three_folders_implies(path: str, format: str | None) -> None:
    assert _format_of_folder(Path("/") / path) == format


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("operand {", True),
        ("# c\n\n  name: 'x'", True),
        ("graph {", True),
        ("graph main(%x", False),
        ("model circle {version: 0}", False),
        ("extra {a: 1}", False),
        ("# c\nrules { total(1) }", False),
        ("rules_of { name", True),
        ('metadata "a" "b"', False),
        ("metadata { name", True),
        ("", False),
    ],
)
def test_recipe_languages_are_detected(text: str, wanted: bool) -> None:
    assert is_test_recipe(text) == wanted


def test_rules_may_precede_the_graph() -> None:
    graph = "graph main(%x: f32[1,4]) -> %z {\n  %z = Relu(%x) : f32[1,4]\n}\n"
    expected = read_recipe(graph, "r")
    assert difference(read_recipe("rules { total(1) }\n" + graph, "r"), expected) is None


COOK = """
import sys
from circlekit.io.write.save import to_bytes
from circlekit.recipes.load import load_recipe
sys.stdout.buffer.write(to_bytes(load_recipe(sys.argv[1])))
"""


def test_same_bytes_in_every_process(tmp_path: Path) -> None:
    path = tmp_path / "test.recipe"
    random = [
        f'operand {{ name: "w{i}" type: {dtype} shape {{ dim: 100 }}'
        ' filler { tag: "gaussian" arg: "0.5" arg: "3" } }'
        for i, dtype in enumerate(("FLOAT32", "INT32", "UINT8", "FLOAT16"))
    ]
    path.write_text("\n".join(random) + unary('type: "Custom" custom_code: "All"'))
    moved = tmp_path / "elsewhere.recipe"
    moved.write_text(path.read_text())
    found = set()
    for seed, locale, file in (("0", "C", path), ("1", "C.UTF-8", path), ("77", "de_DE.UTF-8", moved)):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": "Asia/Seoul"}
        command = [sys.executable, "-c", COOK, str(file)]
        found.add(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert len(found) == 1


def test_order_of_operator_codes_and_bytes_of_metadata() -> None:
    """Operator codes are sorted by number, and custom ones come last."""
    operations = ('type: "Custom" custom_code: "Mine"', 'type: "Sin"', 'type: "Abs"')
    operands = "".join(f'operand {{ name: "{n}" type: FLOAT32 shape {{ dim: 1 }} }}' for n in "xabc")
    lines = "".join(
        f'operation {{ {op} input: "x" output: "{n}" }}' for op, n in zip(operations, "abc", strict=True)
    )
    more = 'metadata { name: "t" data: "text" } metadata { name: "b" base64: "AAE=" }'
    text = f'{operands}{lines} input: "x" output: "c" {more}'
    tree, _ = read_tree(text, "r", "tflite", lambda name: b"")
    assert [code["builtin_code"] for code in tree["operator_codes"]] == ["SIN", "ABS", "CUSTOM"]
    data = [bytes(tree["buffers"][item["buffer"]]["data"]) for item in tree["metadata"]]
    assert data == [b"text", b"\0\1"]


def test_a_sparse_constant_without_columns_has_all_its_rows() -> None:
    text = """
    operand { name: "w" type: FLOAT32 shape { dim: 2 dim: 0 } make_sparse: true
              filler { tag: "constant" arg: "0" } }
    operand { name: "y" type: FLOAT32 shape { dim: 2 dim: 0 } }
    operation { type: "Densify" input: "w" output: "y" }
    output: "y"
    """
    model = read_recipe(text, "r")
    (result,) = run(load_bytes(memoryview(to_bytes(model)), "r"), [])
    assert result.shape == (2, 0)
