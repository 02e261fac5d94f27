# SPDX-License-Identifier: Apache-2.0
"""Positions of constants in a file, shared buffers, and external data."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import FileError
from circlekit.io.origin import place_of
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.flatbuffer_encoder import MAX_INLINE_BYTES
from circlekit.io.write.save import encoded, save, to_bytes
from circlekit.ir import array_bytes as content
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value, same_array
from tests.io.equal import assert_same_model
from tests.io.models import File
from tests.io.oracles import CIRCLE, LITERT, Oracle
from tools.bench.large_model import make_model
from tools.bench.processes import run

PAGE = 4096
ROOT = Path(__file__).parents[3]
ANONYMOUS = 50 << 20
"""Bytes that a command may allocate, whatever the size of the model."""

LARGE = 1 << 16
"""Bytes of a constant that is written without being gathered with others."""

LAYER = 64 << 20
"""Bytes of the weights of a large layer."""


def constants(sizes: Sequence[int], oracle: Oracle = LITERT, far: Sequence[int] = ()) -> bytes:
    """Return a file with byte constants of these sizes.

    The code generated from the schema packs it, and writes the last constant first.  The constants
    whose indices are in ``far`` are external data, behind the flatbuffer.
    """
    f = File(oracle)
    random = np.random.default_rng(0)
    datas = [random.bytes(size) for size in sizes]
    places = {}
    for index, data in enumerate(datas):
        buffer = f.buffer(None if index in far else data)
        if index in far:
            f.model.buffers[buffer].offset = f.model.buffers[buffer].size = 1 << 40  # space for the number
            places[index] = buffer
        f.tensor(f"c{index}", [len(data)], "UINT8", buffer=buffer)
    end = len(f.pack()) + 5
    tail = b""
    for index, buffer in places.items():
        f.model.buffers[buffer].offset = end + len(tail)
        f.model.buffers[buffer].size = len(datas[index])
        tail += datas[index]
    return f.pack() + bytes(5) + tail


def constant(model: Model, name: str) -> Value:
    return next(v for v in model.main.values() if v.name == name)


# -- unchanged constants -----------------------------------------------------------------------


def unchanged(model: Model, fmt: str) -> list[tuple[int, int]]:
    """Return the unchanged constants to write: positions in the input file, and sizes."""
    file = encoded(model, fmt)
    (source,) = file.sources
    start, length = place_of(np.frombuffer(source, np.uint8))
    places = [p.data.place for p in file.payloads if p.data.place is not None]
    return [(at - start, size) for at, size in places if 0 <= at - start <= length - size]


def test_unchanged_constants_are_views_of_the_input(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(to_bytes(load_bytes(constants([LARGE, 5, 70_000, 33, LARGE]))))
    model = load(path)
    assert sum(size for _, size in unchanged(model, "tflite")) == 2 * LARGE + 70_038
    value = constant(model, "c2")
    value.data = value.array()[::-1]
    assert [size for _, size in unchanged(model, "tflite")] == [LARGE, 5, 33, LARGE]
    save(model, tmp_path / "changed.tflite")
    assert (tmp_path / "changed.tflite").read_bytes() == to_bytes(model)
    assert_same_model(model, load(tmp_path / "changed.tflite"))


def test_padding_of_the_input_is_not_copied(tmp_path: Path) -> None:
    """Padding that is not zero must not be copied: the same model gives the same bytes."""
    path = tmp_path / "m.tflite"
    data = bytearray(to_bytes(load_bytes(constants([LARGE + 1, LARGE]))))
    expected = bytes(data)
    path.write_bytes(data)
    position, size = unchanged(load(path), "tflite")[0]
    data[position + size] = 7
    path.write_bytes(data)
    save(load(path), path)
    assert path.read_bytes() == expected


def test_unchanged_constants_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: object) -> bytes:
        raise AssertionError("a constant was compared")

    path = tmp_path / "m.tflite"
    path.write_bytes(constants([LARGE, LARGE, LARGE]))
    for name in ("sample", "digest"):
        monkeypatch.setattr(content, name, looked)
    save(load(path), tmp_path / "out.tflite")


def test_model_from_a_file_and_from_bytes_are_saved_equally(model_path: Path, tmp_path: Path) -> None:
    out = tmp_path / model_path.name
    size = save(load(model_path), out)
    assert out.read_bytes() == to_bytes(load_bytes(model_path.read_bytes()))
    assert size == out.stat().st_size


# -- the input changes before saving ---------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1000, 100_000, None])
def test_input_truncated_or_overwritten_before_saving(size: int | None, tmp_path: Path) -> None:
    """The old output stays, and the process does not crash."""
    path, output = tmp_path / "m.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants([LARGE, 5, LARGE]))
    output.write_bytes(b"before")
    model = load(path)
    value = constant(model, "c1")
    value.data = value.array()[::-1].copy()
    if size is None:
        with path.open("r+b") as file:
            file.write(b"x")
    else:
        os.truncate(path, size)
    for target in (output, path):
        with pytest.raises(FileError, match=r"m\.tflite: the file was changed after it was read"):
            save(model, target)
    assert output.read_bytes() == b"before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.tflite", "out.tflite"]


def test_inputs_of_a_model_made_from_others_are_checked(tmp_path: Path) -> None:
    """A merged model has constants of several files."""
    paths = [tmp_path / "a.tflite", tmp_path / "b.tflite"]
    for path, (read, made) in zip(paths, (("a", "b"), ("b", "c")), strict=True):
        line = f"%w = const f32[99] gaussian(0, 1)  %{made} = Add(%{read}, %w)"
        circlekit.save(circlekit.parse(f"graph main(%{read}: f32[99]) -> %{made} {{ {line} }}"), path)
    merged = circlekit.merge(map(circlekit.load, paths))
    part = circlekit.select(merged, [1])
    os.truncate(paths[1], 0)
    for model in (merged, part):
        with pytest.raises(FileError, match=r"b\.tflite: the file was changed after it was read"):
            circlekit.save(model, tmp_path / "out.tflite")
    circlekit.save(circlekit.select(merged, [0]), tmp_path / "out.tflite")


def test_input_truncated_while_it_is_copied(tmp_path: Path) -> None:
    path, output = tmp_path / "m.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants([LARGE, LARGE]))
    output.write_bytes(b"before")
    pieces = encoded(load(path), "tflite").pieces()

    def cut_meanwhile() -> object:
        for number, piece in enumerate(pieces):
            if number == 2:
                os.truncate(path, path.stat().st_size - 10)  # within a page, the rest of which reads as zeros
            yield piece

    with pytest.raises(FileError, match="the file was changed after it was read"):
        write_file(output, cut_meanwhile())  # type: ignore[arg-type]
    assert output.read_bytes() == b"before"


def test_input_replaced_before_saving(tmp_path: Path) -> None:
    """The loaded file still exists, without a name."""
    path = tmp_path / "m.tflite"
    path.write_bytes(constants([LARGE, LARGE]))
    model = load(path)
    expected = to_bytes(model)
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "new").replace(path)
    for output in (tmp_path / "out.tflite", path):
        save(model, output)
        assert output.read_bytes() == expected


# -- equal constants ---------------------------------------------------------------------------


def buffers(model: Model, oracle: Oracle = LITERT) -> list[int]:
    """Return the index of the buffer of each constant in the file that is written from ``model``."""
    tree = oracle.read(to_bytes(model, oracle.format))
    return [t["Buffer"] for t in tree["Subgraphs"][0]["Tensors"] if t["Name"].startswith(b"c")]


def test_new_data_shares_the_buffer_of_equal_data_in_the_file() -> None:
    """New data are a copy of old data, or an array with equal elements.  Unused buffers are left out."""
    model = load_bytes(constants([9000, 9000, 9000, 10]))
    assert buffers(model) == [1, 2, 3, 4]
    value = constant(model, "c0")
    value.data = value.array().copy()
    assert buffers(model) == [1, 2, 3, 4]
    value.data = constant(model, "c2").array()[::-1][::-1].copy()
    assert buffers(model) == [2, 1, 2, 3]
    value.data = value.array().copy()
    value.data[4500] ^= 1
    assert buffers(model) == [4, 1, 2, 3]


def test_only_constants_of_equal_size_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    real = content.digest

    def told(array: Array, dtype: np.dtype[Any] | None = None) -> bytes:
        hashed.append(array.nbytes)
        return real(array, dtype)

    monkeypatch.setattr(content, "digest", told)
    graph = Graph("main")
    random = np.random.default_rng(0)
    one = random.integers(0, 255, 50_000, np.uint8)
    other = one.copy()
    other[25_000] ^= 1
    datas = [one, random.integers(0, 255, 50_000, np.uint8), one[1:], one.copy(), other, one[:9000]]
    graph.table = [Value.constant(f"c{i}", data) for i, data in enumerate(datas)]
    graph.extra["unused"] = list(graph.table)
    assert buffers(Model([graph], "tflite")) == [1, 2, 3, 1, 4, 5]
    assert hashed == [50_000] * 3  # not the random data of equal size: a sample of their bytes differs


@pytest.mark.parametrize("oracle", [CIRCLE, LITERT])
def test_constants_of_any_order_and_byte_order(oracle: Oracle) -> None:
    """Arrays in memory may be transposed, reversed, strided or big-endian."""
    base = np.arange(6000, dtype=np.float32).reshape(60, 100)
    datas = [base.T, base[::-2, ::3], base.astype(">f4"), np.broadcast_to(base[:, :1], (60, 100)), base]
    graph = Graph("main")
    for number, data in enumerate(datas):
        graph.table.append(Value(f"c{number}", DType.FLOAT32, data.shape, data))
    graph.extra["unused"] = list(graph.table)
    tree = oracle.read(to_bytes(Model([graph], oracle.format, version=3)))
    for tensor, data in zip(tree["Subgraphs"][0]["Tensors"], datas, strict=True):
        stored = tree["Buffers"][tensor["Buffer"]]["Data"]
        assert stored.tobytes() == data.astype("<f4").tobytes()
    assert len(tree["Buffers"]) == 5


# -- external data -----------------------------------------------------------------------------


@pytest.mark.parametrize("oracle", [CIRCLE, LITERT])
@pytest.mark.parametrize("far", [(), (0,), (1, 3), (0, 1, 2, 3)])
def test_mixture_of_inline_and_external_data(far: Sequence[int], oracle: Oracle, tmp_path: Path) -> None:
    """The file loads like one with inline data; saved in either format it has equal, aligned constants."""
    sizes = [100_000, 7, LARGE, 1000]
    path = tmp_path / "mixed"
    path.write_bytes(constants(sizes, oracle, far))
    model = load(path)
    plain = load_bytes(constants(sizes, oracle))
    for old, new in zip(plain.main.values(), model.main.values(), strict=True):
        assert same_array(old.data, new.data)
    for other in (CIRCLE, LITERT):
        out = tmp_path / f"out.{other.format}"
        save(model, out)
        again = load(out)
        for old, new in zip(plain.main.values(), again.main.values(), strict=True):
            assert same_array(old.data, new.data)
        assert to_bytes(again) == out.read_bytes() == to_bytes(model, other.format)
        tree = other.read(out.read_bytes())
        kept = [b for b in tree["Buffers"] if b["Offset"] > 1]
        assert len(kept) == (4 if far else 0)
        assert all(b["Offset"] % 16 == 0 and b["Data"] is None for b in kept)


@pytest.mark.parametrize("fmt", ["circle", "tflite"])
def test_layout_beyond_two_gibibytes(fmt: str) -> None:
    """Check positions only: the constants take no memory, and no file is written."""
    graph = Graph("main")
    graph.table = [Value.constant(f"c{i}", np.broadcast_to(np.uint8(i), (1 << 29,))) for i in range(6)]
    graph.extra["unused"] = list(graph.table)
    model = Model([graph], fmt, version=3)
    file = encoded(model, fmt)
    assert file.size > 3 << 30
    assert all(p.position % 16 == 0 and not p.is_vector for p in file.payloads)
    assert [b.end for b in file.payloads][:-1] <= [b.position for b in file.payloads][1:]
    tree = (CIRCLE if fmt == "circle" else LITERT).read(bytes(file.skeleton))
    assert [b["Offset"] for b in tree["Buffers"][1:]] == [p.position for p in file.payloads]
    assert [b["Size"] for b in tree["Buffers"][1:]] == [1 << 29] * 6
    graph.table[3:] = []
    graph.extra["unused"] = list(graph.table)
    inline = encoded(model, fmt)
    assert inline.size < MAX_INLINE_BYTES
    assert all(p.is_vector for p in inline.payloads)


@pytest.mark.parametrize("oracle", [CIRCLE, LITERT])
def test_a_file_of_more_than_two_gibibytes(oracle: Oracle, tmp_path: Path) -> None:
    """A sparse file that takes no disk space is loaded, changed, and laid out again in either format."""
    size, count = 1 << 29, 5
    f = File(oracle)
    for index in range(count):
        f.tensor(f"c{index}", [size], "UINT8", buffer=f.buffer(offset=1 << 40, size=size))
    f.tensor("small", [4], "UINT8", buffer=f.buffer(b"data"))
    start = -(-len(f.pack()) // PAGE) * PAGE
    path = tmp_path / "huge"
    with path.open("wb") as file:
        for index, buffer in enumerate(f.model.buffers[1 : count + 1]):
            buffer.offset = start + index * size
            file.seek(buffer.offset + size - 1)
            file.write(bytes([index + 1]))
        file.seek(0)
        file.write(f.pack())
    model = load(path)
    assert [constant(model, f"c{i}").array()[-1] for i in range(count)] == [1, 2, 3, 4, 5]
    changed = constant(model, "c2")
    changed.data = np.broadcast_to(np.uint8(9), (size,))
    for fmt in ("circle", "tflite"):
        assert unchanged(model, fmt)[:4] == [(start + i * size, size) for i in (0, 1, 3, 4)]
        assert encoded(model, fmt).size - 5 * size < PAGE


# -- memory -----------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "far"), [((), True), (("--O1",), False)])
def test_memory_does_not_grow_with_the_model(flags: Sequence[str], far: bool, tmp_path: Path) -> None:
    source, target = tmp_path / "in.circle", tmp_path / "out.tflite"
    size = make_model(source, ANONYMOUS * 5 // 2, far)
    code = "import sys; from circlekit.cli.circle2circle import main; sys.exit(main())"
    result = run([sys.executable, "-c", code, *flags, str(source), str(target)])
    assert result.anonymous_bytes < ANONYMOUS < size / 2
    model = load(target)
    assert len(model.main) == len(load(source).main) - 2 * len(flags)  # a Mul and an Add are fused
    assert sum(length for _, length in unchanged(model, "tflite")) > 0.99 * size


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system reserves no room in a file")
def test_memory_does_not_grow_with_the_layer_that_changes(tmp_path: Path) -> None:
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    make_model(source, 4 * LAYER, width=math.isqrt(LAYER // 4))
    code = "import sys; from circlekit.cli.circle2circle import main; sys.exit(main())"
    result = run([sys.executable, "-c", code, "--O1", str(source), str(target)])
    assert result.anonymous_bytes < LAYER
    for path in (source, target):
        assert max(value.array().nbytes for value in load(path).main.values() if value.is_const) == LAYER
        path.unlink()
