# SPDX-License-Identifier: Apache-2.0
"""minmax-embedder on recipes of ONE's tests, and percentiles and faults of a dump."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import circlekit
from circlekit.api.one_tools import embed_ranges
from circlekit.cli.quant.minmax_embedder import minmax_embedder
from circlekit.errors import FormatError, ModelError, UnsupportedError
from circlekit.ir.graph import Model
from circlekit.ir.value import Value
from tests.recipes.one_recipes import one_recipe


def range_of(value: Value) -> list[float]:
    """Return the recorded min and max."""
    form = value.quantization
    assert form is not None
    assert form.min is not None
    assert form.max is not None
    return [*form.min.tolist(), *form.max.tolist()]


def write_dump(path: Path, model: Model, runs: int, prefix: bool = True) -> None:
    """Write a dump as ONE's test does: each min is run * 10000 + number * 10, the max is 7 more.

    Here ``number`` is that of an operator or of an input.
    ``prefix``: whether the groups have names such as run_0; if not, names such as 0.
    """
    run_, model_, subg, op = ("run_", "model_", "subg_", "op_") if prefix else ("", "", "", "")
    with h5py.File(path, "w") as file:
        for index in range(runs):
            group = file.create_group(f"value/{run_}{index}/{model_}0/{subg}0")
            for kind, count in ((op, len(model.main)), ("input_", len(model.main.inputs))):
                for number in range(count):
                    low = index * 10000 + number * 10
                    group.create_dataset(f"{kind}{number}", data=np.array([low, low + 7], ">f4"))


@pytest.mark.parametrize("name", ["Abs_000", "Add_000", "Net_Conv_Relu6_000"])
def test_embedded_ranges_are_in_the_saved_model(name: str, shared: Path, tmp_path: Path) -> None:
    model = one_recipe(shared, name)
    write_dump(tmp_path / "minmax.h5", model, 2)
    circlekit.save(model, tmp_path / "in.circle")
    target = str(tmp_path / "out.circle")
    words = ["--min_percentile", "0", "--max_percentile", "100", "-o", target]
    assert minmax_embedder([*words, str(tmp_path / "in.circle"), str(tmp_path / "minmax.h5")]) == 0
    main = circlekit.load(target).main
    for values in (main.inputs, [op.output for op in main]):
        for number, value in enumerate(values):
            assert range_of(value) == [number * 10, 10000 + number * 10 + 7]


def test_percentiles_and_faults_of_a_dump(tmp_path: Path) -> None:
    text = "graph main(%x: f32[2]) -> %y { %y = Abs(%x) : f32[2] }"
    model = circlekit.parse(text)
    write_dump(tmp_path / "a.h5", model, 3, prefix=False)
    assert embed_ranges(model, tmp_path / "a.h5", 25, 50) == 2
    # 25th percentile of the minima 0, 10000, 20000: (0 + 10000) / 2; 50th of the maxima 7, 10007, 20007
    assert range_of(model.main.outputs[0]) == [5000, 10007]
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["value/run_0/model_0/subg_0/op_0"] = np.zeros(2, np.float32)
    with pytest.raises(ModelError, match="no range of input 0 of graph 0, %x"):
        embed_ranges(circlekit.parse(text), tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["value/run_0/model_0/subg_0/input_0"] = np.zeros(2, np.float32)
    model = circlekit.parse(text)
    with pytest.raises(ModelError, match="no range of op 0 of graph 0, %y"):
        embed_ranges(model, tmp_path / "c.h5")
    assert model.main.inputs[0].quantization is None


def test_integer_tensors_keep_their_quantization(tmp_path: Path) -> None:
    text = """
    graph main(%x: f32[2]) -> %y {
      %q = Quantize(%x)    : i8[2] quant(scale: 0.1, zero_point: 3)
      %y = Dequantize(%q)  : f32[2]
    }
    """
    model = circlekit.parse(text)
    write_dump(tmp_path / "a.h5", model, 1)
    assert embed_ranges(model, tmp_path / "a.h5") == 2
    form = model.main.ops[0].output.quantization
    assert form is not None
    assert (form.scale.tolist(), form.zero_point.tolist()) == ([np.float32(0.1)], [3])
    assert form.min is None
    assert range_of(model.main.outputs[0]) == [10, 17]


@pytest.mark.parametrize(("low", "high"), [(-1, 99), (1, 101), (90, 10)])
def test_percentiles_are_from_0_to_100_in_ascending_order(low: float, high: float, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"[Pp]ercentile"):
        embed_ranges(circlekit.parse("graph main(%x: f32[2]) -> %x { }"), tmp_path / "a.h5", low, high)


@pytest.mark.parametrize("numbers", [(np.nan, 1), (0, np.nan), (2, 1), (-np.inf, 0), (0, 1e39)])
def test_ranges_are_finite_with_min_at_most_max(numbers: tuple[float, float], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["value/run_0/model_0/subg_0/input_0"] = np.array(numbers, np.float64)
    with pytest.raises(FormatError, match="numbers min <= max at /value/run_0/model_0/subg_0/input_0, got"):
        embed_ranges(circlekit.parse("graph main(%x: f32[2]) -> %x { }"), tmp_path / "a.h5")


PLACE = "run_0/model_0/subg_0/op_0"


@pytest.mark.parametrize(
    ("place", "numbers"),
    [("x/y", np.zeros(2, np.float32)), (PLACE, np.zeros(2, np.int32)), (PLACE, np.zeros(3, np.float32))],
    ids=["name", "dtype", "size"],
)
def test_a_dump_holds_two_floats_at_known_places(place: str, numbers: np.ndarray, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[f"value/{place}"] = numbers
    with pytest.raises(FormatError, match=rf"got .* at /value/{place}"):
        embed_ranges(circlekit.parse("graph main(%x: f32[2]) -> %x { }"), tmp_path / "a.h5")
