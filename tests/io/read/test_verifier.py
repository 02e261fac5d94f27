# SPDX-License-Identifier: Apache-2.0
"""The decoder refuses the files that the C++ verifier refuses, and accepts valid files."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlekit.equivalence.litert import accepted_files
from circlekit.errors import FormatError, FormatWarning
from circlekit.io.read import flatbuffer_decoder as decoder
from circlekit.io.read.flatbuffer_decoder import Decoder, decode, identify
from circlekit.io.tables import TABLES, UNIONS
from tests.io.models import LIBRARY, file_bytes
from tests.io.mutate import damaged

SEEDS = 60
"""The number of damaged files that are made of each valid file."""


def reads(data: bytes) -> bool:
    """Return whether the decoder accepts the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        try:
            decode(memoryview(data), "tflite")
        except FormatError:
            return False
    return True


def test_files_that_litert_refuses_are_refused() -> None:
    """Structural damage: LiteRT's verifier is the oracle."""
    names = sorted(name for name in LIBRARY if name.endswith(".tflite"))
    files = [damaged(file_bytes(name), seed) for name in names for seed in range(SEEDS)]
    theirs = accepted_files(files)
    assert 0.2 < np.mean(theirs) < 0.8  # both outcomes occur
    lax = [n for n, (data, sound) in enumerate(zip(files, theirs, strict=True)) if not sound and reads(data)]
    assert not lax


def test_real_models_are_accepted(model_path: Path) -> None:
    data = memoryview(model_path.read_bytes())
    fmt = identify(data)
    assert fmt is not None
    run = Decoder(data, fmt, "real")
    assert run.root()
    assert run.tables < decoder.RUNTIME_TABLES
    assert not run.notes


def members() -> Iterator[tuple[str, str]]:
    """Yield (table, table that it holds) for the whole schema."""
    for name, fields in TABLES.items():
        for _, type_name, _, _ in fields:
            inner = type_name.strip("[]")
            for member in [row[0] for row in UNIONS.get(inner, ())] or [inner]:
                if member in TABLES:
                    yield name, member


def test_schema_has_no_recursive_tables() -> None:
    """Without recursion the depth of every file is bounded, so the decoder needs no depth limit."""
    holds: dict[str, set[str]] = {}
    for name, member in members():
        holds.setdefault(name, set()).add(member)
    level, deepest = {"Model"}, 0
    while level:
        level = set().union(*(holds.get(name, set()) for name in level))
        deepest += 1
        assert deepest < 10
    assert deepest >= 4


# -- the limits --------------------------------------------------------------------------------


def wide(count: int) -> bytes:
    """A model with ``count`` references to one empty buffer."""
    out = bytearray(struct.pack("<I4s", 24, b"TFL3"))
    out += struct.pack("<7H2x", 14, 8, 0, 0, 0, 0, 4)  # the vtable of Model: buffers at 4
    out += struct.pack("<iII", 16, 4, count)
    first = len(out)
    end = first + 4 * count
    out += np.arange(end + 4 - first, 4, -4, dtype="<u4").tobytes()
    return bytes(out + struct.pack("<HHi", 4, 4, 4))


def test_shared_table_is_accepted() -> None:
    assert len(decode(memoryview(wide(1000)), "tflite")["buffers"]) == 1000


def test_number_of_tables_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts the tables that are read, including the root."""
    monkeypatch.setattr(decoder, "MAX_TABLES", 1000)
    assert len(decode(memoryview(wide(999)), "tflite")["buffers"]) == 999
    with pytest.raises(FormatError, match="buffers: expected at most 1000 tables, got 1001"):
        decode(memoryview(wide(1000)), "tflite")


def test_too_many_references_to_one_table_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MAX_SHARED_TABLES", 1000)
    assert len(decode(memoryview(wide(1001)), "tflite")["buffers"]) == 1001
    with pytest.raises(FormatError, match=r"buffers\[1001\]: the file refers to the same tables too often"):
        decode(memoryview(wide(1002)), "tflite")


# -- fields that are verified but not read ----------------------------------------


def union_of(tag: int, offset: int) -> bytes:
    """A model whose only operator has builtin options of type ``tag`` at ``offset``."""
    out = bytearray(struct.pack("<I4s", 20, b"TFL3"))
    out += struct.pack("<5H2x", 10, 8, 0, 0, 4)  # Model: subgraphs
    out += struct.pack("<iIII", 12, 4, 1, 20)  # Model at 20, the vector at 28, SubGraph at 52
    out += struct.pack("<6H4x", 12, 8, 0, 0, 0, 4)  # SubGraph: operators, at 36
    out += struct.pack("<iIII", 16, 4, 1, 24)  # SubGraph at 52, the vector at 60, Operator at 88
    out += struct.pack("<7H6x", 14, 12, 0, 0, 0, 4, 8)  # Operator: type at 4, options at 8; at 68
    out += struct.pack("<iIII", 20, tag, offset, 0)  # Operator at 88
    assert len(out) == 104
    return bytes(out)


@pytest.mark.parametrize(("tag", "offset"), [(0, 0), (0, 8), (0, 0x7FFFFFFF), (250, 8), (250, 0x80000004)])
def test_offset_of_a_union_without_known_member_is_checked(tag: int, offset: int) -> None:
    """NONE or a member of a newer schema is not read, but its offset must be inside the file."""
    assert accepted_files([union_of(tag, offset), union_of(tag, 4)]) == [False, True]
    with pytest.warns(FormatWarning, match="its value is lost"):
        decode(memoryview(union_of(tag, 4)), "tflite")
    with pytest.raises(FormatError, match=r"operators\[0\].builtin_options: the offset .* does not lead"):
        decode(memoryview(union_of(tag, offset)), "tflite")
