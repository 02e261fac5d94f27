# SPDX-License-Identifier: Apache-2.0
"""A sample of tools/verifier: the decoder refuses whatever LiteRT's C++ verifier refuses."""

from __future__ import annotations

import random
import struct

import pytest

from circlekit.equivalence.litert import accepted_files
from circlekit.io.read.flatbuffer_decoder import Decoder
from circlekit.io.schema import FORMATS, Kind, table
from circlekit.io.tables import TABLES
from tools.verifier.__main__ import FULL_MODELS, DamagedFile, compare, decoder_message
from tools.verifier.damage import damaged
from tools.verifier.full_model import full_model
from tools.verifier.structure import Structure

SAMPLE = 200


def reachable_tables(name: str, fmt: str) -> set[str]:
    """Return table ``name`` and every table that it can hold."""
    found = {name}
    for field in table(name, fmt).fields:
        members = field.enum.numbers if field.kind is Kind.UNION and field.enum else [field.table]
        found.update(*(reachable_tables(member, fmt) for member in members if member in TABLES))
    return found


@pytest.mark.parametrize("fmt", FORMATS)
def test_full_models_have_every_table(fmt: str) -> None:
    read: set[str] = set()
    unknown: list[str] = []
    for number in range(FULL_MODELS):
        data = full_model(fmt, random.Random(number))
        decoder = Decoder(memoryview(data), fmt, "full", lambda path, what: unknown.append(path))
        decoder.root()
        read |= {name for name, _ in decoder.layouts}
        assert len(Structure(data, fmt).tables) == decoder.tables
    assert not unknown
    assert read == reachable_tables("Model", fmt)


def test_litert_accepts_a_full_model() -> None:
    assert accepted_files([full_model("tflite", random.Random(0))]) == [True]


def test_the_decoder_refuses_what_litert_refuses() -> None:
    structure = Structure(full_model("tflite", random.Random(0)), "tflite")
    made = (damaged(structure, random.Random(number)) for number in range(SAMPLE))
    comparison = compare(DamagedFile(str(n), data, tuple(done)) for n, (data, done) in enumerate(made))
    assert comparison.files == SAMPLE
    assert 0.1 < comparison.accepted_by_both / SAMPLE < 0.9  # both verdicts occur
    assert not comparison.findings


def test_a_finding_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.verifier.__main__.decoder_message", lambda data: "")
    assert compare(iter([DamagedFile("cut", b"\0" * 8, ())])).findings[0].name == "cut"


def test_unaligned_vector_of_8_byte_numbers() -> None:
    data = full_model("tflite", random.Random(0))
    structure = Structure(data, "tflite")
    wide = {at for at, _, unit in structure.numbers["length"] if unit == 8}
    leaf = next(leaf for leaf in structure.leaves if leaf.start in wide and leaf.size > 4)
    for gap, message in ((0, "N-byte elements at byte N are not aligned"), (4, "")):
        out = bytearray(data) + bytes(-len(data) % 8 + gap)
        struct.pack_into("<I", out, leaf.at, len(out) - leaf.at)
        out += data[leaf.start : leaf.start + leaf.size]
        assert decoder_message(bytes(out)) == message
