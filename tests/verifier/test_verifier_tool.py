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
from tools.fuzz.mutate_bytes import mutate_bytes
from tools.verifier.__main__ import FULL_MODELS, DamagedFile, compare, decoder_message
from tools.verifier.full_model import full_model

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
    assert not unknown
    assert read == reachable_tables("Model", fmt)


def test_litert_accepts_a_full_model() -> None:
    assert accepted_files([full_model("tflite", random.Random(0))]) == [True]


def test_the_decoder_refuses_what_litert_refuses() -> None:
    full = full_model("tflite", random.Random(0))
    made = (mutate_bytes(full, full, random.Random(number)) for number in range(SAMPLE))
    comparison = compare(DamagedFile(str(n), data, tuple(done)) for n, (data, done) in enumerate(made))
    assert comparison.files == SAMPLE
    assert 0.1 < comparison.accepted_by_both / SAMPLE < 0.9  # both verdicts occur
    assert not comparison.findings


def test_a_finding_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.verifier.__main__.decoder_message", lambda data: "")
    assert compare(iter([DamagedFile("cut", b"\0" * 8, ())])).findings[0].name == "cut"


class OffsetsOfWideVectors(Decoder):
    """Decoder that collects the places of offsets to vectors of 8-byte numbers."""

    def vector(self, at: int, offset: int, size: int) -> tuple[int, int]:
        start, count = super().vector(at, offset, size)
        if size == 8 and count:
            self.found = at, start, count
        return start, count


def test_unaligned_vector_of_8_byte_numbers() -> None:
    data = full_model("tflite", random.Random(0))
    decoder = OffsetsOfWideVectors(memoryview(data), "tflite", "full")
    decoder.root()
    at, start, count = decoder.found
    for gap, message in ((0, "N-byte elements at byte N are not aligned"), (4, "")):
        out = bytearray(data) + bytes(-len(data) % 8 + gap)
        struct.pack_into("<I", out, at, len(out) - at)
        out += data[start - 4 : start + 8 * count]
        assert decoder_message(bytes(out)) == message
