# SPDX-License-Identifier: Apache-2.0
"""Compare the flatbuffer decoder with the C++ verifier in LiteRT, on damaged .tflite files.

    python -m tools.verifier --damaged 20000 --seed 7 [--keep DIR]

Damages the bytes of the shared models, of the project's recipes, and of models with every table and field of
the schema, which are structure alone.  A file that LiteRT's verifier refuses and the decoder accepts is a
finding: it is written to DIR, and the exit code is 1.  Files that only the decoder refuses are counted by its
message.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from circlekit.equivalence.litert import accepted_files
from circlekit.errors import FormatError, FormatWarning
from circlekit.io.read.flatbuffer_decoder import RUNTIME_TABLES, Decoder
from circlekit.io.schema import IDENTIFIERS
from tools.fuzz.mutate_bytes import mutate_bytes
from tools.fuzz.seeds import SHARED, Seeds, all_seeds
from tools.verifier.full_model import full_model

FORMAT = "tflite"
BATCH_FILES = 250
LARGEST_MODEL_BYTES = 400_000
FULL_MODELS = 4
"""Models with every table of the schema that are damaged."""


class DamagedFile(NamedTuple):
    """``name`` identifies it for a given seed; ``damage``: the original and the kinds of damage."""

    name: str
    data: bytes
    damage: tuple[str, ...]


class Comparison:
    """Counts of verdicts.  ``findings``: accepted by the decoder alone; ``strict``: refused by it alone."""

    def __init__(self) -> None:
        self.files = 0
        self.accepted_by_both = 0
        self.findings: list[DamagedFile] = []
        self.strict: Counter[str] = Counter()

    def add(self, file: DamagedFile, is_accepted: bool) -> None:
        """Count a file that LiteRT's verifier accepts or not."""
        message = decoder_message(file.data)
        self.files += 1
        self.accepted_by_both += is_accepted and not message
        if message and is_accepted:
            self.strict[message] += 1
        elif not message and not is_accepted:
            self.findings.append(file)

    def __str__(self) -> str:
        alone, findings = self.strict.total(), len(self.findings)
        refused = self.files - self.accepted_by_both - alone - findings
        head = f"{self.files} files: {self.accepted_by_both} accepted by both, {refused} refused by both, "
        head += f"{alone} refused by the decoder only, {findings} by LiteRT only"
        return "\n".join([head, *(f"  {count:6} {text}" for text, count in self.strict.most_common())])


def decoder_message(data: bytes) -> str:
    """Return why the decoder refuses a file, with numbers replaced by N; empty if it accepts the file."""
    if data[4:8] != IDENTIFIERS[FORMAT]:
        return "another identifier"
    decoder = Decoder(memoryview(data), FORMAT, "", lambda path, what: None)
    try:
        decoder.root()
    except FormatError as error:
        return re.sub(r"\d+", "N", error.message.rpartition(": ")[2])
    return "more tables than the C++ verifier accepts" if decoder.tables > RUNTIME_TABLES else ""


def damaged_files(seeds: Seeds, count: int, seed: int) -> Iterator[DamagedFile]:
    """Damage real models and models with every table of the schema, half and half."""
    real = [s.data for s in seeds.files if s.format == FORMAT and len(s.data) < LARGEST_MODEL_BYTES]
    full = [full_model(FORMAT, random.Random(number)) for number in range(FULL_MODELS)]
    for number in range(count):
        name = f"damaged:{seed}:{number}"
        rng = random.Random(name)
        original = rng.choice(rng.choice((real, full)))
        data, damage = mutate_bytes(original, rng.choice(full), rng)
        yield DamagedFile(name, data, tuple(damage))


def compare(files: Iterator[DamagedFile]) -> Comparison:
    """Give all files to both verifiers."""
    comparison = Comparison()
    while batch := list(islice(files, BATCH_FILES)):
        for file, is_accepted in zip(batch, accepted_files([f.data for f in batch]), strict=True):
            comparison.add(file, is_accepted)
    return comparison


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.verifier", description="decoder against LiteRT")
    parser.add_argument("--damaged", type=int, default=5000, help="how many files to make")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for findings")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", FormatWarning)
    comparison = compare(damaged_files(all_seeds(SHARED), asked.damaged, asked.seed))
    print(comparison)
    for file in comparison.findings:
        print(f"{file.name} ({', '.join(file.damage)})")
        if asked.keep is not None:
            asked.keep.mkdir(parents=True, exist_ok=True)
            (asked.keep / f"{file.name.replace(':', '_')}.{FORMAT}").write_bytes(file.data)
    return 1 if comparison.findings else 0


if __name__ == "__main__":
    sys.exit(main())
