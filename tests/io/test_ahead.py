# SPDX-License-Identifier: Apache-2.0
"""Copies that begin before the compiler is imported: the same files, sooner, and nothing left behind."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.errors import FileError, FormatError
from circlekit.io import ahead, moves
from circlekit.io.ahead import of_command, spans
from circlekit.io.read.load import load, load_bytes
from circlekit.io.uninterpreted import Origin, place_of
from circlekit.io.write import file_layout as layout
from circlekit.io.write.output import Output
from circlekit.io.write.save import save, to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Value
from tests.io.oracles import CIRCLE, LITERT, Oracle
from tests.io.test_layout import constants

LARGE = 5000
SIZES = [9000, 5000, 70_000, 33, 9000, 20_001, 9000, 100_000]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that small files meet."""
    monkeypatch.setattr(moves, "LARGE", LARGE)
    monkeypatch.setattr(moves, "LARGE_FILE", 8 * LARGE)
    monkeypatch.setattr(layout, "MIN_RANGE", 2000)
    monkeypatch.setattr(ahead, "STEP", 8192)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what the writer does not write, because it is there."""
    sizes: list[int] = []
    real = os.lseek

    def told(descriptor: int, offset: int, whence: int) -> int:
        sizes.append(offset)
        return real(descriptor, offset, whence)

    monkeypatch.setattr(os, "lseek", told)
    return sizes


def source_of(model: Model) -> list[tuple[int, int]]:
    """The large data of the file, as the decoder sees it."""
    origin = model.extra["origin"]
    assert isinstance(origin, Origin)
    assert origin.source is not None
    start = origin.source.address
    places = [place_of(a) for a in origin.buffers if a is not None and len(a) >= LARGE]
    return sorted((at - start, size) for at, size in places)


# -- what is copied ----------------------------------------------------------------------------


@pytest.mark.parametrize("far", [(), (0, 3, 4), range(8)])
@pytest.mark.parametrize("oracle", [CIRCLE, LITERT])
def test_the_data_is_found_as_the_decoder_finds_it(oracle: Oracle, far: Sequence[int]) -> None:
    for data in (content := constants(SIZES, oracle, far)), to_bytes(load_bytes(content)):
        found = sorted(spans(memoryview(data)))
        assert found == source_of(load_bytes(data))
        assert len(found) == 7


@given(st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)), max_size=5))
@settings(max_examples=300, deadline=None)
def test_broken_files(edits: list[tuple[int, bytes]]) -> None:
    """They are read without checks: nothing is found, or something, or one of two errors."""
    data = bytearray(constants([9000, 9000], far=[1]))
    for at, new in edits:
        at %= 300
        data[at : at + len(new)] = new
    try:
        found = spans(memoryview(data))
    except (ValueError, struct.error):
        return
    assert all(0 <= start <= start + size <= len(data) for start, size in found)


@pytest.mark.parametrize("far", [(), range(8)])
@pytest.mark.parametrize("again", [False, True])
def test_the_file_is_the_same(far: Sequence[int], again: bool, tmp_path: Path, copied: list[int]) -> None:
    """As without it; and what was copied is not written again."""
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    data = constants(SIZES, LITERT, far)
    path.write_bytes(to_bytes(load_bytes(data)) if again else data)
    with of_command(["--flag", str(path), str(target)]):
        save(load(path), target)
    assert target.read_bytes() == to_bytes(load_bytes(path.read_bytes()))
    assert sum(copied) >= sum(size for size in SIZES if size >= LARGE)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.tflite", "out.tflite"]


def test_input_and_output_are_one(tmp_path: Path, copied: list[int]) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(constants(SIZES))
    expected = to_bytes(load(path))
    with of_command([str(path), str(path)]):
        save(load(path), path)
    assert path.read_bytes() == expected
    assert copied
    assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]


def stored(model: Model) -> list[Value]:
    return [value for value in model.main.table if value.is_const]


def other_data(model: Model) -> None:
    stored(model)[2].data = ~stored(model)[2].array()


def shorter_data(model: Model) -> None:
    stored(model)[2].data = stored(model)[2].array()[:7000].copy()


def less_data(model: Model) -> None:
    for value in stored(model)[:6]:
        value.data = np.zeros(9, np.uint8)


def large_skeleton(model: Model) -> None:
    model.description = "x" * 200_000


EDITS: list[Callable[[Model], None]] = [other_data, shorter_data, less_data, large_skeleton]


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_copied_in_vain(edit: Callable[[Model], None], tmp_path: Path, copied: list[int]) -> None:
    """Other data in its place, a shorter file, another layout: the file is what it would have been."""
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(to_bytes(load_bytes(constants(SIZES))))
    with of_command([str(path), str(target)]):
        model = load(path)
        edit(model)
        for value in stored(model):
            assert value.data is not None
            value.shape = value.data.shape
        save(model, target)
    assert target.read_bytes() == to_bytes(model)
    assert copied or edit is not other_data


# -- what goes wrong ---------------------------------------------------------------------------


def test_another_file_of_that_name(tmp_path: Path, copied: list[int]) -> None:
    """The one that was copied is not the one that was loaded."""
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants(SIZES))
    with of_command([str(path), str(target)]):
        other = tmp_path / "other"
        other.write_bytes(constants(SIZES[::-1]))
        other.replace(path)
        save(load(path), target)
    assert target.read_bytes() == to_bytes(load(path))
    assert not copied


def test_a_file_that_is_written_to_meanwhile(tmp_path: Path) -> None:
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants(SIZES))
    with of_command([str(path), str(target)]):
        model = load(path)
        with path.open("r+b") as file:
            file.write(b"x")
        with pytest.raises(FileError, match="changed"):
            save(model, target)
    assert [p.name for p in tmp_path.iterdir()] == ["in.tflite"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EXDEV, errno.EIO])
@pytest.mark.parametrize("after", [0, 3])
def test_a_copy_that_fails(
    code: int, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[int]
) -> None:
    """What it could not do the writer does, or tells."""
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants(SIZES))
    real = os.copy_file_range
    left = [after]

    def limited(*arguments: int) -> int:
        left[0] -= 1
        if left[0] < 0 and len(arguments) == 5:
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    monkeypatch.setattr(os, "copy_file_range", limited)
    with of_command([str(path), str(target)]):
        save(load(path), target)
    assert target.read_bytes() == to_bytes(load(path))
    assert len(copied) == after


def test_a_command_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants(SIZES))
    target.write_bytes(b"before")

    def fail() -> None:
        with of_command([str(path), str(target)]):
            assert len(list(tmp_path.iterdir())) == 3
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.tflite", "out.tflite"]
    assert target.read_bytes() == b"before"


def test_a_broken_file_is_told_by_the_decoder(tmp_path: Path) -> None:
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants(SIZES)[:100_000])
    with pytest.raises(FormatError, match="leads to no valid place"), of_command([str(path), str(target)]):
        save(load(path), target)
    assert [p.name for p in tmp_path.iterdir()] == ["in.tflite"]


# -- whether one begins ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["IN"],
        ["--help"],
        ["IN", "-o", "circle", "OUT"],
        ["SMALL", "OUT"],
        ["IN", "FOLDER"],
        ["IN", "FOLDER/missing/out.tflite"],
        ["IN", "/dev/null"],
        ["missing", "OUT"],
        ["a\0b", "OUT"],
        ["IN", "a\0b"],
        ["IN", "x" * 5000],
    ],
)
def test_nothing_begins(words: list[str], tmp_path: Path) -> None:
    names = {"IN": "in.tflite", "OUT": "out.tflite", "SMALL": "small.tflite", "FOLDER": "folder"}
    (tmp_path / "in.tflite").write_bytes(constants(SIZES))
    (tmp_path / "small.tflite").write_bytes(constants([100, 200]))
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for short, name in names.items():
        words = [word.replace(short, str(tmp_path / name)) for word in words]
    with of_command(words):
        assert sorted(tmp_path.rglob("*")) == before
    assert sorted(tmp_path.rglob("*")) == before


def test_only_the_target_gets_it(tmp_path: Path, copied: list[int]) -> None:
    """A command may write other files first."""
    path, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(constants(SIZES))
    with of_command([str(path), str(target)]):
        save(load(path), tmp_path / "first.tflite")
        assert not copied
        save(load(path), target)
        assert copied
        count = len(copied)
        save(load(path), target)
        assert len(copied) == count
    contents = {p.read_bytes() for p in (target, tmp_path / "first.tflite")}
    assert contents == {to_bytes(load(path))}


def test_a_writer_that_knows_nothing_of_it(tmp_path: Path) -> None:
    """Without a copy that has begun all is written."""
    with (tmp_path / "out").open("wb") as file:
        assert Output(file.fileno()).write_all([b"all"]) == 3
    assert (tmp_path / "out").read_bytes() == b"all"
