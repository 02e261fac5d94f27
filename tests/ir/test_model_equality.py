# SPDX-License-Identifier: Apache-2.0
"""``difference`` sees every change and says where it is; ``clone`` shares nothing that can change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.model_equality import difference
from circlekit.ir.op import OpaqueOp
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value
from circlekit.ir.verifier import verify
from tests.ir.recipes import everything, graph_text, same_clone

TEXT = (
    'model circle {description: "d"}\nmetadata "m" "1"\nsignature "s" @main (a: %x, b: %x) -> (b: %y)\n'
    + graph_text(
        "%w = const i8[2] quant(scale: [0.5, 0.25]) [1, 2]",
        "%1 = Add(%x, %x)",
        "%2 = Sub(%1, %x)",
        '%3 = Opaque(%2, %w) {code: "CUSTOM", custom_code: "c", options: {a: 1}} : f32[1,4]',
        "%n, %y = While(0, %3) {cond: @cond, body: @body}",
        "table",
    )
    + "graph cond(%i: i32[], %x: f32[1,4]) -> %go {\n%go = Less(%i, 3)\n}\n"
    + "graph body(%i: i32[], %x: f32[1,4]) -> %i, %x {\n}\n"
)


def model() -> Model:
    return parse_model(TEXT)


def named(m: Model, name: str) -> Value:
    return next(v for v in m.main.values() if v.name == name)


def swap_operands(m: Model) -> None:
    sub = m.main.ops[1]
    first, second = sub.inputs
    sub.set_input(0, second)
    sub.set_input(1, first)


def set_quantization(m: Model) -> None:
    w = named(m, "w")
    w.quantization = Quantization(np.array([0.5, 0.125], np.float32), np.zeros(2, np.int64))


def set_options(m: Model) -> None:
    op = m.main.ops[2]
    assert isinstance(op, OpaqueOp)
    op.option_tree = {"a": 1.0}


def set_other_options(m: Model) -> None:
    vars(m.main.ops[2])["option_tree"] = []


def set_custom_code(m: Model) -> None:
    op = m.main.ops[2]
    assert isinstance(op, OpaqueOp)
    op.custom_code = None


def reorder_ports(m: Model) -> None:
    m.signatures[0].inputs = dict(reversed(m.signatures[0].inputs.items()))


CHANGES: dict[str, tuple[Callable[[Model], object], str]] = {
    "format": (lambda m: setattr(m, "format", "tflite"), "format: 'circle' and 'tflite'"),
    "description": (lambda m: setattr(m, "description", None), "description: 'd' and None"),
    "metadata": (lambda m: m.metadata.append(("m", b"")), "metadata: "),
    "extra": (lambda m: m.extra.update(a=1), "extra > a: in one model only"),
    "graphs": (lambda m: m.graphs.append(Graph("g")), "graphs: 3 and 4"),
    "graph name": (lambda m: setattr(m.main, "name", "n"), "graph main > name: 'main' and 'n'"),
    "graph extra": (lambda m: m.main.extra.update(a=1), "graph main > extra > a: in one model only"),
    "inputs": (lambda m: setattr(m.main, "inputs", []), "graph main > inputs: 1 and 0"),
    "outputs": (
        lambda m: setattr(m.main, "outputs", [named(m, "n")]),
        "outputs > 0: %y and %n are",
    ),
    "table": (lambda m: m.main.table.reverse(), "graph main > table > 0: %x and %y are different values"),
    "attribute": (
        lambda m: setattr(m.main.ops[0], "act", Activation.RELU),
        "graph main > op 0 Add > act: NONE and RELU",
    ),
    "graph attribute": (
        lambda m: setattr(m.main.ops[3], "cond", m.graphs[2]),
        "op 3 While > cond: graphs cond and body differ in position",
    ),
    "version": (lambda m: setattr(m.main.ops[0], "version", 9), "op 0 Add > version: 1 and 9"),
    "op extra": (lambda m: m.main.ops[0].extra.update(a=[0.0]), "op 0 Add > extra > a: in one model only"),
    "operands": (swap_operands, "op 1 Sub > operands > 0: %1 and %x are different values"),
    "no operand": (
        lambda m: m.main.ops[2].set_input(1, None),
        "op 2 CUSTOM c > operands > 1: %w: const i8[2] and None",
    ),
    "options": (set_options, "op 2 CUSTOM c > options > a: 1 and 1.0"),
    "options of another kind": (set_other_options, "op 2 CUSTOM c > options: {'a': 1} and []"),
    "custom code": (set_custom_code, "op 2 CUSTOM c > custom_code: 'c' and None"),
    "name": (lambda m: setattr(named(m, "x"), "name", "z"), "inputs > 0 %x > name: 'x' and 'z'"),
    "dtype": (lambda m: setattr(named(m, "x"), "dtype", DType.INT8), "%x > type: f32[1,4] and i8[1,4]"),
    "shape": (lambda m: setattr(named(m, "x"), "shape", (None, 4)), "%x > type: f32[1,4] and f32[?,4]"),
    "variable": (lambda m: setattr(named(m, "x"), "is_variable", True), "%x > variable: False and True"),
    "value extra": (lambda m: named(m, "x").extra.update(a=b""), "%x > extra > a: in one model only"),
    "no quantization": (lambda m: setattr(named(m, "w"), "quantization", None), "%w > quantization: "),
    "scale": (set_quantization, "%w > quantization > scale: 1 of 2 elements differ, first 0.25 and 0.125"),
    "data": (
        lambda m: setattr(named(m, "w"), "data", np.array([1, 3], np.int8)),
        "%w > data: 1 of 2 elements differ, first 2 and 3",
    ),
    "no data": (lambda m: setattr(named(m, "w"), "data", None), "%w > constant: True and False"),
    "key": (lambda m: setattr(m.signatures[0], "key", "t"), "signatures > 0 > key: 's' and 't'"),
    "port order": (reorder_ports, "signatures > 0 > order > 0: 'a' and 'b'"),
    "port": (lambda m: m.signatures[0].inputs.clear(), "signatures > 0 > inputs > a: in one model only"),
    "port value": (
        lambda m: m.signatures[0].inputs.update(a=named(m, "y")),
        "signatures > 0 > inputs > a: %x and %y are different values",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen(change: Callable[[Model], object], sentence: str) -> None:
    one, two = model(), model()
    assert difference(one, two) is None
    change(two)
    assert sentence in (difference(one, two) or "")
    assert difference(two, one) is not None


@pytest.mark.parametrize("change", [c for c, _ in CHANGES.values()], ids=CHANGES)
def test_a_change_of_a_clone_leaves_the_original_alone(change: Callable[[Model], object]) -> None:
    original = model()
    change(clone(original))
    assert difference(original, model()) is None
    assert verify(original) == []


def test_source_and_what_readers_note_do_not_count() -> None:
    one, two = model(), model()
    two.source = "elsewhere"
    two.extra["origin"] = object()
    named(two, "x").extra["stored_name"] = "a"
    assert difference(one, two) is None


def test_a_default_written_out_is_the_default() -> None:
    one, two = model(), model()
    two.main.ops[0].attribute_values["act"] = Activation.NONE
    assert difference(one, two) is None


def test_zero_and_minus_zero_differ() -> None:
    one, two = (parse_model(f"graph g() -> %c {{\n%c = const f32[] {t}\n}}") for t in ("0.0", "-0.0"))
    assert "1 of 1 elements differ" in (difference(one, two) or "")


def test_arrays_of_equal_bytes_differ_in_dtype_or_shape() -> None:
    array = np.zeros((2, 1), np.float32)
    for other in (array.reshape(2), array.view(np.int32)):
        one, two = model(), model()
        one.extra["a"], two.extra["a"] = array, other
        found = difference(one, two) or ""
        assert found.endswith(f"float32[2, 1] and {other.dtype}{list(other.shape)}")


def test_a_clone_of_everything() -> None:
    original = everything()
    copy = same_clone(original)
    kept = copy.main.ops[0].extra["kept"][0]
    assert any(kept is v for v in copy.main.table)
    assert copy.main.inputs[0] is copy.main.inputs[3]


def test_a_clone_keeps_the_order_of_uses() -> None:
    original = model()
    x = original.main.inputs[0]
    original.main.ops[0].set_input(0, original.main.ops[0].inputs[0])
    swap_operands(original)
    uses = [(op.output.name, i) for op, i in x.uses]
    assert [(op.output.name, i) for op, i in clone(original).main.inputs[0].uses] == uses


def test_nameless_values_stay_nameless() -> None:
    original = parse_model(graph_text('%y = Relu(%x) : f32[1,4] named("")'))
    assert clone(original).main.outputs[0].name == ""


def test_names_of_values_may_be_left_out() -> None:
    text = "graph main(%x: f32[2]) -> %y { %a = Abs(%x)  %y = Add(%a, %a) }"
    model, renamed = parse_model(text), parse_model(text.replace("%a", "%b"))
    other = parse_model(text.replace("%a, %a", "%a, %x"))
    assert "name: 'a' and 'b'" in str(difference(model, renamed))
    assert difference(model, renamed, with_names=False) is None
    assert "are different values" in str(difference(model, other, with_names=False))
