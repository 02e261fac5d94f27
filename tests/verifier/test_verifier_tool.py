# SPDX-License-Identifier: Apache-2.0
"""A sample of tools/verifier, with LiteRT's verifier as the oracle, and flatc's where there is a flatc."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import pytest

from circlekit.equivalence.litert import accepted_files
from circlekit.errors import CirclekitError
from circlekit.io.read.flatbuffer_decoder import Decoder
from circlekit.io.schema import FORMATS, IDENTIFIERS, Kind, table
from circlekit.io.tables import TABLES
from tools.verifier.__main__ import FULL, File, Tally, compare, full_seed, refusal
from tools.verifier.damage import damaged
from tools.verifier.native import Native
from tools.verifier.places import Places

SAMPLE = 200
SEEDS = {fmt: full_seed(fmt, 0) for fmt in FORMATS}
OTHER = {"tflite": "circle", "circle": "tflite"}


def sample(fmt: str) -> list[File]:
    places = Places(SEEDS[fmt].data, fmt)
    made = (damaged(places, random.Random(number)) for number in range(SAMPLE))
    return [File(str(number), data, fmt, tuple(done)) for number, (data, done) in enumerate(made)]


def below(name: str, fmt: str) -> set[str]:
    """Table ``name`` and all that it can hold."""
    found = {name}
    for field in table(name, fmt).fields:
        members = field.enum.numbers if field.kind is Kind.UNION and field.enum else [field.table]
        found.update(*(below(member, fmt) for member in members if member in TABLES))
    return found


@pytest.mark.parametrize("fmt", FORMATS)
def test_full_models(fmt: str) -> None:
    """They have every table of the format, and nothing that the decoder does not know."""
    read: set[str] = set()
    notes: list[str] = []
    for number in range(FULL):
        data = full_seed(fmt, number).data
        run = Decoder(memoryview(data), fmt, "full", lambda path, what: notes.append(path))
        run.root()
        read |= {name for name, _ in run.layouts}
        assert len(Places(data, fmt).homes) == run.tables
    assert not notes
    assert read == below("Model", fmt)


def test_full_model_is_sound_for_litert() -> None:
    assert accepted_files([SEEDS["tflite"].data]) == [True]


def test_damage_that_litert_refuses() -> None:
    files = sample("tflite")
    theirs = accepted_files([file.data for file in files])
    assert 0.1 < sum(theirs) / len(theirs) < 0.9  # both sides are met
    assert not [f.name for f, sound in zip(files, theirs, strict=True) if not sound and not refusal(f)]


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    if shutil.which("flatc") is None or shutil.which("g++") is None:
        pytest.skip("no flatc or no g++")
    try:
        return Native(tmp_path_factory.mktemp("native"))
    except CirclekitError as error:
        if "flatbuffers.h" in error.message or "Non-compatible flatbuffers" in error.message:
            pytest.skip("no headers of flatbuffers, or those of another version than flatc")
        raise


@pytest.mark.parametrize("fmt", FORMATS)
def test_damage_that_the_library_refuses(native: Native, fmt: str) -> None:
    tally = Tally()
    compare(native, iter(sample(fmt)), tally)
    assert tally.files == SAMPLE
    assert not tally.lax


@pytest.mark.parametrize("fmt", FORMATS)
def test_other_format(native: Native, fmt: str) -> None:
    """The program looks at the identifier, too."""
    data = SEEDS[fmt].data
    assert list(native.accepted([data, data[:4] + IDENTIFIERS[OTHER[fmt]] + data[8:]], fmt)) == [True, False]


def test_vector_of_wide_numbers_that_is_not_aligned() -> None:
    """Its elements are read as numbers of 8 bytes: the decoder wants them where such numbers can be."""
    for fmt in FORMATS:
        data = SEEDS[fmt].data
        places = Places(data, fmt)
        leaf = next(leaf for leaf in places.leaves if (leaf.start, 8) in places.lengths and leaf.size > 4)
        for gap, said in ((0, "N-byte elements at byte N are not aligned"), (4, "")):
            out = bytearray(data) + bytes(-len(data) % 8 + gap)
            struct.pack_into("<I", out, leaf.at, len(out) - leaf.at)
            out += data[leaf.start : leaf.start + leaf.size]
            assert refusal(File("", bytes(out), fmt, ())) == said


def test_without_flatc(tmp_path: Path) -> None:
    with pytest.raises(CirclekitError, match="there is no flatc-of-nowhere; needed are flatc, g"):
        Native(tmp_path, "flatc-of-nowhere")


def test_schema_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: Native) -> None:
    monkeypatch.setattr("tools.verifier.native.schema_text", lambda fmt: "table {")
    with pytest.raises(CirclekitError, match="flatc: "):
        Native(tmp_path)
