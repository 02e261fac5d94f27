# SPDX-License-Identifier: Apache-2.0
"""Hold the decoder against the C++ verifier, on damaged models of both formats.

python -m tools.verifier --damaged 20000 --blind 5000 --structured 2000 --extreme 500 --seed 7

Makes files of the shared models, of the project's recipes and of models with every table and field of the
schema: their structure damaged on purpose, and the mutations of tools/fuzz.  A file that the C++ verifier
refuses and the decoder takes is a finding: it is kept in ``--keep DIR``, and the exit code is 1.  What the
decoder alone refuses is counted by what it says.  Needs flatc, g++ and the headers of flatbuffers.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from circlekit.errors import CirclekitError, FormatError, FormatWarning
from circlekit.io.read.flatbuffer_decoder import RUNTIME_TABLES, Decoder
from circlekit.io.schema import IDENTIFIERS
from tools.fuzz.case import Job, make_case
from tools.fuzz.seeds import SHARED, Seed, Seeds, all_seeds
from tools.verifier.damage import damaged
from tools.verifier.full import full_model
from tools.verifier.native import Native
from tools.verifier.places import Places

BATCH = 250
"""Files that the C++ verifier is given at a time."""

HEAVY = 400_000
"""Bytes of the largest model that is damaged."""


FULL = 4
"""Models of everything, of each format."""


class File(NamedTuple):
    """``name``: by which it can be made again.  ``done``: what was done to a model."""

    name: str
    data: bytes
    format: str
    done: tuple[str, ...]


def refusal(file: File) -> str:
    """What the decoder says to the file, without its numbers; nothing where it takes it."""
    if file.data[4:8] != IDENTIFIERS[file.format]:
        return "another identifier"
    run = Decoder(memoryview(file.data), file.format, "", lambda path, what: None)
    try:
        run.root()
    except FormatError as error:
        return re.sub(r"\d+", "N", error.message.rpartition(": ")[2])
    return "more tables than the C++ verifier takes" if run.tables > RUNTIME_TABLES else ""


def damaged_files(seeds: Seeds, count: int, seed: int) -> Iterator[File]:
    """Half of them of models that have whatever the schema has."""
    light = [item for item in seeds.files if len(item.data) < HEAVY]
    full = [full_seed(fmt, number) for fmt in IDENTIFIERS for number in range(FULL)]
    places: dict[str, Places] = {}
    for number in range(count):
        name = f"damaged:{seed}:{number}"
        rng = random.Random(name)
        item = rng.choice(rng.choice((light, full)))
        if item.name not in places:
            places[item.name] = Places(item.data, item.format)
        data, done = damaged(places[item.name], rng)
        yield File(name, data, item.format, (item.name, *done))


def full_seed(fmt: str, number: int) -> Seed:
    return Seed(f"full {number}.{fmt}", full_model(fmt, random.Random(number)), fmt, 1)


def fuzzed_files(seeds: Seeds, kind: str, count: int, seed: int) -> Iterator[File]:
    for number in range(count):
        job = Job(kind, seed, number)
        case = make_case(job, seeds)
        fmt = "circle" if case.data[4:8] == IDENTIFIERS["circle"] else "tflite"
        yield File(str(job), case.data, fmt, (case.origin, *case.done))


class Tally:
    """What was compared.  ``lax``: findings; ``strict``: what the decoder alone refuses, by its words."""

    def __init__(self) -> None:
        self.files = 0
        self.both = 0
        self.lax: list[File] = []
        self.strict: Counter[str] = Counter()

    def add(self, file: File, theirs: bool) -> None:
        said = refusal(file)
        self.files += 1
        self.both += theirs and not said
        if said and theirs:
            self.strict[said] += 1
        elif not said and not theirs:
            self.lax.append(file)

    def __str__(self) -> str:
        alone = self.strict.total()
        refused = self.files - self.both - alone - len(self.lax)
        head = f"{self.files} files: {self.both} taken by both, {refused} refused by both, "
        head += f"{alone} refused by the decoder alone, {len(self.lax)} by the C++ verifier alone"
        return "\n".join([head, *(f"  {count:6} {said}" for said, count in self.strict.most_common())])


def compare(native: Native, files: Iterator[File], tally: Tally) -> None:
    while batch := list(islice(files, BATCH)):
        for fmt in IDENTIFIERS:
            some = [file for file in batch if file.format == fmt]
            for file, theirs in zip(some, native.accepted([f.data for f in some], fmt), strict=True):
                tally.add(file, theirs)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools.verifier", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--damaged", type=int, default=5000, help="files with damaged structure")
    for kind in ("blind", "structured", "extreme"):
        parser.add_argument(f"--{kind}", type=int, default=0, help=f"{kind} mutations of tools/fuzz")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flatc", default="flatc", help="the compiler of the schema")
    parser.add_argument("--include", type=Path, help="headers of flatbuffers, of the version of flatc")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where findings are kept")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", FormatWarning)
    try:
        with tempfile.TemporaryDirectory() as folder:
            tally = run(arguments, Native(Path(folder), arguments.flatc, arguments.include))
    except CirclekitError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    print(tally)
    for file in tally.lax:
        print(f"{file.name} ({', '.join(file.done)})")
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            (arguments.keep / f"{file.name.replace(':', '_')}.{file.format}").write_bytes(file.data)
    return 1 if tally.lax else 0


def run(arguments: argparse.Namespace, native: Native) -> Tally:
    tally, seeds, seed = Tally(), all_seeds(SHARED), arguments.seed
    compare(native, damaged_files(seeds, arguments.damaged, seed), tally)
    for kind in ("blind", "structured", "extreme"):
        compare(native, fuzzed_files(seeds, kind, getattr(arguments, kind), seed), tally)
    return tally


if __name__ == "__main__":
    sys.exit(main())
