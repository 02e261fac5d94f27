# SPDX-License-Identifier: Apache-2.0
"""Models become recipes, which give equal models again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.recipes.load import load_recipe
from circlekit.recipes.recipe_export import write_recipe
from tests.conftest import without

NAMES = ["test.recipe", "net.ck"]


@pytest.mark.parametrize("name", NAMES)
def test_real_models_survive_a_round_trip(model_path: Path, name: str, tmp_path: Path) -> None:
    model = load(model_path)
    write_recipe(model, tmp_path / name, model.format)
    assert difference(load_recipe(tmp_path / name, model.format), model) is None
    assert (tmp_path / name).stat().st_size < 110_000
    assert any(path.suffix == ".npy" for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_traps_survive_a_round_trip(shared: Path, name: str, tmp_path: Path) -> None:
    """Every third of two hundred tiny models with operators and attributes that no recipe of ONE has."""
    paths = sorted(shared.glob("peer/traps/*/model.*"))[::3]
    if not paths:
        pytest.skip(without("peer/traps"))
    for path in paths:
        model = load(path)
        write_recipe(model, tmp_path / name, model.format)
        assert difference(load_recipe(tmp_path / name, model.format), model) is None, path


@pytest.mark.parametrize("fmt", ["tflite", "circle"])
@pytest.mark.parametrize("dtype", ["u4", "f32"])  # ONE's recipes have UINT4 only for circle
def test_the_format_survives_a_round_trip(fmt: str, dtype: str, tmp_path: Path) -> None:
    text = f"model {fmt}\ngraph main(%x: {dtype}[2]) -> %z {{ %z = Reshape(%x, [2,1]) : {dtype}[2,1] }}"
    write_recipe(parse_model(text, "net"), tmp_path / "test.recipe", fmt)
    assert load_recipe(tmp_path / "test.recipe").format == fmt


HARD = r"""
model tflite {version: 3, description: "a \"description\"\nwith lines"}
metadata "text" "plain"
metadata "bytes" base64("AP+A")
signature "first" @main (a: %x) -> (b: %y)

graph main(%x: f32[1,?,3], %q: i8[2,3] quant(scale: [0.1, 0.2], zero_point: [1, -2], axis: 0)) -> %y {
  %"na\"me": f32[4] variable
  %again = const f32[2] [0.1, -0.0]
  %loud = Abs(%x)
  %y = Add(%loud, %loud)
}
"""


@pytest.mark.parametrize("name", NAMES)
def test_model_with_all_features_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    model = parse_model(HARD)
    model.main.inputs[1].name = "x2"
    loud = model.main.ops[0].results[0]
    loud.name = "x"  # a name twice
    write_recipe(model, tmp_path / name, "tflite")
    found = load_recipe(tmp_path / name, "tflite")
    write_recipe(found, tmp_path / f"again.{name}", "tflite")
    assert difference(load_recipe(tmp_path / f"again.{name}", "tflite"), found) is None
    assert found.description == model.description
    assert found.metadata == model.metadata
    assert [v.name for v in found.main.inputs] == ["x", "x2"]
    assert found.main.ops[0].results[0].name == "x"
    assert found.main.inputs[0].shape == (1, None, 3)
    assert found.main.inputs[1].quantization == model.main.inputs[1].quantization


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", ["*", ""])
def test_unknown_ranks_and_scalars_survive_a_round_trip(shape: str, name: str, tmp_path: Path) -> None:
    """In a file both have the shape []; only an unknown rank has a stored ``has_rank`` of false."""
    model = parse_model(f"graph main(%x: f32[{shape}]) -> %y {{ %y = Neg(%x) }}")
    write_recipe(model, tmp_path / name, "circle")
    found = load_recipe(tmp_path / name)
    assert found.main.inputs[0].shape == found.main.outputs[0].shape == model.main.inputs[0].shape


def test_recipe_for_the_other_format(tmp_path: Path) -> None:
    text = """graph main(%x: f32[2,8]) -> %y {
      %gamma = const f32[8] uniform(0.5, 1.5)
      %y = RmsNorm(%x, %gamma) {epsilon: 1e-06}
    }"""
    write_recipe(parse_model(text), tmp_path / "r.recipe", "tflite")
    assert "RMS_NORM" not in {op.code for op in load_recipe(tmp_path / "r.recipe").main}
    write_recipe(parse_model(text), tmp_path / "c.recipe", "circle")
    assert 'type: "RmsNorm"' in (tmp_path / "c.recipe").read_text()


def test_constants_are_written_as_fillers(tmp_path: Path) -> None:
    text = """graph main(%x: f32[2,100]) -> %y {
      %w = const f32[100,100] gaussian(0, 0.5)
      %y = FullyConnected(%x, %w, none)
    }"""
    write_recipe(parse_model(text), tmp_path / "r.recipe", "circle", resample=True)
    assert [path.name for path in tmp_path.iterdir()] == ["r.recipe"]
    found = load_recipe(tmp_path / "r.recipe").main.ops[0].inputs[1]
    assert found is not None
    assert abs(float(np.std(found.array())) - 0.5) < 0.05
    with pytest.raises(UnsupportedError, match="expected a recipe in ONE's language"):
        write_recipe(parse_model(text), tmp_path / "r.ck", "circle", resample=True)


def test_recipe_can_be_moved_with_its_files(tmp_path: Path) -> None:
    text = "graph main(%x: f32[100]) -> %y { %w = const f32[100] gaussian(0, 1) %y = Mul(%x, %w) }"
    wanted = parse_model(text).main.ops[0].inputs[1]
    assert wanted is not None
    (tmp_path / "a").mkdir()
    for name in NAMES:
        write_recipe(parse_model(text), tmp_path / "a" / name, "circle")
    (tmp_path / "a").rename(tmp_path / "b")
    for name in NAMES:
        constant = load_recipe(tmp_path / "b" / name, "circle").main.ops[0].inputs[1]
        assert constant is not None
        assert constant.array().tobytes() == wanted.array().tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_absent_strings_survive_a_round_trip(name: str, tmp_path: Path) -> None:
    """A VAR_HANDLE without a container."""
    model = load_bytes(to_bytes(load_recipe(Path(__file__).parents[2] / "recipes/ops/var_handle.ck")))
    write_recipe(model, tmp_path / name, model.format)
    assert difference(load_recipe(tmp_path / name, model.format), model) is None
