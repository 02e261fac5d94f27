# SPDX-License-Identifier: Apache-2.0
"""``load``, ``save``, ``parse`` and ``run``."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError, FileError, ModelError, ParseError, ShapeError
from circlekit.ir.model_equality import difference
from circlekit.ir.text import print_model
from tests.api.conftest import RECIPE


def test_load_takes_a_path_bytes_and_a_file_object(model: circlekit.Model, tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    circlekit.save(model, path)
    content = path.read_bytes()
    for source in (path, str(path), content, bytearray(content), memoryview(content), io.BytesIO(content)):
        assert circlekit.compare(model, circlekit.load(source)).equal
    with path.open("rb") as file:
        assert circlekit.load(file).source == str(path)
    assert circlekit.load(RECIPE.encode()).main.ops[0].code == "TRANSPOSE_CONV"
    assert circlekit.load(content).source == "<bytes>"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_loaded_model_is_optimized_and_saved_like_it(
    copied: Callable[[circlekit.Model], circlekit.Model], model: circlekit.Model, tmp_path: Path
) -> None:
    path = tmp_path / "a.tflite"
    circlekit.save(model, path)
    loaded = circlekit.load(path)
    new = copied(loaded)
    assert difference(new, loaded) is None
    circlekit.save(new, tmp_path / "b.tflite")
    assert (tmp_path / "b.tflite").read_bytes() == path.read_bytes()
    changes = [circlekit.optimize(item, verify=True).changes for item in (new, loaded)]
    assert changes[0] == changes[1] != {}


def test_a_model_whose_file_was_changed_is_not_pickled(model: circlekit.Model, tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    circlekit.save(model, path)
    loaded = circlekit.load(path)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(FileError, match="the file was changed after it was read"):
        pickle.dumps(loaded)


def test_load_refuses_bytes_with_gaps() -> None:
    with pytest.raises(FileError, match="expected contiguous bytes, got a memoryview with gaps"):
        circlekit.load(memoryview(bytes(16))[::2])


def test_bytes_of_a_recipe_cannot_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    text = 'graph main(%x: f32[2]) -> %y { %w = const f32[2] file("w.bin", 0, 8) %y = Add(%x, %w) }'
    (tmp_path / "a.ck").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert circlekit.load("a.ck").main.ops[0].code == "ADD"
    with pytest.raises(CirclekitError, match="without references to files"):
        circlekit.load(text.encode())


def test_print_then_parse_gives_the_same_model(model: circlekit.Model) -> None:
    assert difference(circlekit.parse(print_model(model)), model) is None


def test_load_tells_files_apart_by_content(model: circlekit.Model, tmp_path: Path) -> None:
    (tmp_path / "a.circle").write_text(RECIPE)
    circlekit.save(model, tmp_path / "b.ck", "tflite")
    circlekit.save(model, tmp_path / "c.circle")
    for name, fmt in (("a.circle", "circle"), ("b.ck", "tflite"), ("c.circle", "circle")):
        loaded = circlekit.load(tmp_path / name)
        assert loaded.format == fmt
        assert loaded.source == str(tmp_path / name)
        assert circlekit.compare(model, loaded).equal


def test_save_leaves_the_model_as_it_is(model: circlekit.Model, tmp_path: Path) -> None:
    circlekit.optimize(model)
    circlekit.save(model, tmp_path / "a.circle")
    assert [op.code for op in model.main.ops] == ["TRANSPOSE_CONV"]
    assert [op.code for op in circlekit.load(tmp_path / "a.circle").main.ops] == ["TRANSPOSE_CONV", "RELU"]
    circlekit.save(model, tmp_path / "a.tflite")
    assert [op.code for op in circlekit.load(tmp_path / "a.tflite").main.ops] == ["TRANSPOSE_CONV"]


def test_run_takes_inputs_by_order_or_name(model: circlekit.Model) -> None:
    x = np.ones((1, 4, 4, 2), np.float32)
    (by_order,) = circlekit.run(model, [x])
    (by_name,) = circlekit.run(model, {"x": x})
    assert by_order.shape == (1, 8, 8, 3)
    assert np.array_equal(by_order, by_name)


def test_an_iterator_is_no_record(model: circlekit.Model) -> None:
    """An iterator of arrays could be used for one run only."""
    inputs = iter([np.zeros((1, 2, 2, 1), np.float32)])
    for call in (
        lambda: circlekit.run(model, inputs),  # type: ignore[arg-type]
        lambda: circlekit.compare(model, model, inputs),  # type: ignore[arg-type]
        lambda: circlekit.optimize(model, inputs=inputs),  # type: ignore[arg-type]
    ):
        with pytest.raises(ModelError, match="inputs: expected a list of arrays, or a dict by input name"):
            call()


def test_a_model_that_was_broken_in_python_does_not_verify() -> None:
    model = circlekit.parse("graph main(%x: f32[4]) -> %z { %y = Relu(%x) %z = Neg(%y) }")
    circlekit.verify(model)
    first, second = model.main
    model.main.replace_uses(first.output, second.output)
    with pytest.raises(ModelError, match="graph main > op 1 Neg: %z is used before operator 1"):
        circlekit.verify(model)
    first.output.shape = (5,)
    second.set_input(0, first.output)
    with pytest.raises(ShapeError, match=r"%y has shape \[5\], its operator infers \[4\]"):
        circlekit.verify(model)


@pytest.mark.parametrize("name", ["notes.md", "<bytes>"])
def test_a_text_that_is_no_recipe_says_that_a_model_was_expected(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("some notes (to read)\n")
    source = tmp_path / name if name == "notes.md" else b"some notes (to read)\n"
    with pytest.raises(ParseError, match=f"{name}: expected a model or a recipe, got a text; as a recipe: "):
        circlekit.load(source)


def test_parse_refuses_a_path() -> None:
    with pytest.raises(ParseError, match=r"got the path 'a/net.ck'; load reads files"):
        circlekit.parse("a/net.ck")
    assert circlekit.parse("graph main(%x: f32[1]) -> %y { %y = Neg(%x) } # from net.ck").main.ops
