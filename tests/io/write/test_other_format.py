# SPDX-License-Identifier: Apache-2.0
"""A model of one format written as the other: what is kept, and what the other format lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.errors import UnsupportedError
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.save import save, to_bytes
from circlekit.io.write.saved_format import assume_format
from circlekit.ir.text import parse_model
from tests.io.models import file_bytes
from tests.io.oracles import CIRCLE, LITERT


def test_real_models_in_the_other_format(model_path: Path) -> None:
    model = load(model_path)
    other = {"tflite": "circle", "circle": "tflite"}[model.format]
    changed = load_bytes(to_bytes(model, other))
    assert changed.format == other
    for a, b in zip(model.ops(), changed.ops(), strict=True):
        assert (a.code, a.attribute_values) == (b.code, b.attribute_values) or a.called_graphs()
        assert b.version == max(a.version or 1, a.required_version())
    for g, h in zip(model.graphs, changed.graphs, strict=True):
        for v, w in zip(g.values(), h.values(), strict=True):
            assert (v.name, v.dtype, v.shape, v.quantization) == (w.name, w.dtype, w.shape, w.quantization)
    assert to_bytes(changed, model.format) == to_bytes(load_bytes(to_bytes(changed, model.format)))


@pytest.mark.parametrize("format", ["circle", "tflite"])
def test_a_model_without_a_file_can_assume_a_format(format: str) -> None:
    model = parse_model("model circle {version: 0} graph main(%x: f32[2]) -> %y { %y = Relu(%x) }")
    data = to_bytes(model, format)
    assume_format(model, format)
    assert to_bytes(model) == data == to_bytes(load_bytes(data))


@pytest.mark.parametrize("name", ["constants", "custom", "shapes", "variants", "unknown_code", "graphs"])
def test_a_model_can_assume_the_format_of_its_file(name: str) -> None:
    """The operators then have the codes and versions that ``load`` gives; saving gives the same bytes."""
    model = load_bytes(file_bytes(f"{name}.tflite"))
    assert bool(model.extra["origin"].unused_codes) == (name == "constants")
    data = to_bytes(model, "circle")
    assume_format(model, "circle")
    loaded = load_bytes(data)
    stored = [[(op.extra["stored_code"], op.version) for op in m.ops()] for m in (model, loaded)]
    assert stored[0] == stored[1]
    assert to_bytes(model) == to_bytes(loaded)


def test_uint4_has_a_different_enum_value_in_each_format() -> None:
    for name, other, number in (("constants.tflite", CIRCLE, -1), ("constants.circle", LITERT, 20)):
        model = load_bytes(file_bytes(name))
        tree = other.read(to_bytes(model, other.format))
        kinds = {t["Name"]: t["Type"] for t in tree["Subgraphs"][0]["Tensors"]}
        assert kinds[b"u4"] == number


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("own_operators.circle", "no operator INSTANCE_NORM\n  at main > op 0 InstanceNorm\n"),
        ("own_tensors.circle", "no tensors of GGML_Q4_0\n  at main > %q4"),
        ("newest_types.tflite", "no tensors of INT2\n  at main > %i2"),
        ("external.tflite", "external_buffer"),
    ],
)
def test_what_the_other_format_lacks_is_named_in_the_error(name: str, what: str, tmp_path: Path) -> None:
    model = load_bytes(file_bytes(name))
    other = "tflite" if model.format == "circle" else "circle"
    with pytest.raises(UnsupportedError) as error:
        save(model, tmp_path / f"out.{other}")
    assert what in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_extension_selects_the_format(tmp_path: Path) -> None:
    model = load_bytes(file_bytes("nothing.circle"))
    for name, fmt, tag in (
        ("a.tflite", None, b"TFL3"),
        ("a.circle", None, b"CIR0"),
        ("a.bin", "tflite", b"TFL3"),
    ):
        save(model, tmp_path / name, fmt)
        assert (tmp_path / name).read_bytes()[4:8] == tag
    with pytest.raises(UnsupportedError, match="onnx"):
        save(model, tmp_path / "a.bin", "onnx")


def test_a_version_that_a_text_states_is_written() -> None:
    """A version that is too low is kept in the same format; the other format gets the required version."""
    text = (
        "model circle\ngraph main(%x: f32[1,2,4], %w: f32[3,4]) -> %y {\n"
        "  %y = FullyConnected(%x, %w, none) {keep_num_dims: true, version: 1}\n}\n"
    )
    model = parse_model(text)
    required = model.main.ops[0].required_version()
    assert required > 1
    for fmt, version in (("circle", 1), ("tflite", required)):
        assert load_bytes(to_bytes(model, fmt)).main.ops[0].version == version


def test_unknown_dimension_in_a_shape_signature_is_kept_in_the_other_format() -> None:
    """Any negative number marks an unknown dimension."""
    model = parse_model("graph main(%x: f32[?]) -> %y {\n%y = Neg(%x)\n}")
    model.main.inputs[0].extra["shape_signature"] = np.array([-128], np.int32)
    assert load_bytes(to_bytes(model, "tflite")).main.inputs[0].shape == (None,)


def test_a_shape_signature_of_known_dimensions_is_dropped_in_the_other_format() -> None:
    model = parse_model("graph main(%x: f32[0,3]) -> %y {\n%y = Neg(%x)\n}")
    model.main.inputs[0].extra["shape_signature"] = np.array([0, 3], np.int32)
    (same, other) = (load_bytes(to_bytes(model, fmt)).main.inputs[0] for fmt in ("circle", "tflite"))
    assert "shape_signature" in same.extra
    assert "shape_signature" not in other.extra
    assert same.shape == other.shape == (0, 3)
