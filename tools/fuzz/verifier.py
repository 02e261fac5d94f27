# SPDX-License-Identifier: Apache-2.0
"""Compare the flatbuffer decoder with LiteRT's C++ verifier on a damaged ``.tflite`` file.

A file that LiteRT refuses and the decoder accepts is a fault.
"""

from __future__ import annotations

import random
import re
from functools import cache

from circlekit.equivalence.litert import accepted_files
from circlekit.errors import FormatError
from circlekit.io.read.flatbuffer_decoder import RUNTIME_TABLES, Decoder
from circlekit.io.schema import IDENTIFIERS
from tools.fuzz.full_model import full_model
from tools.fuzz.mutate_bytes import mutate_bytes
from tools.fuzz.run_model import FAULT, REFUSED, SAVED, Outcome
from tools.fuzz.seeds import Seeds

FORMAT = "tflite"
LARGEST_MODEL_BYTES = 400_000
FULL_MODELS = 4
"""How many models with every table of the schema are made, to be damaged."""


@cache
def full_models() -> list[bytes]:
    return [full_model(FORMAT, random.Random(number)) for number in range(FULL_MODELS)]


def damaged_file(seeds: Seeds, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return a damaged file, made from a seed or from one of ``full_models``, and what was done to it."""
    small = (seed for seed in seeds.files if len(seed.data) < LARGEST_MODEL_BYTES)
    real = [seed.data for seed in small if seed.format == FORMAT]
    return mutate_bytes(rng.choice(rng.choice((real, full_models()))), rng.choice(full_models()), rng)


def compare_verifiers(data: bytes) -> Outcome:
    """Return whether the decoder and LiteRT accept a file; it is a fault if only LiteRT refuses the file."""
    message, (is_accepted,) = decoder_message(data), accepted_files([data])
    if is_accepted:
        return Outcome(REFUSED, "by the decoder alone", message) if message else Outcome(SAVED, "by both")
    return Outcome(REFUSED, "by both") if message else Outcome(FAULT, "refused by LiteRT alone")


def decoder_message(data: bytes) -> str:
    """Return why the decoder, or the C++ verifier's limit of tables, refuses the file; "" if neither does."""
    if data[4:8] != IDENTIFIERS[FORMAT]:
        return "another identifier"
    decoder = Decoder(memoryview(data), FORMAT, "", lambda path, what: None)
    try:
        decoder.root()
    except FormatError as error:
        return re.sub(r"\d+", "N", error.message.rpartition(": ")[2])
    return "more tables than the C++ verifier accepts" if decoder.tables > RUNTIME_TABLES else ""
