# SPDX-License-Identifier: Apache-2.0
"""q-implant on the recipes of ONE's own tests, and faults of parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.api.one_tools import implant
from circlekit.cli.quant.q_implant import q_implant
from circlekit.errors import CirclekitError, FormatError, ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.value import Value
from circlekit.ir.verifier import check
from tests.recipes.one_recipes import one_recipe


def write_parameters(folder: Path, values: list[Value]) -> Path:
    """Write random parameters for ``values``, and integers for constants; return the path of qparam.json.

    The dtype is int32 for a value named ``bias``, and uint8 for all others.
    """
    rng = np.random.default_rng(7)
    tree: dict[str, dict[str, object]] = {}
    for number, value in enumerate(values):
        dtype = "int32" if value.name == "bias" else "uint8"
        arrays = {"scale": rng.random(1, np.float32), "zerop": rng.integers(0, 255, 1)}
        if value.is_const:
            arrays["value"] = rng.integers(0, 100, value.static_shape).astype(dtype)
        tree[value.name] = {"dtype": dtype, "quantized_dimension": 0}
        for field, array in arrays.items():
            np.save(folder / f"{number}.{field}.npy", np.asarray(array))
            tree[value.name][field] = f"{number}.{field}.npy"
    (folder / "qparam.json").write_text(json.dumps(tree))
    return folder / "qparam.json"


def floats(model: Model) -> list[Value]:
    return [v for v in model.main.values() if v.dtype is f32]


IMPLANTED = [
    "Add_000", "Concatenation_000", "Conv2D_002", "DepthwiseConv2D_001", "MaxPool2D_000", "Mean_001",
    "Mul_000", "Mul_001", "Reshape_000", "Softmax_000",
]  # fmt: skip


@pytest.mark.parametrize("name", IMPLANTED)
def test_implanted_parameters_are_in_the_saved_model(name: str, shared: Path, tmp_path: Path) -> None:
    model = one_recipe(shared, name)
    values = floats(model)
    path = write_parameters(tmp_path, values)
    circlekit.save(model, tmp_path / "in.circle")
    target = tmp_path / "out.circle"
    assert q_implant([str(tmp_path / "in.circle"), str(path), str(target)]) == 0
    after = {v.name: v for v in circlekit.load(target).main.values()}
    for name, tree in json.loads(path.read_text()).items():
        form = after[name].quantization
        assert form is not None
        assert after[name].dtype.numpy == tree["dtype"]
        np.testing.assert_array_equal(form.scale, np.load(tmp_path / tree["scale"]))
        np.testing.assert_array_equal(form.zero_point, np.load(tmp_path / tree["zerop"]))
        if "value" in tree:
            np.testing.assert_array_equal(after[name].array(), np.load(tmp_path / tree["value"]))


MOVED = "graph main(%x: f32[1,4]) -> %z { %y = Abs(%x) : f32[1,4]\n %z = Reshape(%y, [4]) : f32[4] }"


def test_moved_elements_take_the_parameters_of_their_source(tmp_path: Path) -> None:
    model = circlekit.parse(MOVED)
    implant(model, write_parameters(tmp_path, floats(model)[:2]))
    assert model.main.outputs[0].quantization == model.main.ops[0].output.quantization
    check(model)
    model = circlekit.parse(MOVED)
    with pytest.raises(ModelError, match="expected parameters for every tensor, got none for %z"):
        implant(model, write_parameters(tmp_path, floats(model)[:1]))
    assert difference(model, circlekit.parse(MOVED)) is None


def test_a_constant_without_integers_is_rounded_by_channel(tmp_path: Path) -> None:
    model = circlekit.parse(
        "graph main(%x: f32[2,2]) -> %y { %y = Add(%x, [[1.0, 2.0], [3.0, 4.0]]) : f32[2,2] }"
    )
    constant = model.main.ops[0].inputs[1]
    assert constant is not None
    np.save(tmp_path / "one.npy", np.ones(1, np.float32))
    np.save(tmp_path / "zero.npy", np.zeros(1, np.int64))
    np.save(tmp_path / "scales.npy", np.array([0.5, 2], np.float32))
    np.save(tmp_path / "zeros.npy", np.array([0, 10]))
    one = {"dtype": "uint8", "scale": "one.npy", "zerop": "zero.npy", "quantized_dimension": 0}
    tree = {"x": one, "y": one, constant.name: {**one, "scale": "scales.npy", "zerop": "zeros.npy"}}
    (tmp_path / "qparam.json").write_text(json.dumps(tree))
    implant(model, tmp_path / "qparam.json")
    # 1 / 0.5, 2 / 0.5; round(3 / 2) + 10, 4 / 2 + 10
    np.testing.assert_array_equal(constant.array(), [[2, 4], [12, 12]])


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [("nan", "uint8", None), ("inf", "uint8", 255), ("3e38", "int64", 2**63 - 1024)],
)
def test_constants_to_round_must_be_numbers_and_are_clamped(
    number: str, dtype: str, expected: int | None, tmp_path: Path
) -> None:
    model = circlekit.parse(f"graph main(%x: f32[1]) -> %y {{ %y = Add(%x, [{number}]) : f32[1] }}")
    path = write_parameters(tmp_path, [v for v in floats(model) if not v.is_const])
    constant = next(v for v in floats(model) if v.is_const)
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({**tree, constant.name: {**tree["x"], "dtype": dtype}}))
    if expected is None:
        with pytest.raises(ModelError, match="expected numbers, got NaN"):
            implant(model, path)
        return
    implant(model, path)
    assert constant.array().tolist() == [expected]


def test_faults_of_implanted_parameters(tmp_path: Path) -> None:
    path = write_parameters(tmp_path, [Value("no", f32, (1,))])
    with pytest.raises(ModelError, match="no tensor is named 'no'"):
        implant(circlekit.parse(MOVED), path)
    path.write_text('{"x": {"dtype": "uint8", "scale": "a.npy"}}')
    with pytest.raises(FormatError, match="x: expected zerop of type str, got None"):
        implant(circlekit.parse(MOVED), path)
    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    path.write_text('{"x": {"dtype": "uint8", "scale": "a.npy", "zerop": "a.npy", "quantized_dimension": 1}}')
    with pytest.raises(ShapeError, match="3 scales"):
        implant(circlekit.parse(MOVED), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": np.zeros((2, 2), np.uint8)}, None),
        ({"value": np.zeros((2, 2), np.int8)}, r"expected u8\[2,2\], got int8\[2,2\]"),
        ({"value": np.zeros((4,), np.uint8)}, r"expected u8\[2,2\], got uint8\[4\]"),
        ({"scale": np.ones((1, 1), np.float32)}, "expected scale and zerop as vectors of the same size"),
        (
            {"scale": np.ones((1, 1), np.float32), "zerop": np.zeros((1, 1), int)},
            "as vectors of the same size",
        ),
        ({"scale": np.ones(2, np.float32)}, "expected scale and zerop as vectors of the same size"),
        ({"scale": np.ones(0, np.float32), "zerop": np.zeros(0, int)}, "as vectors of the same size"),
        ({"scale": np.array([-1.0])}, "expected finite scales of at least 0, got -1.0"),
        ({"scale": np.array([np.nan])}, "expected finite scales of at least 0, got nan"),
        ({"scale": np.array([1e39])}, "expected finite scales of at least 0, got inf"),
        ({"scale": np.zeros(1)}, "expected scales of at least 1.18e-38 to round the constant, got 0"),
        ({"scale": np.array(["1"])}, "expected scale and zerop as numbers"),
        ({"zerop": np.array([0.0])}, None),
        ({"zerop": np.array([0.5])}, "expected integers from 0 to 255 as zero points for u8, got 0.5"),
        ({"zerop": np.array([-1])}, "expected integers from 0 to 255 as zero points for u8, got -1"),
        ({"zerop": np.array([256])}, "expected integers from 0 to 255 as zero points for u8, got 256"),
        ({"of": "x", "value": np.zeros((2, 2), np.uint8)}, "%x: expected a constant for the integers in"),
        ({"dtype": "uint7"}, "Invalid dtype detected. uint7"),
        ({"quantized_dimension": "0"}, "expected quantized_dimension of type int, got '0'"),
        ({"quantized_dimension": 2**31}, "expected quantized_dimension to fit 32 bits, got 2147483648"),
        ({"quantized_dimension": 2**31 - 1}, None),
        ({"quantized_dimension": True}, "expected quantized_dimension to fit 32 bits, got True"),
        ({"dtype": "UINT8"}, None),
        ({"value": 3}, "expected value of type str, got 3"),
    ],
    ids=str,
)
def test_parameters_must_fit_their_tensors(
    change: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    """``change``: new fields of the parameters of the constant, or of the tensor ``of``."""
    text = "graph main(%x: f32[2,2]) -> %y { %y = Add(%x, [[1.0, 2.0], [3.0, 4.0]]) : f32[2,2] }"
    model = circlekit.parse(text)
    path = write_parameters(tmp_path, [v for v in floats(model) if not v.is_const])
    constant = next(v for v in floats(model) if v.is_const).name
    tree = json.loads(path.read_text())
    tree[constant] = dict(tree["x"])
    changed = tree[change.pop("of", constant)]
    for field, content in change.items():
        changed[field] = f"changed.{field}.npy" if isinstance(content, np.ndarray) else content
        if isinstance(content, np.ndarray):
            np.save(tmp_path / changed[field], content)
    path.write_text(json.dumps(tree))
    if message is None:
        implant(model, path)
        check(model)
        return
    with pytest.raises(CirclekitError, match=message):
        implant(model, path)


@pytest.mark.parametrize("has_integers", [True, False])
def test_a_sparse_constant_is_refused(has_integers: bool, tmp_path: Path) -> None:
    """Dense integers with the sparsity of the floats would be a wrong file."""
    recipe = Path(__file__).parents[3] / "recipes/passes/fold_densify.ck"
    model = circlekit.parse(recipe.read_text().partition("rules {")[0])
    path = write_parameters(tmp_path, floats(model))
    if not has_integers:
        tree = json.loads(path.read_text())
        del tree["sparse"]["value"]
        path.write_text(json.dumps(tree))
    with pytest.raises(UnsupportedError, match="%sparse: expected dense float32 data, got sparse"):
        implant(model, path)
