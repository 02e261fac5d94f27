# SPDX-License-Identifier: Apache-2.0
"""Models with every table of the schema, and the comparison of the decoder with LiteRT's C++ verifier."""

from __future__ import annotations

import random
import struct

import pytest

from circlekit.equivalence.litert import accepted_files
from circlekit.io.read.flatbuffer_decoder import Decoder
from circlekit.io.schema import FORMATS, Kind, table
from circlekit.io.tables import TABLES
from tools.fuzz.full_model import full_model
from tools.fuzz.verifier import FULL_MODELS, compare_verifiers, decoder_message


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


def test_a_file_that_the_decoder_alone_accepts_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = full_model("tflite", random.Random(0))[:-8]
    assert not compare_verifiers(cut).is_fault
    monkeypatch.setattr("tools.fuzz.verifier.decoder_message", lambda data: "")
    assert compare_verifiers(cut).is_fault


class LastWideVector(Decoder):
    """Decoder that remembers the last vector of 8-byte numbers.

    ``found``: the place of the offset to it, the place of its first number, and the count.
    """

    def vector(self, at: int, offset: int, size: int) -> tuple[int, int]:
        start, count = super().vector(at, offset, size)
        if size == 8 and count:
            self.found = at, start, count
        return start, count


def test_a_vector_of_8_byte_numbers_may_be_unaligned() -> None:
    data = full_model("tflite", random.Random(0))
    decoder = LastWideVector(memoryview(data), "tflite", "full")
    decoder.root()
    at, start, count = decoder.found
    for gap in (0, 4):
        # a copy of the vector at a multiple of 8, plus gap; its numbers begin 4 bytes later, after the count
        out = bytearray(data) + bytes(-len(data) % 8 + gap)
        struct.pack_into("<I", out, at, len(out) - at)
        out += data[start - 4 : start + 8 * count]
        assert decoder_message(bytes(out)) == ""
        assert accepted_files([bytes(out)]) == [True]
