# SPDX-License-Identifier: Apache-2.0
"""One case of fuzzing, made from its kind, random seed and number, and from the seed files."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz.mutate_bytes import mutate_bytes
from tools.fuzz.mutate_model import mutate_model
from tools.fuzz.mutate_text import mutate_text
from tools.fuzz.seeds import Seeds
from tools.fuzz.verifier import damaged_file

KINDS = ("structured", "blind", "verifier", "text")
"""In this order: models changed field by field, models changed byte by byte, files on which only the decoder
and LiteRT's verifier are compared, and recipes."""


@dataclass(frozen=True)
class Job:
    """Case ``number`` of one of KINDS, in the run with the random seed ``seed``."""

    kind: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}:{self.number}"

    @staticmethod
    def parse(text: str) -> Job:
        """Return the job that is printed as ``text``; raise ValueError if there is none."""
        kind, seed, number = text.split(":")
        if kind not in KINDS:
            raise ValueError(f"expected one of {', '.join(KINDS)}, got {kind}")
        return Job(kind, int(seed), int(number))


@dataclass(frozen=True)
class Case:
    """A file to run.  ``origin``: the name of the mutated file or recipe, or of this file if nothing was
    mutated; ``verifier`` for cases of this kind.  ``done``: the names of the mutations.
    """

    data: bytes
    suffix: str
    origin: str
    done: tuple[str, ...] = ()


def case_of(path: Path) -> Case:
    """Return the case that consists of an existing file."""
    return Case(path.read_bytes(), path.suffix, path.name)


def make_case(job: Job, seeds: Seeds) -> Case:
    """Return the case of a job; the same job and the same ``seeds`` give the same case."""
    rng = random.Random(str(job))
    if job.kind == "text":
        name, text = seeds.text(rng)
        text, done = mutate_text(text, [seeds.text(rng)[1] for _ in range(2)], rng)
        suffix = ".ck" if name.endswith(".ck") else ".recipe"
        return Case(text.encode("utf-8", "surrogatepass"), suffix, name, tuple(done))
    if job.kind == "verifier":
        data, done = damaged_file(seeds, rng)
        return Case(data, ".tflite", job.kind, tuple(done))
    seed = seeds.file(rng)
    if job.kind == "blind":
        data, done = mutate_bytes(seed.data, seeds.file(rng).data, rng)
    else:
        data, done = mutate_model(seed.data, seed.format, rng)
    return Case(data, ".circle" if data[4:8] == b"CIR0" else ".tflite", seed.name, tuple(done))
