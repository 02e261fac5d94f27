# SPDX-License-Identifier: Apache-2.0
"""Opaque operators of texts get their declared class, or an error says what to do.

An operator of a file that does not fit its class stays opaque, also after its model was printed and parsed.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.errors import ParseError, UnsupportedError
from circlekit.io.read import load_ops
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.model_equality import difference
from circlekit.ir.op import OpaqueOp
from circlekit.ir.text import print_model
from tests.io.models import LIBRARY, File, file_bytes
from tests.io.oracles import LITERT
from tests.ir.recipes import graph_text


def opaque_text(data: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the text that a version of circlekit without declared operators would print for a file."""
    with monkeypatch.context() as patch:
        patch.setattr(load_ops, "REGISTRY", {})
        model = load_bytes(data)
        assert all(isinstance(op, OpaqueOp) for op in model.ops())
        return print_model(model)


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_text_without_declarations_is_the_same_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, text = load_bytes(file_bytes(name)), opaque_text(file_bytes(name), monkeypatch)
    if any("misfit" in op.extra for op in model.ops()):
        with pytest.raises(ParseError, match="does not fit"):
            circlekit.parse(text)
    else:
        assert difference(model, circlekit.parse(text)) is None


def test_real_models(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = model_path.read_bytes()
    model = circlekit.load(opaque_text(data, monkeypatch).encode())
    assert difference(circlekit.load(data), model) is None
    assert not any(isinstance(op, OpaqueOp) for op in model.ops())


def parsed(code: str, braces: str = "", operands: str = "%x", kind: str = "f32[1,4]") -> circlekit.Model:
    return circlekit.parse(graph_text(f'%y = Opaque({operands}) {{code: "{code}"{braces}}} : {kind}'))


def test_attributes_and_versions_are_those_of_the_text() -> None:
    options = '{"": "SoftmaxOptions", beta: 0.5}'
    (op,) = parsed("SOFTMAX", f", version: 2, options: {options}").main.ops
    assert (type(op).__name__, op.attribute_values, op.version) == ("Softmax", {"beta": 0.5}, 2)
    (op,) = parsed("SOFTMAX", ', options: {"": "SoftmaxOptions"}').main.ops
    assert (op.attribute_values, op.version) == ({"beta": 0.0}, 1), "the defaults of the file"


@pytest.mark.parametrize("code", ["CUSTOM", "UNKNOWN_310", "STABLEHLO_ADD", "Sigmoid"])
def test_operators_without_a_class_stay_opaque(code: str) -> None:
    (op,) = parsed(code).main.ops
    assert isinstance(op, OpaqueOp)
    assert op.code == code


@pytest.mark.parametrize(
    ("code", "braces", "reason"),
    [
        ("ADD", "", "Opaque ADD does not fit Add: "),
        ("RELU", ', options: {"": "AddOptions"}', "does not fit Relu: expected no options, got AddOptions"),
        ("SOFTMAX", ', options: {"": "AddOptions"}', "expected SoftmaxOptions, got AddOptions"),
        ("SOFTMAX", ', options: {"": "Nonsense"}', "table under the key '', got 'Nonsense'"),
        ("SOFTMAX", ', options: {"": [1]}', "table under the key '', got [1]"),
        ("SOFTMAX", ", options: {beta: 1.0}", "table under the key '', got None"),
        ("SOFTMAX", ', options: {"": "SoftmaxOptions", beta: "x"}', "beta is 'x', expected a number"),
        ("AVERAGE_POOL_2D", ', options: {"": "Pool2DOptions", padding: "ALL"}', "padding cannot be ALL"),
        ("RESHAPE", ', options: {"": "ReshapeOptions", new_shape: 4}', "Opaque RESHAPE does not fit"),
    ],
)
def test_misfits_fail_with_what_to_do(code: str, braces: str, reason: str) -> None:
    with pytest.raises(ParseError, match=re.escape(reason)) as error:
        parsed(code, braces)
    assert 'or keep it opaque with extra: {misfit: "reason"}' in error.value.message
    assert f"> op 0 {code}" in str(error.value)
    (op,) = parsed(code, braces + ', extra: {misfit: "on purpose"}').main.ops
    assert isinstance(op, OpaqueOp)


def test_a_misfit_of_a_file_survives_its_text() -> None:
    f = File(LITERT)
    f.op("ADD", [0], [1])
    data = f.pack()
    model = load_bytes(data)
    (op,) = model.main.ops
    assert isinstance(op, OpaqueOp)
    text = print_model(model)
    assert f'extra: {{misfit: "{op.extra["misfit"]}"}}' in text
    other = circlekit.parse(text)
    assert difference(model, other) is None
    assert b"misfit" not in to_bytes(other)
    with pytest.raises(UnsupportedError, match="ADD has no kernel: it does not fit its declaration"):
        circlekit.run(other, [np.zeros((1, 4), np.float32)])


def test_results_keep_their_users_and_the_order() -> None:
    model = circlekit.parse(
        graph_text('%a = Opaque(%x) {code: "ABS"} : f32[1,4]', "%b = Neg(%a)", "%y = Add(%b, %a)")
    )
    assert [type(op).__name__ for op in model.main] == ["Abs", "Neg", "Add"]
    absolute, neg, add = model.main.ops
    assert absolute.output.producer is absolute
    assert [*absolute.output.users] == [neg, add]
    assert model.main.inputs[0].use_count == 1
