# SPDX-License-Identifier: Apache-2.0
"""One case: made from its number alone, so that it can be made again."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.fuzz.blind import mutate_bytes
from tools.fuzz.extremes import mutate_extremely
from tools.fuzz.seeds import Seeds
from tools.fuzz.trees import mutate_model
from tools.fuzz.words import mutate_text

KINDS = ("structured", "extreme", "blind", "text")


@dataclass(frozen=True)
class Job:
    """Which case: number ``number`` of a kind, of the run with ``seed``."""

    kind: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}:{self.number}"

    @staticmethod
    def parse(text: str) -> Job:
        kind, seed, number = text.split(":")
        if kind not in KINDS:
            raise ValueError(f"{kind} is none of {', '.join(KINDS)}")
        return Job(kind, int(seed), int(number))


@dataclass(frozen=True)
class Case:
    """``data``: the file, bytes or text.  ``done``: how it was made from ``origin``."""

    data: bytes
    is_text: bool
    origin: str
    done: tuple[str, ...]

    @property
    def suffix(self) -> str:
        if self.is_text:
            return ".ck" if self.origin.endswith(".ck") else ".recipe"
        return ".circle" if self.data[4:8] == b"CIR0" else ".tflite"


def make_case(job: Job, seeds: Seeds) -> Case:
    """The case of a job."""
    rng = random.Random(str(job))
    if job.kind == "text":
        name, text = seeds.text(rng)
        text, done = mutate_text(text, [seeds.text(rng)[1] for _ in range(2)], rng)
        return Case(text.encode("utf-8", "surrogatepass"), True, name, tuple(done))
    seed = seeds.file(rng)
    if job.kind == "blind":
        data, done = mutate_bytes(seed.data, seeds.file(rng).data, rng)
    elif job.kind == "extreme":
        data, done = mutate_extremely(seed.data, seed.format, rng)
    else:
        data, done = mutate_model(seed.data, seed.format, rng)
    return Case(data, False, seed.name, tuple(done))
