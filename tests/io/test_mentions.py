# SPDX-License-Identifier: Apache-2.0
"""Indices in details of a quantization and in options of opaque operators become references.

References stay valid when passes remove or reorder tensors and graphs.
"""

from __future__ import annotations

import pytest
from ai_edge_litert import schema_py_generated as schema

from circlekit.errors import FormatError, ModelError
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.op import OpaqueOp
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.verifier import verify
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.rewrite.base import Context

BLOCKS = """
model tflite
graph main(%x: f32[1,32]) -> %y {
  %unread = const f32[3] [1.0, 2.0, 3.0]
  %w = const i8[4,32] quant(details: {"": "BlockwiseQuantization", scales: %s, block_size: 16}) constant(3)
  %s = const f16[4,2] uniform(0.5, 1)
  %dead = Neg(%x)
  %y = FullyConnected(%x, %w, none)
}
"""


def scales_of(model: Model) -> object:
    weights = model.main.ops[-1].inputs[1]
    assert weights is not None
    assert weights.quantization is not None
    assert weights.quantization.details is not None
    return weights.quantization.details["scales"]


@pytest.mark.parametrize("name", ["scales", "zero_points"])
def test_a_field_that_the_file_lacks_holds_the_first_tensor(name: str) -> None:
    """The default of the schema is 0, and 0 is the index of the first tensor."""
    model = parse_model(BLOCKS.replace("scales: %s, block_size", f"{name}: %s, block_size"))
    values = list(model.main.values())
    model.main.table = [scale for value in values for scale in value.scale_values] + values
    for _ in range(2):
        data = to_bytes(model)
        tensors = schema.ModelT.InitFromPackedBuf(data).subgraphs[0].tensors
        details = next(tensor for tensor in tensors if tensor.name == b"w").quantization.details
        found = {"scales": details.scales, "zero_points": details.zeroPoints}
        assert found == {"scales": -1, "zero_points": -1} | {name: 0}
        model = load_bytes(data)
        run_passes(model, ["remove_dead"], Context("tflite"))
    weights = next(value for value in model.main.values() if value.name == "w")
    assert [value.name for value in weights.scale_values] == ["s"]


def test_blockwise_scales_are_a_value() -> None:
    model = parse_model(BLOCKS)
    model.main.table = list(model.main.values())
    model = load_bytes(to_bytes(model))
    scales = scales_of(model)
    assert scales is next(v for v in model.main.values() if v.name == "s")
    text = print_model(model)
    assert difference(parse_model(text), model) is None
    assert scales_of(clone(model)) is not scales
    assert difference(clone(model), model) is None

    run_passes(model, ["remove_dead"], Context("tflite"))
    assert [v.name for v in model.main.table] == ["x", "w", "y", "s"], (
        "expected unreferenced values to be removed"
    )
    again = load_bytes(to_bytes(model))
    found = scales_of(again)
    assert found is next(v for v in again.main.values() if v.name == "s")
    assert to_bytes(again) == to_bytes(model)


def test_scales_that_are_not_an_operand_are_written() -> None:
    model = parse_model(BLOCKS)
    assert scales_of(load_bytes(to_bytes(model))).name == "s"  # type: ignore[attr-defined]  # a Value


def test_tensor_index_out_of_range_is_refused() -> None:
    model = parse_model(BLOCKS.replace("scales: %s", "scales: 17"))
    with pytest.raises(FormatError, match=r"details\.scales: index 17, there are \d+ tensors"):
        load_bytes(to_bytes(model))


REGION = """
model tflite
graph main(%x: f32[4]) -> %y {{
  %y = Opaque(%x) {{code: "STABLEHLO_{code}", options: {{"": "Stablehlo{table}Options", {fields}}}}} : f32[4]
}}
graph spare(%a: f32[4]) -> %b {{
  %b = Neg(%a)
}}
graph body(%a: f32[4]) -> %b {{
  %b = Abs(%a)
}}
"""
SORT = REGION.format(code="SORT", table="Sort", fields="dimension: 0, comparator_subgraph_index: @body")
CASE = REGION.format(code="CASE", table="Case", fields="branch_subgraph_indices: [@body, @spare]")
CUSTOM_CALL = REGION.format(
    code="CUSTOM_CALL", table="CustomCall", fields='call_target_name: "f", called_computations: [@body]'
)
CALL = CASE.replace("STABLEHLO_CASE", "CUSTOM").replace("StablehloCaseOptions", "CallOptions")
CALL = CALL.replace("branch_subgraph_indices: [@body, @spare]", "subgraph: @body")


def opaque(model: Model) -> OpaqueOp:
    op = model.main.ops[0]
    assert isinstance(op, OpaqueOp)
    return op


@pytest.mark.parametrize(
    ("text", "names"),
    [(SORT, ["body"]), (CASE, ["body", "spare"]), (CUSTOM_CALL, ["body"]), (CALL, ["body"])],
)
def test_graph_indices_of_opaque_operators_become_graphs(text: str, names: list[str]) -> None:
    model = load_bytes(to_bytes(parse_model(text)))
    graphs = opaque(model).called_graphs()
    assert [g.name for g in graphs] == names
    assert all(any(g is known for known in model.graphs) for g in graphs)
    assert difference(parse_model(print_model(model)), model) is None
    copy = clone(model)
    assert difference(copy, model) is None
    assert not set(opaque(copy).called_graphs()) & set(graphs)

    model.graphs[1:] = model.graphs[:0:-1]  # another order, other indices
    again = load_bytes(to_bytes(model))
    assert [g.name for g in opaque(again).called_graphs()] == names
    assert not verify(again)


def test_an_empty_list_of_graphs_is_written_as_in_the_file() -> None:
    model = parse_model(CUSTOM_CALL.replace("[@body]", "[]"))
    data = to_bytes(model)
    found = load_bytes(data)
    assert opaque(found).called_graphs() == []
    assert to_bytes(found) == data


def test_a_custom_call_keeps_its_graph_when_a_pass_removes_others() -> None:
    text = """
    model tflite
    graph main(%x: f32[4]) -> %y {
      %z = If(true, %x) {then_graph: @then, else_graph: @else} : f32[4]
      OPERATOR
    }
    graph then(%p: f32[4]) -> %q { %q = Neg(%p) }
    graph else(%r: f32[4]) -> %s { %s = Exp(%r) }
    graph body(%a: f32[4]) -> %b { %b = Abs(%a) }
    """
    operator = next(line for line in CUSTOM_CALL.splitlines() if "Opaque" in line)
    model = load_bytes(to_bytes(parse_model(text.replace("OPERATOR", operator.replace("%x", "%z")))))
    run_passes(model, ["remove_constant_if"], Context("tflite"))
    found = load_bytes(to_bytes(model))
    assert [graph.name for graph in found.graphs] == ["main", "body"]
    (op,) = (op for op in found.main if isinstance(op, OpaqueOp))
    assert op.called_graphs() == found.graphs[1:]


def test_reference_to_a_graph_of_another_model_is_refused() -> None:
    model = parse_model(SORT)
    del model.graphs[2]
    assert "not a graph of the model" in str(verify(model)[0])
    with pytest.raises(
        ModelError, match=r"calls the graph body, which is not in the model\n  at .*main > op 0 "
    ):
        to_bytes(model)


def test_a_declared_operator_that_calls_a_graph_of_another_model_is_refused() -> None:
    model = parse_model("""
        graph main(%c: bool[], %x: f32[1]) -> %y {
          %y = If(%c, %x) {then_graph: @body, else_graph: @body}
        }
        graph body(%a: f32[1]) -> %b { %b = Neg(%a) }""")
    del model.graphs[1]
    with pytest.raises(
        ModelError, match=r"IF calls the graph body, which is not in the model\n  at text > main > op 0 If"
    ):
        to_bytes(model)


def test_graph_index_out_of_range_stays_a_number() -> None:
    model = parse_model(SORT.replace("@body", "9"))
    data = to_bytes(model)
    found = load_bytes(data)
    assert opaque(found).called_graphs() == []
    assert opaque(found).option_tree is not None
    assert to_bytes(found) == data
